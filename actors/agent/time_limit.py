"""A time limit on a stream of events that leaves alone whoever reads it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeVar

T = TypeVar("T")


class OutOfTimeError(TimeoutError):
    """The time given to a stream is over."""


class _Timer:
    """Ends the wait for the next event, and nothing else: what readers do between two events is not interrupted."""

    def __init__(self, seconds: float) -> None:
        self._handle = asyncio.get_running_loop().call_later(seconds, self._expire)
        self._struck = False
        self.waiting: asyncio.Task[object] | None = None
        """The task that waits for an event; not always the same, as a reader may wait in tasks of its own."""
        self.cancels = 0
        """Cancels it was under when the wait began."""
        self.expired = False

    def _expire(self) -> None:
        self.expired = True
        if self.waiting is not None:
            self._struck = True
            self.waiting.cancel()

    def stop(self) -> None:
        self._handle.cancel()

    def settle(self) -> bool:
        """Take back the cancel, if there was one, and return whether it was the only one."""
        task, self.waiting = self.waiting, None
        if not self._struck or task is None:
            return False
        self._struck = False
        # A cancel that came from elsewhere at the same moment stays one.
        return task.uncancel() <= self.cancels


async def within(events: AsyncIterator[T], seconds: float) -> AsyncGenerator[T, None]:
    """Yield what comes until the time is over.

    The stream itself is not closed, which is the business of whoever opened it.

    Args:
        events: The stream.
        seconds: For all of it.

    Raises:
        OutOfTimeError: It did not end in time.
    """
    following, timer, current_task = aiter(events).__anext__, _Timer(seconds), asyncio.current_task
    try:
        while True:
            # No context manager and no call where nothing happens: this runs once for every token.
            timer.waiting = task = current_task()
            timer.cancels = task.cancelling() if task is not None else 0
            try:
                event = await following()
            except StopAsyncIteration:
                timer.settle()
                if timer.expired:
                    raise OutOfTimeError from None
                return
            except BaseException as error:
                # What a stream makes of the cancel, such as an error of its transport, is not the cause.
                if timer.settle() and isinstance(error, Exception | asyncio.CancelledError):
                    raise OutOfTimeError from error
                raise
            if timer.expired:
                timer.settle()
                raise OutOfTimeError
            timer.waiting = None
            yield event
            if timer.expired:
                raise OutOfTimeError
    finally:
        timer.stop()
