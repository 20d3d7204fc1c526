"""The producer's side of a lane in a queue actor."""

from collections.abc import Sequence
from typing import Any

from ..messages.codec import Frame
from ..messages.control import LaneAddress
from ..messages.items import Stamp, TerminalItem
from .remote import Handle, answer, find
from .stream.lane_port import PushReply
from .stream.lanes import Bounds
from .stream.tracking import Ending

_WAIT_TIMEOUT = 60.0
"""Twice the longest wait of a queue: beyond it the queue hangs."""


class LaneClient:
    """Calls a queue actor by its name; finds it at the first call and keeps the handle."""

    def __init__(self, queue: str, namespace: str) -> None:
        self.queue = queue
        self._namespace = namespace
        self._handle: Handle | None = None

    async def push(self, lane: str, frames: Sequence[bytes]) -> PushReply:
        """See `LanePort.push`."""
        handle = self._handle or await self._actor()
        reply: PushReply = await answer(handle.push.remote(lane, frames), "stream queue", _WAIT_TIMEOUT)
        return reply

    async def wait_for_credit(self, lane: str, producer: str) -> PushReply:
        """See `LanePort.wait_for_credit`."""
        reply: PushReply = await self._call("wait_for_credit", lane, producer)
        return reply

    async def open(self, lane: str, root_run_id: str, bounds: Bounds, upstream: LaneAddress | None) -> None:
        """Make a lane."""
        await self._call("open", lane, root_run_id, bounds, upstream)

    async def settled(self, lane: str) -> None:
        """Return when what the lane holds now was accepted by its parent's lane."""
        while not await self._call("settled", lane):
            pass

    async def end_of(self, stamp: Stamp, lane: str) -> TerminalItem | None:
        """Return the terminal item of a run, if the lane has it."""
        frame: bytes | None = await self._call("end_of", stamp, lane)
        if frame is None:
            return None
        [item] = Frame.from_bytes(frame).items()
        assert isinstance(item, TerminalItem)
        return item

    async def thin(self, lane: str) -> None:
        """Let what came through the lane wait for no reader any more."""
        await self._call("thin", lane)

    async def close(self, stamp: Stamp, lane: str, ending: Ending, *, known_only: bool = False) -> None:
        """Finish a run that can't do it itself."""
        await self._call("close", stamp, lane, ending, known_only)

    async def _call(self, method: str, *args: Any) -> Any:
        handle = self._handle or await self._actor()
        return await answer(getattr(handle, method).remote(*args), "stream queue", _WAIT_TIMEOUT)

    async def _actor(self) -> Handle:
        self._handle = await find(self.queue, self._namespace, "stream queue")
        return self._handle
