"""The host functions: what a call from a cell means, before it reaches the port."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from ...messages.errors import LimitExceededError
from ...messages.repl import ReplCallKind, ReplCallRecord, ReplPolicy
from ...messages.transcript import ToolOutcome
from ...providers.secrets import redact
from ..agent.tool_output import cut, describe
from .host import CallFailedError, CallStart, CellStopError, HostCalls
from .marshal import plain_whole

RESERVED: Final = frozenset(
    {
        "agent_query",
        "agent_query_batched",
        "answer",
        "emit",
        "model_query",
        "model_query_batched",
        "show_vars",
        "tool_call",
        "tool_call_batched",
    }
)
"""Names of the host functions: every cell finds them, whatever cells before made of them."""

_ARGUMENT_BYTES: Final = 64 * 2**20
"""Of what one call hands over: a prompt, arguments, an input or an answer."""

_EMIT_BYTES: Final = 256 * 1024
_NAME_LENGTH: Final = 256
_MESSAGE_BYTES: Final = 4096


class Budgets:
    """What is left of a session's counted bounds."""

    def __init__(self, policy: ReplPolicy) -> None:
        self._allowed = {
            "model_calls": policy.model_calls,
            "tool_calls": policy.tool_calls,
            "agent_calls": policy.agent_calls,
            "emits": policy.emits,
        }
        self._used = dict.fromkeys(self._allowed, 0)

    def take(self, name: str, count: int = 1) -> None:
        """Use up so many, all or none.

        Raises:
            LimitExceededError: So many are not left.
        """
        if self._used[name] + count > self._allowed[name]:
            raise LimitExceededError(name, str(self._allowed[name]), "session")
        self._used[name] += count


@dataclass(frozen=True)
class Unit:
    """One call of a model, a tool or an agent."""

    start: CallStart
    make: Callable[[HostCalls], Coroutine[Any, Any, Any]]


@dataclass(frozen=True)
class Request:
    """A call of a host function that goes on beside the cell."""

    units: Sequence[Unit]
    batched: bool


@dataclass(frozen=True)
class Told:
    """A call that only tells the port something, on the event loop."""

    tell: Callable[[], None]


class CellFunctions:
    """The host functions for one cell. What has no `async` belongs to the thread of the worker, the rest to the event loop."""

    def __init__(
        self, host: HostCalls, budgets: Budgets, session_id: str, cell: int, variables: Callable[[], dict[str, str]]
    ) -> None:
        """Make the functions of a cell.

        Args:
            host: What they call.
            budgets: What the session has left.
            session_id: The session.
            cell: Number of the cell.
            variables: Returns what `show_vars` tells.
        """
        self._host = host
        self._budgets = budgets
        self._session_id = session_id
        self._cell = cell
        self._variables = variables
        self._count = 0
        self._open: dict[str, tuple[CallStart, float]] = {}
        self.records: list[ReplCallRecord] = []
        self.answered = False
        self.final_answer: Any = None

    def ask(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return what a call gives at once, or the request that has to be run, or what has to be told to the port.

        Raises:
            LimitExceededError: The policy does not allow it; nothing of it was spent.
            TypeError: The arguments do not fit the function.
            ValueError: They are too large.
        """
        function: Callable[..., Request | Told | Any] = getattr(self, f"_{name}")
        return function(*args, **kwargs)

    def refusal(self, name: str, error: LimitExceededError) -> Callable[[], None]:
        """Return what tells readers, on the event loop, that a call was refused."""

        def tell() -> None:
            if name in _BUDGETS:
                start = self._start(cast("ReplCallKind", name), "")
                self._begin(start)
                self._complete(start.call_id, "refused", str(error))

        return tell

    async def run(self, request: Request) -> Any:
        """Make the calls of a request, side by side; what comes is the value for the cell.

        Raises:
            LimitExceededError: A bound of the surroundings is reached.
            CellStopError: The surroundings end the cell.
            Exception: Whatever a single call raised; failures of a batch's items are part of its value.
        """
        if not request.batched:
            return await self._make(request.units[0])
        tasks = [asyncio.ensure_future(self._item(unit)) for unit in request.units]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    def abandon(self) -> None:
        """Complete what would not end."""
        for call_id in list(self._open):
            self._complete(call_id, "cancelled", "the call was dropped and did not end")

    # The functions by name; their signatures are what cells see.

    def _model_query(self, prompt: str, instructions: str = "") -> Request:
        return self._single("model_query", "", self._query(prompt, instructions))

    def _model_query_batched(self, prompts: Sequence[str], instructions: str = "") -> Request:
        makes = [self._query(prompt, instructions) for prompt in _listed(prompts, "prompts")]
        return self._batch("model_query_batched", "", makes)

    def _tool_call(self, name: str, arguments: Mapping[str, Any] | None = None, /, **named: Any) -> Request:
        return self._single("tool_call", _named(name), self._call(name, {**_mapping(arguments or {}), **named}))

    def _tool_call_batched(self, name: str, arguments: Sequence[Mapping[str, Any]]) -> Request:
        makes = [self._call(name, _mapping(each)) for each in _listed(arguments, "arguments")]
        return self._batch("tool_call_batched", _named(name), makes)

    def _agent_query(self, name: str, input: Any) -> Request:  # noqa: A002  # the name that cells see
        return self._single("agent_query", _named(name), self._agent(name, input))

    def _agent_query_batched(self, name: str, inputs: Sequence[Any]) -> Request:
        makes = [self._agent(name, each) for each in _listed(inputs, "inputs")]
        return self._batch("agent_query_batched", _named(name), makes)

    def _emit(self, name: str, data: Any = None) -> Told:
        plain = plain_whole(data, _EMIT_BYTES, "what is emitted")
        label = _named(name)
        self._budgets.take("emits")
        return Told(lambda: self._host.emit(label, plain))

    def _show_vars(self) -> dict[str, str]:
        return self._variables()

    def _answer(self, value: Any) -> None:
        self.final_answer, self.answered = plain_whole(value, _ARGUMENT_BYTES, "the answer"), True

    # What they are made of

    def _query(self, prompt: str, instructions: str) -> Callable[[HostCalls], Coroutine[Any, Any, Any]]:
        text, system = _text(prompt, "prompt"), _text(instructions, "instructions")
        return lambda host: host.model_query(text, system)

    def _call(self, name: str, arguments: Mapping[str, Any]) -> Callable[[HostCalls], Coroutine[Any, Any, Any]]:
        plain: dict[str, Any] = plain_whole(arguments, _ARGUMENT_BYTES, "arguments")
        return lambda host: host.tool_call(name, plain)

    def _agent(self, name: str, value: Any) -> Callable[[HostCalls], Coroutine[Any, Any, Any]]:
        plain = plain_whole(value, _ARGUMENT_BYTES, "input")
        return lambda host: host.agent_query(name, plain)

    def _single(self, kind: ReplCallKind, name: str, make: Callable[[HostCalls], Coroutine[Any, Any, Any]]) -> Request:
        self._budgets.take(_BUDGETS[kind])
        return Request((Unit(self._start(kind, name), make),), batched=False)

    def _batch(
        self, kind: ReplCallKind, name: str, makes: Sequence[Callable[[HostCalls], Coroutine[Any, Any, Any]]]
    ) -> Request:
        self._budgets.take(_BUDGETS[kind], len(makes))
        return Request([Unit(self._start(kind, name), make) for make in makes], batched=True)

    def _start(self, kind: ReplCallKind, name: str) -> CallStart:
        self._count += 1
        call_id = f"{self._session_id}:{self._cell}:{self._count}"
        return CallStart(self._session_id, self._cell, call_id, kind, name)

    async def _item(self, unit: Unit) -> dict[str, Any]:
        try:
            return {"ok": True, "value": await self._make(unit)}
        except (LimitExceededError, CellStopError):
            raise
        except Exception as error:  # noqa: BLE001  # one failing item leaves the others their values
            return {"ok": False, "error": describe_call(error)}

    async def _make(self, unit: Unit) -> Any:
        outcome: ToolOutcome = "cancelled"
        message = "the cell has ended"
        self._begin(unit.start)
        try:
            value = await unit.make(self._host)
            outcome, message = "ok", ""
            return value
        except LimitExceededError as error:
            outcome, message = "refused", str(error)
            raise
        except CallFailedError as error:
            outcome, message = error.outcome, describe_call(error)
            raise
        except Exception as error:
            outcome, message = "error", describe_call(error)
            raise
        finally:
            self._complete(unit.start.call_id, outcome, message)

    def _begin(self, start: CallStart) -> None:
        self._open[start.call_id] = start, time.perf_counter()
        self._host.call_started(start)

    def _complete(self, call_id: str, outcome: ToolOutcome, message: str) -> None:
        found = self._open.pop(call_id, None)
        if found is None:
            return
        start, since = found
        record = ReplCallRecord(
            call_id=call_id,
            kind=start.kind,
            name=start.name,
            outcome=outcome,
            elapsed=time.perf_counter() - since,
            message=message,
        )
        self.records.append(record)
        self._host.call_completed(start, record)


_BUDGETS: Final[Mapping[str, str]] = {
    "model_query": "model_calls",
    "model_query_batched": "model_calls",
    "tool_call": "tool_calls",
    "tool_call_batched": "tool_calls",
    "agent_query": "agent_calls",
    "agent_query_batched": "agent_calls",
}
"""Which bound each call counts against."""


def describe_call(error: Exception) -> str:
    """Return what a cell is told of a call that failed."""
    return cut(redact(str(error)), _MESSAGE_BYTES) if isinstance(error, CallFailedError) else describe(error)


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, not {type(value).__name__}")
    if len(value) > _ARGUMENT_BYTES:
        raise ValueError(f"{what} is larger than {_ARGUMENT_BYTES} bytes")
    return value


def _named(value: Any) -> str:
    """Return a name, which goes into items: of a tool, an agent or what is emitted."""
    name = _text(value, "name")
    if len(name) > _NAME_LENGTH:
        raise ValueError(f"name is longer than {_NAME_LENGTH} characters")
    return name


def _listed(values: Any, what: str) -> Sequence[Any]:
    if not isinstance(values, list | tuple):
        raise TypeError(f"{what} must be a list, not {type(values).__name__}")
    return cast("Sequence[Any]", values)


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"arguments must be a dict of names and values, not {type(value).__name__}")
    return cast("Mapping[str, Any]", value)
