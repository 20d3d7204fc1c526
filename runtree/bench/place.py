"""Where it is measured: a Runtime of its own in a namespace of its own, of which nothing stays behind."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from ..actors.connection import is_connected
from ..actors.observer import Observer
from ..actors.runtime import Runtime

NAMESPACE: Final = "runtree-bench"

_QUIET: Final[dict[str, Any]] = {"logging_level": logging.ERROR, "log_to_driver": False}


@asynccontextmanager
async def place(address: str | None, warm: int, **options: Any) -> AsyncGenerator[Runtime]:
    """Return a Runtime whose warm processes are ready.

    Args:
        address: Of the Ray to join; see `Runtime`.
        warm: Warm processes.
        options: Further options of the Runtime.
    """
    try:
        async with Runtime(address, NAMESPACE, warm=warm, ray_options=_QUIET, **options) as runtime:
            await runtime.warmed()
            yield runtime
    finally:
        if is_connected():  # to a Ray that goes on
            async with Observer(address, NAMESPACE) as observer:
                await observer.down()
