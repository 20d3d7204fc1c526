"""The agent loop: turns of model and tools until there is an answer, a failure or a cancel."""

import asyncio
import itertools
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from ...messages.control import AdmissionOrder, GrantOrder
from ...messages.errors import LimitExceededError, RuntreeError
from ...messages.failure import Failure
from ...messages.items import (
    AssistantMessageItem,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunStarted,
    TurnStarted,
    UsageUpdated,
)
from ...messages.model import ModelRequest, ModelResponse, ModelSettings
from ...messages.result import RunResult, RunStatus
from ...messages.transcript import AssistantMessage, Message, ToolMessage, UserMessage
from ...messages.usage import Cost, Totals, Usage
from ...providers.fallback import chain_of
from ...providers.protocol import Model
from ...providers.registry import resolve
from .agent import Agent
from .agent_set import AgentSet
from .calls import Calls
from .cancel_flag import CancelFlag
from .model_call import answer_of, check_granted, cut_before_text
from .output import input_text
from .ports import RunHost
from .signature import InvalidArgumentsError
from .state import RunState, Stop, failure_of
from .toolbox import Toolbox
from .turn import Turn

if TYPE_CHECKING:
    from .cell_turns import CellTurns

_LAST_WORDS = 5.0
"""Seconds that hooks and the last report get once a run has ended."""


class AgentRun:
    """One run of an agent. Make it, call `execute` once; `cancel` and `interrupt` may come at any time, also before."""

    def __init__(
        self,
        agent: Agent,
        host: RunHost,
        *,
        agents: AgentSet,
        key: str,
        value: Any,
        messages: Sequence[Message] = (),
        deps: Any = None,
        variables: Mapping[str, Any] | None = None,
        call_id: str | None = None,
        tags: Mapping[str, str] | None = None,
        spent: Totals | None = None,
    ) -> None:
        self._state = RunState(agent, host, agents, key, deps, dict(tags or {}), spent or Totals())
        self._state.messages.extend(messages)
        self._state.call_ids.add_history(messages)
        self._value = value
        self._variables = variables or {}
        self._call_id = call_id

    def cancel(self, reason: str) -> None:
        """Make the run end as cancelled. Its children are told by whoever cancels, as the supervisor does.

        To be called from the thread of the run's event loop.
        """
        self._state.cancel(reason)

    def cancel_threadsafe(self, reason: str, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel the run from another thread. Its flag is set at once, for tools that look at it while they block the run's loop.

        Args:
            reason: Why.
            loop: The run's event loop.
        """
        # The stop is queued before the flag is set: what the flag wakes must find the run stopped, or its loop goes on to the next turn.
        loop.call_soon_threadsafe(self.cancel, reason)
        self._state.flag.cancel(reason)

    def interrupt(self, error: RuntreeError) -> None:
        """Make the run, and what is below it, end; the run as failed with this error."""
        self._state.end(Stop("failed", failure_of(error), error, below_too=False))

    def deliver(self, order: GrantOrder | AdmissionOrder) -> None:
        """Take a decision that the run waits for; from the thread of the run's event loop."""
        self._state.waits.deliver(order)

    def ask_again(self) -> None:
        """Ask for all decisions the run waits for: orders may have been lost. From the thread of the run's event loop."""
        self._state.waits.ask_again()

    @property
    def flag(self) -> CancelFlag:
        """The flag that tools see; setting it alone does not stop the run."""
        return self._state.flag

    @property
    def accounts(self) -> tuple[Usage, Cost]:
        """What this attempt of the run has used up itself; the result counts earlier ones too."""
        return self._state.accounts.usage, self._state.accounts.cost

    @property
    def left_threads(self) -> bool:
        """Whether a sync tool is still at work in its thread: then the process must not take another run."""
        return bool(self._state.threads)

    async def execute(self) -> RunResult:
        """Run to the end and return it; problems of the run are never raised.

        The first item is `run_started`, the last one is the only terminal item.
        """
        state = self._state
        began = time.perf_counter()
        name = state.agent.model_name
        state.emit(RunStarted, agent=state.agent.name, model=name, call_id=self._call_id, tags=dict(state.context.tags))
        result, error = await self._outcome()
        result, totals = await self._last_words(result, error)
        self._end(result, totals, time.perf_counter() - began)
        await state.close_background()
        if isinstance(error, asyncio.CancelledError):
            raise error
        return result.model_copy(update=dict(totals))

    async def _outcome(self) -> tuple[RunResult, BaseException | None]:
        error: BaseException | None = None
        timer = self._start_deadline(self._state.host.deadline)
        try:
            with self._state.scope:
                output = await self._work()
                return self._result("completed", output), None
        except asyncio.CancelledError as cancelled:
            # The task itself was cancelled, not the run: the surroundings go down, and want the exception back.
            self._state.end_by_shutdown()
            error = cancelled
        except Exception as problem:  # noqa: BLE001  # whatever it is, the run has to end properly
            error = problem
        finally:
            if timer is not None:
                timer.cancel()
        stop = self._state.stop
        if stop is not None:
            return self._result(stop.status, failure=stop.failure), error
        assert error is not None
        return self._result("failed", failure=failure_of(error)), error

    def _result(self, status: RunStatus, output: Any = None, failure: Failure | None = None) -> RunResult:
        run_id = self._state.context.run_id
        messages, calls = tuple(self._state.messages), self._state.accounts.model_calls
        return RunResult(
            run_id=run_id, status=status, output=output, messages=messages, model_calls=calls, error=failure
        )

    def _start_deadline(self, deadline: float | None) -> asyncio.TimerHandle | None:
        if deadline is None:
            return None
        left = deadline - time.time()
        error = LimitExceededError("deadline", "the time given at its start", scope="tree")
        if left <= 0:
            self.interrupt(error)
            return None
        return asyncio.get_running_loop().call_later(left, self.interrupt, error)

    async def _work(self) -> Any:
        state = self._state
        await anyio.lowlevel.checkpoint_if_cancelled()
        text = input_text(state.agent, self._value)
        state.messages.append(UserMessage.of(text))
        await state.hooks.before_run()
        model = resolve(state.agent.model)
        toolbox = Toolbox(state, native_output=model.profile.native_output_schema)
        if state.agent.repl is None:
            return await self._converse(model, toolbox)
        from .cell_turns import CellTurns  # few runs need it

        async with CellTurns(state, toolbox, model, state.agent.repl, self._variables) as cells:
            return await self._converse(model, toolbox, cells)

    async def _converse(self, model: Model, toolbox: Toolbox, cells: "CellTurns | None" = None) -> Any:
        state = self._state
        for turn in itertools.count(1):
            if turn > state.agent.max_turns:
                raise LimitExceededError("max_turns", str(state.agent.max_turns))
            state.context.turn = turn
            state.emit(TurnStarted, turn=turn)
            response = await self._ask(model, toolbox, cells)
            await self._take(response.message, toolbox)
            if toolbox.has_output:
                return toolbox.output
            check_granted(response)
            if response.message.tool_calls or response.finish_reason == "pause":
                continue
            if cells is not None:
                await cells.take(response)
                if cells.has_output:
                    return cells.output
                continue
            try:
                return toolbox.plan.accept_text(answer_of(response))
            except InvalidArgumentsError as error:
                state.messages.append(UserMessage.of(f"The answer does not fit: {error}"))
        raise AssertionError("unreachable")

    async def _ask(self, model: Model, toolbox: Toolbox, cells: "CellTurns | None") -> ModelResponse:
        request = self._request(toolbox, cells)
        turn = Turn(self._state, chain_of(model))
        response = await turn.ask(request)
        limit = request.settings.max_output_tokens
        if limit is None or not cut_before_text(response):
            return response
        # All of the answer went into reasoning: once more with more room, for this call only.
        turn.discard("the output limit was reached before any text")
        settings = request.settings.model_copy(update={"max_output_tokens": 2 * limit})
        return await turn.ask(request.model_copy(update={"settings": settings}))

    def _request(self, toolbox: Toolbox, cells: "CellTurns | None") -> ModelRequest:
        agent, limits = self._state.agent, self._state.host.limits
        native = toolbox.plan.structured and toolbox.native_output and cells is None
        return ModelRequest(
            messages=tuple(self._state.messages),
            instructions=agent.instructions if cells is None else cells.instructions,
            tools=toolbox.definitions if cells is None else (),
            output_schema=toolbox.plan.native if native else None,
            settings=agent.model_settings or ModelSettings(),
            timeout=limits.model_call_timeout,
            idle_timeout=limits.stream_idle_timeout,
            run_id=self._state.context.run_id,
        )

    async def _take(self, message: AssistantMessage, toolbox: Toolbox) -> None:
        """Put an answer into transcript and stream, and run its calls."""
        state = self._state
        state.messages.append(message)
        state.emit(AssistantMessageItem, message=message)
        calls = Calls(state, toolbox, message.tool_calls)
        try:
            totals = await state.accounts.report(state.host)
            state.emit(UsageUpdated, **dict(totals))
            await calls.run()
        finally:
            results = calls.close()
            if results:
                state.messages.append(ToolMessage(results=results))
        await anyio.lowlevel.checkpoint_if_cancelled()

    async def _last_words(self, result: RunResult, error: BaseException | None) -> tuple[RunResult, Totals]:
        accounts = self._state.accounts
        with anyio.move_on_after(_LAST_WORDS, shield=True):
            result = await self._tell_hooks(result, error)
        totals: Totals | None = None
        with anyio.move_on_after(_LAST_WORDS, shield=True):
            # The report of the end carries the accounts; a run without children need not ask for its totals before.
            totals = None if accounts.alone else await accounts.report(self._state.host)
        return result, totals or accounts.local_totals()

    async def _tell_hooks(self, result: RunResult, error: BaseException | None) -> RunResult:
        hooks = self._state.hooks
        if result.status == "failed":
            cause = self._state.stop.error if self._state.stop is not None else error
            if cause is not None:
                await hooks.on_error(cause)
        try:
            await hooks.after_run(result)
        except RuntreeError as problem:
            if result.status == "completed":
                result = self._result("failed", failure=failure_of(problem))
                await hooks.on_error(problem)
        return result

    def _end(self, result: RunResult, totals: Totals, duration: float) -> None:
        fields: dict[str, Any] = {**dict(totals), "duration": duration}
        state = self._state
        if result.status == "completed":
            state.emit(RunCompleted, output=result.output, **fields)
        elif result.status == "cancelled":
            state.emit(RunCancelled, reason=result.error.message if result.error else "", **fields)
        else:
            state.emit(RunFailed, error=result.error, **fields)
        state.closed = True
