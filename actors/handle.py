"""The caller's side of a run: its stream, its result, its cancel."""

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio

from ..messages.errors import RunCancelledError, RunFailedError, RuntimeClosedError, RuntimeUnavailableError
from ..messages.items import TERMINAL_KINDS, Item, StreamItem
from ..messages.result import CancelReport, RunRecord, RunResult, RunStatus
from ..messages.usage import Totals
from .agent import Agent, parse_output
from .session import Session, Taken
from .stream.reader import FrameReader
from .stream.text import VisibleText
from .supervisor_client import SupervisorClient

_STALL_SECONDS = 5.0
"""How long a reader in another task may take for its next item, before a pending `result()` counts the stream as unread."""

_LAST_FRAMES_SECONDS = 2.0

_Cancel = Callable[[str, str, float], Awaitable[CancelReport]]


class RunHandle:
    """A started run. Iterate it for the items of the whole tree, await `result()` for the end; both, in any order, or neither."""

    def __init__(self, agent: Agent, session: Session, supervisor: SupervisorClient, cancel: _Cancel) -> None:
        self._agent = agent
        self._session = session
        self._supervisor = supervisor
        self._cancel = cancel
        self._frames = FrameReader()
        self._items: deque[StreamItem] = deque()
        self._fetch: asyncio.Task[Taken] | None = None
        self._ended = False
        self._reader: asyncio.Task[Any] | None = None
        self._read = 0
        self._collapsed = False
        self._closed = weakref.finalize(self, session.reader_gone)
        self._closed.atexit = False

    @property
    def run_id(self) -> str:
        """Id of the root run, and of its tree."""
        return self._session.run_id

    @property
    def status(self) -> RunStatus:
        """State of the run, as far as this process knows."""
        call = self._session.call
        if call.done() and not call.cancelled() and call.exception() is None:
            return call.result().status
        return "running"

    def __repr__(self) -> str:
        return f"<RunHandle {self.run_id} {self.status}>"

    def __aiter__(self) -> AsyncIterator[StreamItem]:
        return self

    async def __anext__(self) -> StreamItem:
        while not self._items:
            self._items.extend(await self.next_items())
        self._read += 1
        return self._items.popleft()

    async def next_items(self) -> list[StreamItem]:
        """Return the items that came next, at least one.

        Raises:
            StopAsyncIteration: The root's terminal item was returned before.
        """
        if self._items:
            items = list(self._items)
            self._items.clear()
            return items
        if self._ended:
            raise StopAsyncIteration
        self._reader = asyncio.current_task()
        if self._collapsed:
            self._collapsed = False
            await self._session.resume()
        while True:
            try:
                items = self._decode(await self._next_taken())
            except RuntimeUnavailableError:
                items = await self._end_without_stream()
            if items:
                self._ended = _ends(items[-1], self.run_id)
                return items

    async def text_stream(self) -> AsyncIterator[str]:
        """Yield the visible text of the root run, as it comes.

        Text can't be taken back: where a try, or the whole attempt of a run whose process was lost, is discarded after some of it was
        shown, a line in brackets says so.
        """
        text = VisibleText(self.run_id)
        async for item in self:
            if piece := text.of(item):
                yield piece

    async def result(self) -> RunResult:
        """Wait for the end of the run, whether or not somebody reads the stream.

        While it waits and nobody reads, full buffers drop deltas (`items_dropped` stands in their place) so that the run can end.

        Raises:
            RunFailedError: The run failed; its `result` has what was done.
            RunCancelledError: The run was cancelled; its `result` has what was done.
        """
        result = await self.outcome()
        if result.status == "failed":
            raise RunFailedError(result)
        if result.status == "cancelled":
            raise RunCancelledError(result)
        return result.model_copy(update={"output": parse_output(self._agent, result)})

    async def outcome(self) -> RunResult:
        """Wait like `result()`, and return the end whatever it is."""
        if self._session.call.cancelled():
            raise RuntimeClosedError("RunHandle.result()")
        watch = asyncio.create_task(self._let_it_end(asyncio.current_task()))
        try:
            result: RunResult = await asyncio.shield(self._session.call)
        finally:
            watch.cancel()
        return result.model_copy(update={"runs": await self._ledger(result)})

    async def cancel(self, reason: str = "user", grace: float = 2.0) -> CancelReport:
        """Cancel the run and all below it; returns when they have ended or were killed.

        Args:
            reason: Shown in the terminal items.
            grace: Seconds each run has to end by itself, before its process is killed.
        """
        return await self._cancel(self.run_id, reason, grace)

    async def usage(self) -> Totals:
        """Return what the run and its tree have used up to now."""
        return await self._supervisor.totals(self.run_id)

    def close(self) -> None:
        """Give up the stream: what was not read is thrown away. The run goes on, unless `on_reader_gone="cancel"`."""
        self._ended = True
        self._items.clear()
        if self._fetch is not None:
            self._fetch.cancel()
        self._closed()

    async def _next_taken(self) -> Taken:
        """Return what was fetched ahead, and fetch ahead again. A cancelled reader loses nothing: the fetch goes on without it."""
        fetch = self._fetch or asyncio.ensure_future(self._session.take())
        self._fetch = fetch
        call = self._session.call
        await asyncio.wait({fetch, call}, return_when=asyncio.FIRST_COMPLETED)
        if not fetch.done() and not call.cancelled() and call.exception() is not None:
            # The run broke off without an end in the stream; what it said last may still be on its way.
            await asyncio.wait({fetch}, timeout=_LAST_FRAMES_SECONDS)
            if not fetch.done():
                call.result()
        taken = await asyncio.shield(fetch)
        self._fetch = asyncio.ensure_future(self._session.take()) if taken.frames else None
        return taken

    def _decode(self, taken: Taken) -> list[StreamItem]:
        items = list(self._frames.read(*taken))
        if items and _ends(items[-1], self.run_id) and self._fetch is not None:
            self._fetch.cancel()
            self._fetch = None
        return items

    async def _end_without_stream(self) -> list[StreamItem]:
        """Make the missing ends of a tree whose queue is gone for good."""
        if self._session.call.cancelled():
            raise RuntimeClosedError("reading the stream of a RunHandle")
        result = await asyncio.shield(self._session.call)
        ledger = await self._session.ledger()
        end = self._session.end_of(result, ledger, self._frames.attempt_of(self.run_id))
        return list(self._frames.read([end.to_bytes()], ledger=ledger))

    async def _let_it_end(self, waiting: "asyncio.Task[Any] | None") -> None:
        """See to it that a full stream which nobody reads does not hold up the run that `waiting` wants the end of."""
        while self._reader is not None and self._reader is not waiting and not self._reader.done():
            seen = self._read
            await asyncio.sleep(_STALL_SECONDS)
            if seen == self._read:
                break
        self._collapsed = True
        await self._session.collapse()

    async def _ledger(self, result: RunResult) -> tuple[RunRecord, ...]:
        try:
            return await self._supervisor.ledger(self.run_id)
        except RuntimeUnavailableError:
            return result.runs


async def started(starting: "asyncio.Task[RunHandle]") -> RunHandle:
    """Wait for a start, which can't be undone half-way: a caller that is cancelled meanwhile leaves no run behind."""
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True):
            await asyncio.wait({starting})
            if starting.exception() is None:
                await starting.result().cancel(reason="the caller was cancelled")
        raise


def _ends(item: StreamItem, run_id: str) -> bool:
    return isinstance(item, Item) and getattr(item, "kind", "") in TERMINAL_KINDS and item.run_id == run_id
