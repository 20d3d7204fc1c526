"""Objects as bytes, functions and classes of a driver script included; only ever read by processes of the same job."""

from typing import Any

import cloudpickle  # pyright: ignore[reportMissingTypeStubs]

_cloudpickle: Any = cloudpickle


def pack(value: Any) -> bytes:
    """Return an object as bytes; raises whatever its parts raise when they can't be pickled."""
    data: bytes = _cloudpickle.dumps(value)
    return data


def unpack(data: bytes) -> Any:
    """Return the object of `pack`."""
    return _cloudpickle.loads(data)
