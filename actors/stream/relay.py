"""The way from a buffer to its parent's lane in another queue: one push in flight, in order, as much as there is credit for."""

import asyncio
from typing import Final

from ...messages.errors import InternalError, RuntreeError
from .buffer import Buffer
from .lane_port import LanePort, PushReply

_PUSH_ITEMS: Final = 4096
_PUSH_BYTES: Final = 64_000
_IDLE_SECONDS: Final = 30.0


class Relay:
    """A task that empties a buffer into a lane."""

    def __init__(self, buffer: Buffer, port: LanePort, lane: str, producer: str) -> None:
        self._buffer, self._port, self._lane, self._producer = buffer, port, lane, producer
        self._in_flight: int | None = None
        """Number of the oldest frame that was taken out and is not accepted yet."""
        self._credit = PushReply(0, _PUSH_ITEMS, _PUSH_BYTES)
        self._thinning = False
        self._waiting: asyncio.Task[PushReply] | None = None
        self.error: RuntreeError | None = None
        """Why the lane can't be reached any more."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def settled(self, timeout: float) -> bool:
        """Wait until everything that is in the buffer now has been accepted; False if that takes longer than `timeout` seconds."""
        newest = self._buffer.accepted
        deadline = asyncio.get_running_loop().time() + timeout
        while self._oldest() <= newest:
            left = deadline - asyncio.get_running_loop().time()
            if self.error is not None:
                raise self.error
            if left <= 0 or not await self._buffer.moved.wait(left):
                return False
        return True

    def thin(self) -> None:
        """Stop waiting for room: whoever the lane belongs to is over. Deltas that find no room are dropped from now on, and marked."""
        self._thinning = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def aclose(self) -> None:
        """End the task; what was not relayed stays in the buffer."""
        self._task.cancel()
        await asyncio.wait({self._task})

    def _oldest(self) -> int:
        return self._buffer.oldest if self._in_flight is None else self._in_flight

    async def _run(self) -> None:
        try:
            while True:
                if not len(self._buffer):
                    await self._buffer.wait_for_data(_IDLE_SECONDS)
                else:
                    await self._relay_some()
        except RuntreeError as error:
            self._give_up(error)
        except Exception as error:  # noqa: BLE001 - whoever waits for the lane must be told, whatever it was
            self._give_up(InternalError(f"a relay to lane {self._lane} raised {type(error).__name__}: {error}"))

    def _give_up(self, error: RuntreeError) -> None:
        self.error = error
        self._buffer.set_flow("void")

    async def _relay_some(self) -> None:
        credit = self._credit
        slots = self._buffer.take_slots(min(_PUSH_ITEMS, credit.items), min(_PUSH_BYTES, credit.bytes))
        self._in_flight = slots[0].number
        self._credit = await self._port.push(self._lane, [slot.frame.to_bytes() for slot in slots])
        self._in_flight = None
        accepted = self._credit.accepted
        if accepted < len(slots):
            self._buffer.give_back(slots[accepted:])
        self._buffer.moved.notify()
        if accepted < len(slots):
            await self._wait_for_room()

    async def _wait_for_room(self) -> None:
        if not self._thinning:
            self._waiting = asyncio.ensure_future(self._port.wait_for_credit(self._lane, self._producer))
            try:
                self._credit = await self._waiting
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
            finally:
                self._waiting = None
        if self._thinning:
            self._buffer.thin()
            self._credit = PushReply(0, _PUSH_ITEMS, _PUSH_BYTES)
