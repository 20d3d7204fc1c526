"""What the cells of a run's REPL reach: the run's own model, tools and sub-agents, with all its hooks, bounds and accounts."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import anyio
from pydantic_core import to_json

from ...messages.content import ToolCallBlock
from ...messages.errors import LimitExceededError, ProviderError
from ...messages.ids import new_call_id
from ...messages.items import Custom, ReplCall, ToolCallStarted, UsageUpdated
from ...messages.model import ModelEvent, ModelRequest, ModelResponse, ModelSettings
from ...messages.repl import ReplCallRecord
from ...messages.transcript import ToolResult, UserMessage
from ...providers.fallback import Candidate, fall_back
from ...providers.pricing import prepare
from ...providers.protocol import Model
from ...providers.retry import Ask
from ...providers.secrets import redact, redacted
from ..repl.host import CallFailedError, CallStart, CellStopError
from .calls import Calls
from .middleware import HookError
from .model_call import ModelCalls, answer_of, check_granted, close, end_of
from .signature import InvalidArgumentsError
from .state import RunState
from .subagents import SubAgent
from .tool import Tool
from .toolbox import Toolbox

_LIMIT: Final = re.compile(r"limit (\w+) of the ([\w ]+?) is reached \(allowed: (.*?)\)")
"""How `LimitExceededError` speaks; a tool's result carries nothing else of it."""


class RunCells:
    """The surroundings of a run's REPL session: each call of a cell is an ordinary call of the run.

    A call of a cell that is dropped is told to end, and may need its time for it, as a sub-agent does. Whoever evaluates cells calls `settle`
    after each, so that the run never goes on beside them.
    """

    def __init__(self, state: RunState, toolbox: Toolbox, models: Sequence[Model]) -> None:
        """Make the surroundings.

        Args:
            state: The run.
            toolbox: Its tools and sub-agents.
            models: What `model_query` asks: the first, or the next where that can't answer.
        """
        self._state = state
        self._toolbox = toolbox
        self._models = models
        self.fatal: HookError | None = None
        """What a hook raised in a call of a cell. The cell is stopped, and whoever evaluates it raises this."""
        self._live: set[asyncio.Task[ToolResult]] = set()
        self._turn, self._counts = 0, Counter[str]()
        parallel = state.agent.max_parallel
        self._places = None if parallel is None else anyio.CapacityLimiter(parallel)

    async def settle(self) -> None:
        """Return when no call of a cell is at work any more; not interrupted, as what is at work has been told to end."""
        with anyio.CancelScope(shield=True):
            while self._live:
                await asyncio.wait(tuple(self._live))

    @contextmanager
    def _stopping(self) -> Generator[None]:
        """Stop the cell where a hook raises, which is the end of the run."""
        try:
            yield
        except HookError as error:
            self.fatal = self.fatal or error
            raise CellStopError(str(error)) from error

    # Models

    async def model_query(self, prompt: str, instructions: str) -> str:
        """Ask the run's model, with nothing before the prompt."""
        limits = self._state.host.limits
        request = ModelRequest(
            messages=(UserMessage.of(prompt),),
            instructions=instructions,
            settings=self._state.agent.model_settings or ModelSettings(),
            timeout=limits.model_call_timeout,
            idle_timeout=limits.stream_idle_timeout,
            run_id=self._state.context.run_id,
        )
        try:
            with self._stopping():
                response = await self._ask(request)
        except ProviderError as error:
            if error.details.code == "limit_exceeded":
                raise _limit(error.details.message, error.details.limit or "model_call") from error
            raise
        finally:
            totals = await self._state.accounts.report(self._state.host)
            self._state.emit(UsageUpdated, **dict(totals))
        check_granted(response)
        return answer_of(response)

    async def _ask(self, request: ModelRequest) -> ModelResponse:
        hooks, opened = self._state.hooks, list[AsyncIterator[ModelEvent]]()
        request = await hooks.before_model(request)
        candidates = [Candidate(model.profile, self._way_to(model, opened)) for model in self._models]
        stream = candidates[0].ask(request) if len(candidates) == 1 else fall_back(candidates, request)
        try:
            response = await end_of(stream)
        finally:
            await close(stream)
            for each in opened:
                await close(each)
        return await hooks.after_model(response)

    def _way_to(self, model: Model, opened: list[AsyncIterator[ModelEvent]]) -> Ask:
        prepare(model.profile)
        return self._state.hooks.model(ModelCalls(self._state, model).events, opened)

    # Tools and sub-agents

    async def tool_call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Call one of the run's tools."""
        target = self._toolbox.get(name)
        if not isinstance(target, Tool):
            raise CallFailedError(f"there is no tool {name!r}. Tools: {self._names(Tool)}", "invalid")
        text = (await self._call(name, arguments)).text
        if not target.returns_data(text):
            return text
        if len(text) > target.max_output:
            raise CallFailedError(f"the value that {name} returned was cut at {target.max_output} bytes (max_output)")
        return _value(text)

    async def agent_query(self, name: str, value: Any) -> Any:
        """Run one of the run's sub-agents."""
        target = self._toolbox.get(name)
        if not isinstance(target, SubAgent):
            raise CallFailedError(f"there is no agent {name!r}. Agents: {self._names(SubAgent)}", "invalid")
        try:
            arguments = target.arguments_for(value)
        except InvalidArgumentsError as error:
            raise CallFailedError(f"invalid input of {name}, it was not started: {error}", "invalid") from error
        text = (await self._call(name, arguments)).text
        return text if target.agent.output_type is str else _value(text)

    def _names(self, kind: type[Tool] | type[SubAgent]) -> str:
        return ", ".join(name for name in self._toolbox.names if isinstance(self._toolbox.get(name), kind)) or "none"

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        block = ToolCallBlock(
            call_id=new_call_id(),
            tool_name=name,
            arguments=dict(arguments),
            arguments_json=to_json(arguments, inf_nan_mode="constants").decode(),
        )
        turn = self._state.context.turn
        if turn != self._turn:
            self._turn, self._counts = turn, Counter[str]()
        # Numbered before they wait for a place: a program that is run again asks in the same order.
        calls = Calls(self._state, self._toolbox, [block], self._counts)
        if self._places is None:
            return await self._run(calls, block)
        async with self._places:
            return await self._run(calls, block)

    async def _run(self, calls: Calls, block: ToolCallBlock) -> ToolResult:
        task = asyncio.ensure_future(self._work(calls, block))
        self._live.add(task)
        task.add_done_callback(self._live.discard)
        try:
            # A call is told to end, and not cancelled: to have its task cancelled means to a call that its run's process goes down.
            with self._stopping():
                result = await asyncio.shield(task)
        except asyncio.CancelledError:
            calls.drop("its cell has ended")
            raise
        if result.outcome == "ok":
            return result
        if result.outcome == "refused":
            raise _limit(result.text, "tool_call")
        raise CallFailedError(result.text, result.outcome)

    async def _work(self, calls: Calls, block: ToolCallBlock) -> ToolResult:
        self._state.emit(ToolCallStarted, call_id=block.call_id, tool_name=block.tool_name)
        try:
            await calls.run()
        finally:
            (result,) = calls.close()
            # Where other calls still wait for sub-agents, the slot that this one took to go on is theirs.
            with self._state.slot.call():
                pass
        return result

    # What readers are told

    def emit(self, name: str, data: Any) -> None:
        """Put a `custom` item into the stream."""
        self._state.emit(Custom, name=redact(name), data=redacted(data))

    def call_started(self, call: CallStart) -> None:
        """Put a `repl_call` item into the stream."""
        self._state.emit(ReplCall, **call.told())

    def call_completed(self, call: CallStart, record: ReplCallRecord) -> None:
        """Put a `repl_call` item into the stream."""
        self._state.emit(ReplCall, **call.told(record))


def _limit(text: str, name: str) -> LimitExceededError:
    found = _LIMIT.search(text)
    return LimitExceededError(found[1], found[3], found[2]) if found else LimitExceededError(name, text)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
