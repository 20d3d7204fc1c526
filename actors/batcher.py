"""Natural batching: while one call is in flight, what else is asked gathers for the next. No timers; an idle batcher adds one turn of the loop."""

import asyncio
import copy
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

from ..messages.errors import InternalError

MAX_REQUESTS: Final = 512
"""Requests of one batch: enough to make the call's own cost small, few enough that the other side's loop is not held for long."""

MAX_BYTES: Final = 64_000
"""Ray sends arguments below 100 KB inside the call; larger ones take a detour over the object store."""

_Request = TypeVar("_Request")
_Answer = TypeVar("_Answer")


class Batcher(Generic[_Request, _Answer]):
    """Requests of one process to one other, in the order in which they were asked. It belongs to one event loop.

    Each request has its own answer or error. One whose asker was cancelled is left out if it has not left yet; the others go on.
    """

    def __init__(
        self,
        send: Callable[[Sequence[_Request]], Awaitable[Sequence[_Answer | Exception]]],
        size: Callable[[_Request], int],
        *,
        max_requests: int = MAX_REQUESTS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """Make an idle batcher.

        Args:
            send: Makes the one call; returns an answer or an error for each request. What it raises is everybody's error.
            size: Returns about how many bytes a request takes.
            max_requests: Requests of one call.
            max_bytes: Bytes of one call; a single larger request goes alone.
        """
        self._send = send
        self._size = size
        self._max_requests, self._max_bytes = max_requests, max_bytes
        self._asked: deque[tuple[_Request, asyncio.Future[_Answer]]] = deque()
        self._sending: asyncio.Task[None] | None = None

    async def ask(self, request: _Request) -> _Answer:
        """Send a request, together with what others ask at the moment, and return its answer; raises its error."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[_Answer] = loop.create_future()
        self._asked.append((request, answer))
        if self._sending is None:
            self._sending = loop.create_task(self._send_all())
        return await answer

    async def _send_all(self) -> None:
        batch: list[tuple[_Request, asyncio.Future[_Answer]]] = []
        try:
            while batch := self._next_batch():
                await self._send_batch(batch)
        finally:
            self._sending = None
            # Only the end of the loop ends this task early: nobody may be left waiting for it.
            for _, answer in (*batch, *self._asked):
                answer.cancel()
            self._asked.clear()

    async def _send_batch(self, batch: Sequence[tuple[_Request, asyncio.Future[_Answer]]]) -> None:
        try:
            answers = await self._send([request for request, _ in batch])
        except Exception as error:  # noqa: BLE001 - whatever it was, it belongs to those who wait
            answers = [error] * len(batch)
        if len(answers) != len(batch):
            answers = [InternalError(f"{len(batch)} requests got {len(answers)} answers")] * len(batch)
        for (_, waiting), answer in zip(batch, answers, strict=True):
            if waiting.done():
                continue
            if isinstance(answer, Exception):
                # Each asker raises one of its own: a shared one would collect the tracebacks of all.
                waiting.set_exception(copy.copy(answer))
            else:
                waiting.set_result(answer)

    def _next_batch(self) -> list[tuple[_Request, asyncio.Future[_Answer]]]:
        batch: list[tuple[_Request, asyncio.Future[_Answer]]] = []
        size = 0
        while self._asked and len(batch) < self._max_requests:
            request, answer = self._asked[0]
            if answer.done():
                self._asked.popleft()
                continue
            size += self._size(request)
            if batch and size > self._max_bytes:
                break
            batch.append(self._asked.popleft())
        return batch
