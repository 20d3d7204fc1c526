"""What producers and readers of lanes see of a queue, wherever it lives."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

Flow = Literal["block", "drop_oldest", "collapse", "void"]
"""What a full buffer does.

`block`: producers wait. `drop_oldest`: the oldest deltas make room. `collapse`: nobody reads at the moment but somebody waits for the end:
deltas make room, all else is kept. `void`: nobody will ever read: everything is counted and thrown away.
"""


class PushReply(NamedTuple):
    """The answer to a push."""

    accepted: int
    """Frames that were taken, from the front."""
    items: int
    """Credit: items for which there is room now."""
    bytes: int
    """Credit: bytes for which there is room now."""
    fenced: bool = False
    """The run's attempt was closed: nothing more of it is taken."""


class LanePort(Protocol):
    """The producer's side of one lane."""

    async def push(self, lane: str, frames: Sequence[bytes]) -> PushReply:
        """Offer frames; answers at once with what was taken and the room that is left.

        Raises:
            RuntimeUnavailableError: The queue is gone.
        """
        ...

    async def wait_for_credit(self, lane: str, producer: str) -> PushReply:
        """Wait until the lane has room, for 20 to 30 s at most; a new wait of a producer ends its older one."""
        ...


class EmitterPort(LanePort, Protocol):
    """What an emitter needs besides."""

    async def store(self, lane: str, key: str, line: bytes) -> str:
        """Keep the line of an item that is too large for a buffer, until its tree is dropped; returns its reference."""
        ...
