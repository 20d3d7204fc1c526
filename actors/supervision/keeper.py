"""Group commit: what changed is written on a thread of its own, and everybody is answered after the commit that holds his change.

While one commit is in flight, the next gathers; no timer, and a quiet supervisor adds the time of one commit.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from ...messages.errors import InternalError, RuntreeError, StoreError
from .changes import Changes
from .saved import Batch

COMMIT_SECONDS: Final = 20.0
"""A disk that takes longer counts as failed for those who wait; less than a caller's own patience."""


class Keeper:
    """Keeps a store up to date with the changes of a registry. It belongs to the registry's event loop."""

    def __init__(self, changes: Changes, write: Callable[[Batch], None], path: str) -> None:
        """Begin with nothing to write.

        Args:
            changes: What has changed.
            write: Writes a batch, or raises an error of runtree; called on a thread of its own.
            path: Names the store in errors.
        """
        self._changes = changes
        self._write = write
        self._path = path
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")
        self._current: asyncio.Future[None] | None = None
        self._next: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self.commits = 0
        """Transactions so far."""

    async def saved(self) -> None:
        """Return when all that has changed up to now is committed.

        Raises:
            StoreError: It could not be.
        """
        waiting = self._request()
        if waiting is None:
            return
        try:
            async with asyncio.timeout(COMMIT_SECONDS):
                await asyncio.shield(waiting)
        except TimeoutError:
            raise StoreError(self._path, f"no commit within {COMMIT_SECONDS:g} s", "Look at its disk") from None

    async def aclose(self) -> None:
        """Write what is left, and end the thread."""
        while self._task is not None:
            await asyncio.wait({self._task})
        self._thread.shutdown(wait=False)

    def _request(self) -> asyncio.Future[None] | None:
        if not self._changes:
            return self._next or self._current
        loop = asyncio.get_running_loop()
        if self._next is None:
            self._next = loop.create_future()
        if self._task is None:
            self._task = loop.create_task(self._write_all())
        return self._next

    async def _write_all(self) -> None:
        try:
            while self._next is not None:
                self._current, self._next = self._next, None
                error = await self._write_once()
                if error is None:
                    self._current.set_result(None)
                else:
                    self._current.set_exception(error)
                    self._current.exception()  # whoever waited may have given up
                self._current = None
        finally:
            self._task = None

    async def _write_once(self) -> RuntreeError | None:
        taken = self._changes.take()
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._write, Batch.of(taken))
        except RuntreeError as error:
            self._changes.put_back(taken)
            return error
        except Exception as error:  # noqa: BLE001 - nobody may be left waiting, and nothing may count as written
            self._changes.put_back(taken)
            return InternalError(f"a batch could not be written: {type(error).__name__}: {error}")
        self.commits += 1
        return None
