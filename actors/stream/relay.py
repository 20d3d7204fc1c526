"""The way from a buffer to its parent's lane in another queue: one push in flight, in order, as much as there is credit for."""

import asyncio
from typing import Final

from ...messages.errors import RuntreeError
from .buffer import Buffer
from .lane_port import LanePort
from .signal import Signal

_PUSH_ITEMS: Final = 4096
_PUSH_BYTES: Final = 80_000
_IDLE_SECONDS: Final = 30.0


class Relay:
    """A task that empties a buffer into a lane."""

    def __init__(self, buffer: Buffer, port: LanePort, lane: str, producer: str) -> None:
        self._buffer, self._port, self._lane, self._producer = buffer, port, lane, producer
        self._in_flight = 0
        self._moved = Signal()
        self.error: RuntreeError | None = None
        """Why the lane can't be reached any more."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def settled(self, timeout: float) -> bool:
        """Wait until everything that is in the buffer now has been accepted; False if that takes longer than `timeout` seconds."""
        ticket = self._buffer.accepted
        deadline = asyncio.get_running_loop().time() + timeout
        while self._buffer.left - self._in_flight < ticket:
            left = deadline - asyncio.get_running_loop().time()
            if self.error is not None:
                raise self.error
            if left <= 0 or not await self._moved.wait(left):
                return False
        return True

    async def aclose(self) -> None:
        """End the task; what was not relayed stays in the buffer."""
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _run(self) -> None:
        try:
            while True:
                if not len(self._buffer):
                    await self._buffer.data.wait(_IDLE_SECONDS)
                else:
                    await self._relay_some()
        except RuntreeError as error:
            self.error = error
            self._buffer.set_flow("void")
            self._moved.notify()

    async def _relay_some(self) -> None:
        frames = self._buffer.take(_PUSH_ITEMS, _PUSH_BYTES)
        self._in_flight = len(frames)
        reply = await self._port.push(self._lane, [frame.to_bytes() for frame in frames])
        self._in_flight = 0
        if reply.accepted < len(frames):
            self._buffer.give_back(frames[reply.accepted :])
            await self._port.wait_for_credit(self._lane, self._producer)
        self._moved.notify()
