"""An exchange as it happened: what was sent, which bytes came back and when."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Recording:
    """One request and its answer, as far as it came. No key stands in it."""

    request: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The JSON that was sent."""
    status: int | None = None
    """The HTTP status; `None`: there was no answer."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Headers of the answer, names in lower case."""
    reads: tuple[tuple[float, bytes], ...] = ()
    """The reads of the body, each with the seconds since the request was sent."""
    seconds: float = 0.0
    """How long it took."""
    fault: str | None = None
    """What went wrong on the way, in words."""
    bound: Literal["time", "bytes"] | None = None
    """The bound at which reading was given up."""

    @property
    def body(self) -> bytes:
        """All bytes of the body."""
        return b"".join(data for _, data in self.reads)

    @property
    def accepted(self) -> bool:
        """Whether the server took the request."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def refused(self) -> bool:
        """Whether the server found fault with the request itself."""
        return self.status is not None and self.status in _REFUSALS

    @property
    def content_type(self) -> str:
        """The media type, without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


_REFUSALS = frozenset({400, 405, 409, 411, 415, 422, 500, 501})
"""With 500: some servers answer with it to requests that they can't read."""
