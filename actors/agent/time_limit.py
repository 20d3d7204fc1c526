"""A time limit on a stream of events that leaves alone whoever reads it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeVar, cast

T = TypeVar("T")

_END = object()


class OutOfTimeError(TimeoutError):
    """The time given to a stream is over."""


class _Timer:
    """Ends the wait for the next event, and nothing else: what readers do between two events is not interrupted."""

    def __init__(self, seconds: float) -> None:
        self._handle = asyncio.get_running_loop().call_later(seconds, self._expire)
        self._waiting: asyncio.Task[object] | None = None
        self._cancels = 0
        self._struck = False
        self.expired = False

    def _expire(self) -> None:
        self.expired = True
        if self._waiting is not None:
            self._struck = True
            self._waiting.cancel()

    def stop(self) -> None:
        self._handle.cancel()

    def __enter__(self) -> None:
        self._waiting = asyncio.current_task()
        self._cancels = self._waiting.cancelling() if self._waiting is not None else 0

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> bool:
        task, self._waiting = self._waiting, None
        if not self._struck or task is None:
            return False
        self._struck = False
        # A cancel that came from elsewhere at the same moment stays one.
        return task.uncancel() <= self._cancels and kind is asyncio.CancelledError


async def within(events: AsyncIterator[T], seconds: float) -> AsyncGenerator[T, None]:
    """Yield what comes until the time is over.

    The stream itself is not closed, which is the business of whoever opened it.

    Args:
        events: The stream.
        seconds: For all of it.

    Raises:
        OutOfTimeError: It did not end in time.
    """
    iterator = aiter(events)
    timer = _Timer(seconds)
    try:
        while True:
            event: T | object = _END
            with timer:
                event = await anext(iterator, _END)
            if timer.expired:
                raise OutOfTimeError
            if event is _END:
                return
            yield cast(T, event)
    finally:
        timer.stop()
