"""The runtime for programs without an event loop: plain scripts and notebooks. The loop lives in a thread of its own."""

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from types import FrameType, TracebackType
from typing import Any, Self

from anyio.from_thread import BlockingPortal, start_blocking_portal

from ..messages.errors import RuntimeClosedError
from ..messages.items import StreamItem
from ..messages.limits import Limits
from ..messages.result import CancelReport, RunInfo, RunResult, RunStatus
from ..messages.transcript import Message
from ..messages.usage import Totals
from .agent import Agent
from .handle import RunHandle
from .open_runtime import EXIT_GRACE
from .runtime import Runtime
from .stream.text import VisibleText


class SyncRunHandle:
    """A started run: iterate it for its items, call `result()` for its end."""

    def __init__(self, handle: RunHandle, portal: BlockingPortal) -> None:
        self._handle = handle
        self._portal = portal

    @property
    def run_id(self) -> str:
        """See `RunHandle.run_id`."""
        return self._handle.run_id

    @property
    def status(self) -> RunStatus:
        """See `RunHandle.status`."""
        return self._handle.status

    def __repr__(self) -> str:
        return f"<SyncRunHandle {self.run_id} {self.status}>"

    def __iter__(self) -> Iterator[StreamItem]:
        while items := self._portal.call(self._next_items):
            yield from items

    def text_stream(self) -> Iterator[str]:
        """See `RunHandle.text_stream`."""
        text = VisibleText(self.run_id)
        for item in self:
            if piece := text.of(item):
                yield piece

    def result(self) -> RunResult:
        """See `RunHandle.result`."""
        return self._portal.call(self._handle.result)

    def cancel(self, reason: str = "user", grace: float = 2.0) -> CancelReport:
        """See `RunHandle.cancel`."""
        return self._portal.call(self._handle.cancel, reason, grace)

    def usage(self) -> Totals:
        """See `RunHandle.usage`."""
        return self._portal.call(self._handle.usage)

    def close(self) -> None:
        """See `RunHandle.close`."""
        self._portal.call(self._handle.close)

    async def _next_items(self) -> list[StreamItem]:
        # StopAsyncIteration can't cross a future, an empty list can.
        try:
            return await self._handle.next_items()
        except StopAsyncIteration:
            return []


class SyncRuntime:
    """`Runtime`, blocking; a context manager with the same arguments.

    An interrupt (Ctrl-C) inside the block cancels what is live, prints what was spent and goes on as `KeyboardInterrupt`, which ends a script
    with status 130; a second one exits at once.
    """

    def __init__(self, address: str | None = None, namespace: str = "runtree", **options: Any) -> None:
        """Take the arguments of `Runtime`."""
        self._runtime = Runtime(address, namespace, **options)
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None

    def __repr__(self) -> str:
        return f"<SyncRuntime of {self._runtime!r}>"

    def __enter__(self) -> Self:
        self._runtime.connect()
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal("asyncio", name="runtree"))
            self._portal.call(self._runtime.__aenter__)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        portal, self._portal = self._opened("close()"), None
        if isinstance(error, KeyboardInterrupt):
            sys.stderr.write("runtree: cancelling; interrupt again to exit at once\n")
            signal.signal(signal.SIGINT, _leave_at_once)
        with self._stack:
            portal.call(self._runtime.__aexit__, kind, error, trace)
        if isinstance(error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def start(
        self,
        agent: Agent,
        input: Any,  # noqa: A002 - the word users look for
        *,
        messages: Sequence[Message] = (),
        limits: Limits | None = None,
        deps: Any = None,
        variables: Mapping[str, Any] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> SyncRunHandle:
        """See `Runtime.start`."""
        portal = self._opened("start()")

        async def start() -> RunHandle:
            return await self._runtime.start(
                agent, input, messages=messages, limits=limits, deps=deps, variables=variables, tags=tags
            )

        return SyncRunHandle(portal.call(start), portal)

    def run(self, agent: Agent, input: Any, **options: Any) -> RunResult:  # noqa: A002 - the word users look for
        """See `Runtime.run`."""
        return self.start(agent, input, **options).result()

    def cancel(self, run_id: str, reason: str = "user", grace: float = EXIT_GRACE) -> CancelReport:
        """See `Runtime.cancel`."""
        return self._opened("cancel()").call(self._runtime.cancel, run_id, reason, grace)

    def runs(self, *, all: bool = False) -> tuple[RunInfo, ...]:  # noqa: A002 - reads well at the call
        """See `Runtime.runs`."""
        portal = self._opened("runs()")

        async def runs() -> tuple[RunInfo, ...]:
            return await self._runtime.runs(all=all)

        return portal.call(runs)

    def _opened(self, call: str) -> BlockingPortal:
        if self._portal is None:
            raise RuntimeClosedError(f"SyncRuntime.{call}")
        return self._portal


def _leave_at_once(_signal: int, _frame: FrameType | None) -> None:
    os._exit(130)
