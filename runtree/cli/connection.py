"""How commands come to a Runtime: quiet, and only some of them may start a Ray of their own."""

import logging
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ..actors.observer import Observer
    from ..actors.runtime import Runtime

NAMESPACE: Final = "runtree"

_QUIET: Final[dict[str, Any]] = {"log_to_driver": False, "logging_level": logging.ERROR}


def open_runtime(namespace: str, address: str | None) -> "Runtime":
    """Return a Runtime to be entered; it starts a Ray of its own where none runs."""
    from ..actors.runtime import Runtime

    return Runtime(address, namespace, ray_options=_QUIET)


def observe(namespace: str, address: str | None) -> "Observer":
    """Return a look at a namespace, to be entered; it raises `AddressError` where no Ray runs."""
    from ..actors.observer import Observer

    return Observer(address, namespace)
