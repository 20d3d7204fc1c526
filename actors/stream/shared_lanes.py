"""The lanes of one queue as the producers of one process share them: one call for what they push at the same time, one wait for each full lane."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from ..batcher import Batcher
from .lane_port import PushReply

Push: TypeAlias = tuple[str, Sequence[bytes]]
"""A lane, and frames for it."""

_WAKE_AT_LEAST: Final = 8
_ITEMS_PER_WAITER: Final = 32
"""Room goes to a few producers at a time: a thousand that push into the room of ten are refused and ask again."""


class SharedLanes:
    """Stands between the producers of a process and a queue. It belongs to one event loop.

    Each producer has at most one push in flight to a lane, as it would without; here the pushes of all that gather while a call is in flight become the
    next call. Who waits for room in a lane waits here, behind the one call that waits there.
    """

    def __init__(
        self,
        push_many: Callable[[Sequence[Push]], Awaitable[Sequence[PushReply | Exception]]],
        wait_for_credit: Callable[[str], Awaitable[PushReply]],
    ) -> None:
        """Make it.

        Args:
            push_many: The queue's call for several pushes; answers each.
            wait_for_credit: The queue's call that waits for room in a lane.
        """
        self._pushes: Batcher[Push, PushReply] = Batcher(push_many, _size)
        self._wait_for_credit = wait_for_credit
        self._waiters: dict[str, deque[asyncio.Future[PushReply]]] = {}
        self._waits: dict[str, asyncio.Task[None]] = {}

    async def push(self, lane: str, frames: Sequence[bytes]) -> PushReply:
        """Push, together with the other producers of the process."""
        return await self._pushes.ask((lane, frames))

    async def wait_for_credit(self, lane: str) -> PushReply:
        """Wait until the lane has room, in turn with the other producers of the process."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[PushReply] = loop.create_future()
        self._waiters.setdefault(lane, deque()).append(waiter)
        if lane not in self._waits:
            self._waits[lane] = loop.create_task(self._wait(lane))
        return await waiter

    async def _wait(self, lane: str) -> None:
        waiters = self._waiters[lane]
        try:
            while _someone_waits(waiters):
                reply = await self._wait_for_credit(lane)
                _wake(waiters, len(waiters) if reply.fenced else reply.items // _ITEMS_PER_WAITER, reply)
        except Exception as error:  # noqa: BLE001 - whatever it was, it belongs to those who wait
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_exception(error)
        finally:
            # Nothing is awaited between the last look at the waiters and here, so that none is forgotten; only the end of the loop leaves some.
            for waiter in waiters:
                waiter.cancel()
            del self._waits[lane], self._waiters[lane]


def _someone_waits(waiters: deque[asyncio.Future[PushReply]]) -> bool:
    while waiters and waiters[0].done():
        waiters.popleft()
    return bool(waiters)


def _wake(waiters: deque[asyncio.Future[PushReply]], count: int, reply: PushReply) -> None:
    left = max(_WAKE_AT_LEAST, count)
    while left and waiters:
        waiter = waiters.popleft()
        if not waiter.done():
            waiter.set_result(reply)
            left -= 1


def _size(push: Push) -> int:
    return sum(map(len, push[1]))
