"""One tool call while it runs: its scope, its flag, its clock and the sub-agents it started."""

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import anyio
import anyio.lowlevel

from ...messages.content import ToolCallBlock
from ...messages.control import Refused
from ...messages.errors import ToolError
from ...messages.items import Custom
from ...messages.reservations import Budget
from ...messages.result import RunResult
from ...messages.transcript import ToolResult
from .agent import Agent
from .cancel_flag import CancelFlag
from .context import ToolContext
from .state import RunState
from .subagents import Children, SubAgent
from .tool import Tool


class Call:
    """A call of the model; also what stands behind the `ToolContext` of its tool."""

    def __init__(self, state: RunState, children: Children, block: ToolCallBlock, number: int = 1) -> None:
        """Make a call that is not run yet.

        Args:
            state: Its run.
            children: The run's sub-agents.
            block: What the model said.
            number: Counts the calls of this tool in the answer, from 1.
        """
        context = state.context
        self._idempotency_key = f"{context.run_id}:{context.turn}:{block.tool_name}:{number}"
        self._state = state
        self._children = children
        self.block = block
        self.target: Tool | SubAgent | None = None
        self.value: Any = None
        self.result: ToolResult | None = None
        self.child_run_id: str | None = None
        self.timed_out = False
        self.started: float | None = None
        self.counted = False
        self.scope = anyio.CancelScope()
        self.flag = CancelFlag()
        self._untie: Callable[[], None] = _nothing
        self._mute: Callable[[], None] = _nothing
        self._timer: asyncio.TimerHandle | None = None
        self._spawned: set[anyio.Event] = set()
        self._waits = 0
        self._over = False

    @property
    def context(self) -> ToolContext:
        """The context of the call's tool."""
        block = self.block
        return ToolContext(
            self._state.context,
            call_id=block.call_id,
            tool_name=block.tool_name,
            idempotency_key=self._idempotency_key,
            cancelled=self.flag,
            services=self,
        )

    def begin(self, timeout: float | None) -> None:
        """Start the clock and tie the call to the run's flag."""
        self.started = time.perf_counter()
        self.flag, self._untie = self._state.flag.child()
        loop = asyncio.get_running_loop()
        # A tool may set its own flag, from its thread.
        self._mute = self.flag.on_cancel(lambda: loop.call_soon_threadsafe(self.scope.cancel))
        if self._state.flag.is_cancelled():
            self.scope.cancel()
        if timeout is not None:
            self._timer = loop.call_later(timeout, self._expire)

    async def end(self) -> None:
        """Wait for the runs the tool has started; what it left running is cancelled."""
        if self._timer is not None:
            self._timer.cancel()
        self._untie()
        self._over = True
        if self._spawned:
            self.flag.cancel("the tool call that started it has ended")
            with anyio.CancelScope(shield=True):
                for event in tuple(self._spawned):
                    await event.wait()
        self._mute()

    def _expire(self) -> None:
        self.timed_out = True
        self.flag.cancel("timeout")
        self.scope.cancel()

    def uncount(self) -> None:
        """Take the call out of the accounts: it was not carried out after all."""
        if self.counted:
            self.counted = False
            self._state.accounts.add_tool_calls(-1)

    async def run_child(self, target: SubAgent) -> RunResult | Refused:
        """Run the sub-agent that the model called."""

        def admitted(run_id: str) -> None:
            self.child_run_id = run_id

        with self._waiting():
            return await self._children.run(
                target.agent, target.key, self.value, call_id=self.block.call_id, flag=self.flag, on_admitted=admitted
            )

    @contextmanager
    def _waiting(self) -> Generator[None]:
        """Count the call as waiting while it has a sub-agent, also where its tool does something else beside that."""
        self._waits += 1
        if self._waits == 1:
            self._state.slot.begin_wait()
        try:
            yield
        finally:
            self._waits -= 1
            if not self._waits:
                self._state.slot.end_wait()

    def emit_custom(self, name: str, data: Any) -> None:
        """Emit a custom item."""
        self._state.emit(Custom, name=name, data=data)

    async def progress(self, message: str, fraction: float | None) -> None:
        """Emit a progress item, unless the call has its completion already."""
        if self._over:
            return
        block = self.block
        self._state.emit_delta(
            "tool_progress", call_id=block.call_id, tool_name=block.tool_name, message=message, fraction=fraction
        )
        await self._state.host.ready()

    async def spawn(self, agent: Agent | str, value: Any) -> RunResult:
        """Run a sub-agent for the tool."""
        if self._over:
            raise ToolError("the tool call has ended, it can't start runs any more")
        name = agent if isinstance(agent, str) else agent.name
        key = self._state.agents.child_key(self._state.key, name)
        ended = anyio.Event()
        self._spawned.add(ended)
        try:
            with self._waiting():
                end = await self._children.run(
                    self._state.agents.agent(key), key, value, call_id=None, flag=self.flag, on_admitted=_ignore
                )
        finally:
            ended.set()
            self._spawned.discard(ended)
        # The wait was shielded: a call that was stopped meanwhile must not go on as if nothing had happened.
        await anyio.lowlevel.checkpoint_if_cancelled()
        if not self._waits:
            await self._state.slot.take()
        if isinstance(end, Refused):
            return RunResult(run_id=end.run_id, status="failed", error=end.error)
        return end

    async def cancel_run(self, run_id: str | None, reason: str) -> None:
        """Cancel a run of the tree."""
        await self._state.host.cancel_run(run_id or self._state.context.run_id, reason)

    async def budget(self) -> Budget:
        """Return what the bounds over the run leave."""
        return await self._state.host.budget()

    @property
    def threads(self) -> set[object]:
        """The run's threads."""
        return self._state.threads


def _nothing() -> None:
    return None


def _ignore(_run_id: str) -> None:
    return None
