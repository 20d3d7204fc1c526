"""The tool calls of one turn: checked, run side by side, and each completed exactly once."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from ...messages.content import ContentBlock, TextBlock, ToolCallBlock
from ...messages.control import Refused
from ...messages.errors import LimitExceededError, ToolError
from ...messages.items import ToolCallCompleted
from ...messages.transcript import ToolOutcome, ToolResult
from .agent import OUTPUT_TOOL
from .call import Call
from .output import OutputInvalidError
from .signature import InvalidArgumentsError
from .state import RunState
from .subagents import SubAgent, result_of_child
from .tool import Tool
from .tool_output import describe
from .toolbox import Target, Toolbox


class Calls:
    """The calls of one answer, in its order."""

    def __init__(
        self,
        state: RunState,
        toolbox: Toolbox,
        blocks: Sequence[ToolCallBlock],
        counts: Counter[str] | None = None,
    ) -> None:
        """Make calls that are not run yet.

        Args:
            state: Their run.
            toolbox: What they call.
            blocks: What was asked for.
            counts: Calls of the turn before these, by tool; they are counted on.
        """
        self._state = state
        self._toolbox = toolbox
        counts = Counter() if counts is None else counts
        self._calls: list[Call] = []
        for block in blocks:
            counts[block.tool_name] += 1
            self._calls.append(Call(state, toolbox.children, block, counts[block.tool_name]))
        self._waiting: deque[Call] = deque()
        self._fatal: Exception | None = None
        self._dropped: str | None = None

    async def run(self) -> None:
        """Run what can be run; failures of tools are results.

        Raises:
            HookError: A hook raised; all other calls had their end before.
            OutputInvalidError: The final output was wrong once too often.
        """
        runnable = [call for call in self._calls if self._check(call)]
        runnable = await self._within_limits(runnable)
        slots = self._state.agent.max_parallel or len(runnable)
        self._waiting.extend(runnable[slots:])
        if runnable:
            await self._wait([asyncio.ensure_future(self._lane(call)) for call in runnable[:slots]])
            await self._state.slot.take()
        if self._fatal is not None:
            raise self._fatal

    def drop(self, reason: str) -> None:
        """Tell the calls to end, while the run goes on; those that have not begun are not run."""
        self._dropped = reason
        for call in self._calls:
            call.flag.cancel(reason)

    def close(self) -> tuple[ToolResult, ...]:
        """Complete what was not run, and return the results of all calls in call order."""
        for call in self._calls:
            if call.result is None:
                call.uncount()
                why = "the run failed before" if self._fatal is not None else self._why
                self._finish(call, "cancelled", f"The call was not run: {why}")
        return tuple(call.result for call in self._calls if call.result is not None)

    def _check(self, call: Call) -> bool:
        """Return whether the call can be run; else complete it."""
        block = call.block
        if block.truncated:
            self._finish(call, "truncated", "The answer ended inside this call, so it was not run.")
        elif block.arguments is None:
            self._finish(call, "invalid", "The arguments are not a JSON object, so the call was not run.")
        elif self._toolbox.takes_output and block.tool_name == OUTPUT_TOOL:
            self._take_output(call, block.arguments)
        elif (target := self._toolbox.get(block.tool_name)) is None:
            known = ", ".join(self._toolbox.names) or "none"
            self._finish(call, "invalid", f"There is no tool {block.tool_name!r}. Tools: {known}")
        else:
            return self._bind(call, block.arguments, target)
        return False

    def _bind(self, call: Call, arguments: Mapping[str, Any], target: Target) -> bool:
        try:
            call.target, call.value = target, target.bind(arguments)
        except InvalidArgumentsError as error:
            self._finish(call, "invalid", f"Invalid arguments, the call was not run: {error}")
            return False
        return True

    def _take_output(self, call: Call, arguments: Mapping[str, Any]) -> None:
        try:
            self._toolbox.output = self._toolbox.plan.accept(arguments)
        except InvalidArgumentsError as error:
            self._finish(call, "invalid", f"The output does not fit: {error}")
        except OutputInvalidError as error:
            self._finish(call, "invalid", str(error))
            self._fatal = error
        else:
            self._toolbox.has_output = True
            self._finish(call, "ok", "Accepted.")

    async def _within_limits(self, calls: list[Call]) -> list[Call]:
        """Return the calls that may be run; refuse the others."""
        agent = self._state.agent
        allowed = agent.max_tool_calls - self._state.reservations.tool_calls_asked
        local = LimitExceededError("max_tool_calls", str(agent.max_tool_calls))
        calls = self._refuse_rest(calls, allowed, str(local))
        if calls:
            reply = await self._state.reservations.tool_calls(len(calls))
            why = reply.error.message if reply.error is not None else "the tree's tool calls are used up"
            calls = self._refuse_rest(calls, reply.granted_tool_calls, why)
        for call in calls:
            call.counted = True
        return calls

    def _refuse_rest(self, calls: list[Call], allowed: int, why: str) -> list[Call]:
        allowed = max(0, allowed)
        for call in calls[allowed:]:
            self._finish(call, "refused", f"The call was not run: {why}")
        return calls[:allowed]

    async def _wait(self, lanes: Sequence[asyncio.Task[None]]) -> None:
        # Plain tasks: each call ends by its own scope and flag. A task group would cancel them a second time, and would be woken in every
        # round of the loop while a cancelled run waits for its children.
        try:
            await asyncio.wait(lanes)
        except asyncio.CancelledError:
            # If it is not the run that was cancelled, its surroundings are going down.
            self._state.end_by_shutdown()
            with anyio.CancelScope(shield=True):
                await asyncio.wait(lanes)
            raise
        finally:
            for lane in lanes:
                error = lane.exception() if lane.done() and not lane.cancelled() else None
                if isinstance(error, Exception):
                    self._fatal = self._fatal or error

    async def _lane(self, call: Call | None) -> None:
        while call is not None:
            await self._execute(call)
            stopped = self._fatal is not None or self._state.stop is not None
            call = self._waiting.popleft() if self._waiting and not stopped else None

    async def _execute(self, call: Call) -> None:
        if not isinstance(call.target, SubAgent):
            await self._state.slot.take()
        if self._state.stop is not None or self._dropped is not None:
            return
        with self._state.slot.call():
            await self._work_on(call)

    async def _work_on(self, call: Call) -> None:
        result: ToolResult | None = None
        call.begin(self._timeout(call))
        try:
            with call.scope:
                result = await self._state.hooks.tool(lambda block: self._perform(call, block))(call.block)
        except Exception as error:  # noqa: BLE001  # tools can't raise up to here: a hook did, which is fatal once all calls have ended
            self._fatal = self._fatal or error
            result = self._result(call, "error", describe(error))
        finally:
            await call.end()
            self._complete(call, self._judge(call, result))

    def _timeout(self, call: Call) -> float | None:
        own = call.target.timeout if call.target is not None else None
        bounds = [bound for bound in (own, self._state.host.limits.tool_timeout) if bound is not None]
        return min(bounds, default=None)

    async def _perform(self, call: Call, block: ToolCallBlock) -> ToolResult:
        if block is not call.block:
            target = self._toolbox.get(block.tool_name)
            if target is None or block.arguments is None:
                return self._result(call, "invalid", "A hook changed the call into one that can't be run.")
            try:
                call.target, call.value = target, target.bind(block.arguments)
            except InvalidArgumentsError as error:
                return self._result(call, "invalid", f"Invalid arguments, the call was not run: {error}")
        if isinstance(call.target, SubAgent):
            end = await call.run_child(call.target)
            if isinstance(end, Refused):
                call.uncount()
            return result_of_child(call.block.call_id, call.block.tool_name, end)
        assert isinstance(call.target, Tool)
        return await self._call_tool(call, call.target)

    async def _call_tool(self, call: Call, tool: Tool) -> ToolResult:
        # Whoever sees the process die must know of the call before it has an effect.
        if not tool.idempotent and not await self._state.host.delivered():
            return self._result(call, "error", "The call was not run: its run is over, or its stream can't be reached.")
        try:
            content = await tool.invoke(call.value, call.context)
        except ToolError as error:
            return self._result(call, "error", describe(error))
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if call.scope.cancel_called or (task is not None and task.cancelling()):
                raise
            # Nobody cancelled this call: the tool awaited something that was cancelled elsewhere.
            return self._result(call, "error", describe(error))
        return self._result(call, "ok", content)

    @property
    def _why(self) -> str:
        return self._dropped if self._dropped is not None else self._state.stop_reason

    def _judge(self, call: Call, result: ToolResult | None) -> ToolResult:
        """Return the result that counts, given how the call was stopped, if it was."""
        if result is not None and (result.outcome in ("ok", "invalid", "refused") or not call.timed_out):
            return result
        name, run_id = call.block.tool_name, call.child_run_id
        if call.timed_out:
            text = f"{name} did not end within {self._timeout(call):g} seconds (tool_timeout) and was stopped."
            return self._result(call, "timeout", text, run_id)
        return self._result(call, "cancelled", f"{name} was cancelled: {self._why}", run_id)

    def _result(
        self, call: Call, outcome: ToolOutcome, content: str | tuple[ContentBlock, ...], run_id: str | None = None
    ) -> ToolResult:
        blocks = (TextBlock(text=content),) if isinstance(content, str) else content
        block = call.block
        return ToolResult(
            call_id=block.call_id, tool_name=block.tool_name, outcome=outcome, content=blocks, run_id=run_id
        )

    def _finish(self, call: Call, outcome: ToolOutcome, text: str) -> None:
        self._complete(call, self._result(call, outcome, text))

    def _complete(self, call: Call, result: ToolResult) -> None:
        call.result = result
        self._state.emit(
            ToolCallCompleted,
            call_id=call.block.call_id,
            tool_name=call.block.tool_name,
            outcome=result.outcome,
            duration=0.0 if call.started is None else time.perf_counter() - call.started,
            child_run_id=call.child_run_id,
            message="" if result.outcome == "ok" else result.text,
        )
