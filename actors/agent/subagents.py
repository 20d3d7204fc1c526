"""Sub-agents: how a model sees them, and how their runs are admitted, started and awaited."""

import asyncio
import contextlib
import inspect
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, cast

import anyio
import anyio.lowlevel
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, create_model
from pydantic_core import to_json

from ...messages.content import TextBlock
from ...messages.control import Admission, AdmitAnswer, ChildRequest, Postponed, Refused
from ...messages.errors import AgentDefinitionError
from ...messages.ids import new_run_id
from ...messages.model import ToolDefinition
from ...messages.result import RunResult
from ...messages.transcript import ToolOutcome, ToolResult
from .agent import Agent
from .cancel_flag import CancelFlag
from .ports import RunHost
from .signature import InvalidArgumentsError, json_schema, validate
from .state import RunState, failure_of
from .tool import MAX_OUTPUT
from .tool_output import cut

if TYPE_CHECKING:
    from collections.abc import Callable

_INPUT = "input"
_Text = Annotated[str, StringConstraints(min_length=1, pattern=r"\S"), Field(description="What it has to do.")]


def input_model(agent: Agent) -> type[BaseModel]:
    """Return what validates the arguments of a call of the agent.

    Raises:
        AgentDefinitionError: The agent's `input_type` has no schema.
    """
    hint = agent.input_type
    if inspect.isclass(hint) and issubclass(hint, BaseModel):
        model = hint
    else:
        fields: dict[str, Any] = {_INPUT: (_Text if hint is str else hint, ...)}
        try:
            model = create_model(agent.name, __config__=ConfigDict(extra="forbid"), **fields)
        except Exception as error:
            raise _no_schema(agent) from error
    try:
        json_schema(model)
    except Exception as error:
        raise _no_schema(agent) from error
    return model


def _no_schema(agent: Agent) -> AgentDefinitionError:
    return AgentDefinitionError(
        f"agent {agent.name}, input_type", "it has no JSON schema", "Use str, a pydantic model or a JSON-able type"
    )


class SubAgent:
    """A sub-agent as a tool of the model."""

    def __init__(self, agent: Agent, name: str, key: str) -> None:
        self.agent = agent
        self.name = name
        self.key = key
        self.timeout = None
        self._model = input_model(agent)
        description = agent.description or f"Runs the agent {name}."
        self.definition = ToolDefinition(name=name, description=description, parameters=json_schema(self._model))

    def arguments_for(self, value: Any) -> dict[str, Any]:
        """Return the arguments of a call that hands over this input.

        Raises:
            InvalidArgumentsError: The agent takes an object, and this is none.
        """
        if self._model is not self.agent.input_type:
            return {_INPUT: value}
        if not isinstance(value, Mapping):
            problem = f"a {type(value).__name__} is no object with the fields {', '.join(self._model.model_fields)}"
            raise InvalidArgumentsError(problem)
        return dict(cast("Mapping[str, Any]", value))

    def bind(self, arguments: Mapping[str, Any]) -> Any:
        """Return the input of the run that the arguments describe, as JSON holds it.

        Raises:
            InvalidArgumentsError: They do not fit.
        """
        valid = validate(self._model, arguments)
        dumped = valid.model_dump(mode="json", by_alias=True)
        return dumped if self._model is self.agent.input_type else dumped[_INPUT]


@dataclass
class _Batch:
    requests: list[ChildRequest] = field(default_factory=list[ChildRequest])
    answers: dict[str, AdmitAnswer] = field(default_factory=dict[str, AdmitAnswer])
    error: Exception | None = None
    done: anyio.Event = field(default_factory=anyio.Event)


class Children:
    """The runs below one run."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._host: RunHost = state.host
        self._gathering: _Batch | None = None
        self._postponed = 0
        self._wait_told = ExitStack()

    async def run(
        self,
        agent: Agent,
        key: str,
        value: Any,
        *,
        call_id: str | None,
        flag: CancelFlag,
        on_admitted: "Callable[[str], None]",
    ) -> RunResult | Refused:
        """Run a child to its end, whatever that is.

        From the request on, nothing interrupts: an admitted child that is never started would be waited for in vain. When `flag` is set
        the child is told, and its end awaited.
        """
        request = ChildRequest(
            run_id=new_run_id(),
            agent=agent.name,
            call_id=call_id,
            limits=agent.limits,
            model=agent.model_name,
            poolable=agent.poolable,
            max_attempts=agent.max_attempts,
            runs_per_actor=agent.runs_per_actor,
            agent_key=key,
            resources=dict(agent.resources or {}),
        )
        watch: asyncio.Future[None] | None = None
        with anyio.CancelScope(shield=True):
            try:
                with self._state.waits.expected(request.run_id) as decision:
                    answer = await self._answer(request)
                    # Not before: a cancel that overtakes the request finds nothing.
                    watch = asyncio.ensure_future(self._pass_on(flag, request.run_id))
                    admission = await self._decided(decision, request) if isinstance(answer, Postponed) else answer
                if isinstance(admission, Refused):
                    return admission
                on_admitted(request.run_id)
                result = await self._host.run_child(admission, key, value)
                self._state.accounts.add_child(result)
                if result.status == "cancelled" and not flag.is_cancelled():
                    await self._heed_cancel()
                return result
            except Exception as error:  # noqa: BLE001  # a child that can't be run is an answer to its parent
                return RunResult(run_id=request.run_id, status="failed", error=failure_of(error))
            finally:
                if watch is not None:
                    watch.cancel()
        raise AssertionError("a shield swallows nothing")

    async def _decided(self, decision: "asyncio.Future[Admission]", request: ChildRequest) -> Admission:
        """Return what becomes of a child that is not admitted at once; readers are told once for all that wait."""
        self._postponed += 1
        if self._postponed == 1:
            self._wait_told.enter_context(self._state.waits.told("parallel", "to start sub-agents"))
        try:
            return await self._state.waits.admission(decision, lambda: self._answer(request))
        finally:
            self._postponed -= 1
            if not self._postponed:
                self._wait_told.close()

    async def _answer(self, request: ChildRequest) -> AdmitAnswer:
        """Return the answer for one child; requests made at the same time go out as one."""
        batch = self._gathering
        if batch is None:
            batch = self._gathering = _Batch([request])
            await anyio.lowlevel.cancel_shielded_checkpoint()
            self._gathering = None
            await self._ask(batch)
            batch.done.set()
        else:
            batch.requests.append(request)
            await batch.done.wait()
        if batch.error is not None:
            raise batch.error
        return batch.answers[request.run_id]

    async def _ask(self, batch: _Batch) -> None:
        try:
            answers = await self._host.admit(tuple(batch.requests))
        except Exception as error:  # noqa: BLE001  # raised once for each child of the batch
            batch.error = error
            return
        batch.answers.update(zip((request.run_id for request in batch.requests), answers, strict=True))

    async def _heed_cancel(self) -> None:
        """End the run if its child was cancelled with it: a run must not go on with what its own cancel has left of its children."""
        reason = await self._host.cancel_reason()
        if reason is not None:
            self._state.cancel(reason)

    async def _pass_on(self, flag: CancelFlag, run_id: str) -> None:
        await flag.wait()
        stop = self._state.stop
        if stop is None or not stop.below_too:
            # The child's own bounds hold without this call.
            with contextlib.suppress(Exception):
                await self._host.cancel_run(run_id, flag.reason or "cancelled")
        self._state.waits.ask_again()


def result_of_child(call_id: str, name: str, end: RunResult | Refused) -> ToolResult:
    """Return what a child's end means for the call that asked for it."""
    outcome: ToolOutcome
    if isinstance(end, Refused):
        outcome, text = "cancelled" if end.error.code == "cancelled" else "refused", end.error.message
    elif end.status == "completed":
        output = end.output
        outcome, text = "ok", output if isinstance(output, str) else to_json(output).decode()
    elif end.status == "cancelled":
        reason = end.error.message if end.error else "no reason given"
        outcome, text = "cancelled", f"The sub-agent {name} was cancelled: {reason}"
    else:
        outcome = "lost" if end.error is not None and end.error.code in ("lost", "in_doubt") else "error"
        reason = end.error.message if end.error else "no reason given"
        text = f"The sub-agent {name} failed: {reason}"
    content = (TextBlock(text=cut(text, MAX_OUTPUT)),)
    return ToolResult(call_id=call_id, tool_name=name, outcome=outcome, content=content, run_id=end.run_id)
