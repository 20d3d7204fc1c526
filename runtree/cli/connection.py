"""How commands come to a Runtime: quiet, and only some of them may start a Ray of their own."""

import logging
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ..actors.runtime import Runtime

NAMESPACE: Final = "runtree"

_QUIET: Final[dict[str, Any]] = {"log_to_driver": False, "logging_level": logging.ERROR}


def open_runtime(namespace: str, address: str | None, *, start_ray: bool = True) -> "Runtime":
    """Return a Runtime to be entered; without `start_ray` it raises `AddressError` where no cluster runs."""
    from ..actors.runtime import Runtime

    # Who only looks or cancels starts no run, and needs no warm process.
    warm = 2 if start_ray else 0
    return Runtime(address, namespace, start_ray=start_ray, warm=warm, ray_options=_QUIET)
