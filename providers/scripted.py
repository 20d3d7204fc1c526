"""A model that says what a script tells it: for tests, examples and demonstrations without a network."""

import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
import pydantic_core

from ..messages.content import ImageBlock, TextBlock
from ..messages.failure import Failure
from ..messages.ids import new_call_id
from ..messages.model import (
    Completed,
    Failed,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    Started,
    TextDelta,
    ToolCallDelta,
)
from ..messages.transcript import AssistantMessage
from ..messages.usage import Usage
from .fold import UNKNOWN_USAGE, Fold
from .profile import ModelProfile
from .unfold import unfold


@dataclass(frozen=True)
class Delay:
    """A pause inside a turn."""

    seconds: float


@dataclass(frozen=True)
class Hang:
    """Silence until the call is cancelled."""


Part: TypeAlias = ModelEvent | str | Delay | Hang
"""A piece of a turn; a string is a text delta."""


@dataclass(frozen=True)
class Turn:
    """A turn whose end is said explicitly."""

    events: Sequence[Part] = field(default_factory=tuple[Part, ...])
    complete: bool = True
    """Whether a terminal event follows; `False` is a stream that is cut."""


TurnBody: TypeAlias = Turn | Sequence[Part] | ModelResponse
"""What one call answers: parts, or a whole response."""
ScriptedTurn: TypeAlias = TurnBody | Callable[[ModelRequest], TurnBody]
"""One turn of a script, or a function that makes it from the request."""


def text(piece: str) -> TextDelta:
    """Return a piece of visible text."""
    return TextDelta(text=piece)


def reasoning(piece: str, index: int = 0) -> ReasoningDelta:
    """Return a piece of reasoning."""
    return ReasoningDelta(text=piece, index=index)


def tool_call(name: str, arguments: dict[str, Any] | str | None = None, call_id: str | None = None) -> ToolCallDelta:
    """Return a whole tool call.

    Args:
        name: Name of the tool.
        arguments: The arguments, or their JSON.
        call_id: Id of the call; by default a fresh one each time the turn is played.
    """
    encoded = arguments if isinstance(arguments, str) else pydantic_core.to_json(arguments or {}).decode()
    return ToolCallDelta(call_id=call_id or "", tool_name=name, arguments=encoded)


class ScriptedModel:
    """Answers the first call with the first turn, the second with the second, and so on.

    A call beyond the script fails and says so. One object serves concurrent calls: turns are handed out in the order in which the calls
    begin. A pickled copy starts at the first turn and has seen no requests.

    Args:
        turns: The script. The terminal event is made from the other events unless the turn has one, or is a `Turn` that is cut.
        model: Name of the model.
        profile: What the model can do.
        loop: Begin anew after the last turn.
    """

    def __init__(
        self,
        turns: Sequence[ScriptedTurn],
        *,
        model: str = "scripted",
        profile: ModelProfile | None = None,
        loop: bool = False,
    ) -> None:
        self._turns = tuple(turns)
        self._loop = loop
        self._profile = profile or ModelProfile(provider="scripted", model=model)
        self._model = model
        self._played = 0
        self._lock = threading.Lock()
        self.requests: list[ModelRequest] = []
        """Every request so far, in order."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the script without what was played."""
        return _restore, (self._turns, self._model, self._profile, self._loop)

    def __repr__(self) -> str:
        return f"ScriptedModel(<{len(self._turns)} turns>, model={self._model!r})"

    @property
    def profile(self) -> ModelProfile:
        """What the model can do."""
        return self._profile

    def assert_exhausted(self) -> None:
        """Fail a test that did not play the whole script.

        Raises:
            AssertionError: Turns are left over.
        """
        left = len(self._turns) - self._played
        if left > 0:
            raise AssertionError(f"{left} of {len(self._turns)} scripted turns were not played")

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Play the next turn."""
        turn = self._take(request)
        if turn is None:
            yield self._exhausted()
            return
        body = turn(request) if callable(turn) else turn
        parts, complete = _parts_of(body)
        fold = Fold(self._profile.provider, request.model or self._profile.model or self._model)
        started = False
        for part in parts:
            if isinstance(part, Delay):
                await anyio.sleep(part.seconds)
                continue
            if isinstance(part, Hang):
                await anyio.sleep_forever()
                return
            for event in _events_of(part):
                if not started and not isinstance(event, Started | Completed | Failed):
                    yield Started(model=fold.model)
                started = True
                fold.add(event)
                yield event
                if isinstance(event, Completed | Failed):
                    return
        if complete:
            if not started:
                yield Started(model=fold.model)
            if fold.usage is UNKNOWN_USAGE:
                fold.usage = _estimate(request, fold.message("stop"))
            yield Completed(response=fold.response())

    def _take(self, request: ModelRequest) -> ScriptedTurn | None:
        with self._lock:
            self.requests.append(request)
            number = self._played
            self._played += 1
        if self._loop and self._turns:
            number %= len(self._turns)
        return self._turns[number] if number < len(self._turns) else None

    def _exhausted(self) -> Failed:
        count = len(self._turns)
        problem = f"the script of model {self._model!r} has {count} turns and was called {self._played} times"
        return Failed(error=Failure(code="invalid_request", message=f"{problem}. Add a turn, or pass loop=True"))


def _restore(turns: tuple[ScriptedTurn, ...], model: str, profile: ModelProfile, loop: bool) -> ScriptedModel:
    return ScriptedModel(turns, model=model, profile=profile, loop=loop)


def _parts_of(body: TurnBody) -> tuple[Sequence[Part], bool]:
    if isinstance(body, ModelResponse):
        return unfold(body), True
    if isinstance(body, Turn):
        return body.events, body.complete
    return ((body,) if isinstance(body, str) else body), True


def _events_of(part: ModelEvent | str) -> Iterator[ModelEvent]:
    if isinstance(part, str):
        if part:
            yield TextDelta(text=part)
    elif isinstance(part, ToolCallDelta) and not part.call_id:
        yield part.model_copy(update={"call_id": new_call_id()})
    else:
        yield part


def _estimate(request: ModelRequest, answer: AssistantMessage) -> Usage:
    size = len(request.instructions.encode()) + sum(_size(message) for message in request.messages)
    return Usage(input_tokens=_tokens(size), output_tokens=_tokens(_size(answer)), precision="estimated")


def _size(message: Any) -> int:
    blocks = message.content if hasattr(message, "content") else [b for r in message.results for b in r.content]
    size = 0
    for block in blocks:
        if isinstance(block, TextBlock):
            size += len(block.text.encode())
        elif not isinstance(block, ImageBlock):
            size += len(block.model_dump_json())
    return size


def _tokens(size: int) -> int:
    # Four bytes a token is the usual rule of thumb for English.
    return -(-size // 4)
