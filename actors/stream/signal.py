"""A wake-up call for waiters of one event loop."""

import asyncio
from collections import OrderedDict


class Signal:
    """Waiters line up and are woken in turn; a waiter leaves on time-out or cancellation without a trace.

    A waiter that leaves after it was woken, but before it could act on that, passes its turn on.

    Not thread-safe: waiters and `notify` belong to one event loop.
    """

    def __init__(self) -> None:
        self._waiters: OrderedDict[asyncio.Future[bool], None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiters)

    def notify(self, count: int | None = None) -> None:
        """Wake the `count` waiters that have waited longest; all of them by default."""
        left = len(self._waiters) if count is None else count
        while self._waiters and left > 0:
            waiter = self._waiters.popitem(last=False)[0]
            if not waiter.done():
                waiter.set_result(True)
                left -= 1

    async def wait(self, timeout: float) -> bool:
        """Wait for the next call of `notify`.

        Args:
            timeout: Seconds.

        Returns:
            False if the time ran out.
        """
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        passed = True
        try:
            async with asyncio.timeout(timeout):
                await waiter
                passed = False
                return True
        except TimeoutError:
            return False
        finally:
            self._waiters.pop(waiter, None)
            if passed and waiter.done() and not waiter.cancelled():
                self.notify(1)
