"""One turn's question to the model: its stream becomes items, its end a response or an error."""

import time
from collections.abc import AsyncIterator, Sequence

from ...messages.errors import ProviderError, ProviderProtocolError
from ...messages.failure import Failure
from ...messages.items import AttemptDiscarded, ToolCallCompleted, ToolCallStarted
from ...messages.model import (
    Completed,
    Discarded,
    Failed,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from ...messages.result import ModelCallRecord
from ...messages.transcript import AssistantMessage, ToolOutcome
from ...providers.fallback import Candidate, fall_back
from ...providers.fold import Fold
from ...providers.pricing import prepare
from ...providers.protocol import Model
from ...providers.retry import Ask
from ...providers.unfold import unfold
from .middleware import DeltaEvent
from .model_call import ModelCalls, broken_off, close
from .state import RunState


class Turn:
    """Asks until there is an answer or a final failure, and remembers what came of it, for the case that no answer does.

    Args:
        state: The run.
        models: The model, or several of which each is asked where the ones before it can't answer.
    """

    def __init__(self, state: RunState, models: Sequence[Model]) -> None:
        self._state = state
        self._models = models
        self._opened: list[AsyncIterator[ModelEvent]] = []
        self._tries = 0
        self._asked = models[0].profile
        self._begin()

    def _begin(self) -> None:
        self._tries += 1
        self._said = Fold(self._asked.provider, self._asked.model or None)
        self._partial: AssistantMessage | None = None
        self._open: dict[str, str] = {}
        self._named: set[str] = set()
        self._with_arguments: set[str] = set()
        self._told: set[type] = set()
        self._state.call_ids.begin_answer()
        self._first_seq = self._state.host.next_seq

    async def ask(self, request: ModelRequest) -> ModelResponse:
        """Send the request through the hooks and return the answer; its calls have been started in the stream.

        Raises:
            ProviderError: There is no answer. What came of it is in the transcript, and no call is left open.
            HookError: A hook raised.
        """
        hooks = self._state.hooks
        try:
            request = await hooks.before_model(request)
            response = await self._stream(request)
            response = self._state.call_ids.response(await hooks.after_model(response))
            self._announce(response)
        except ProviderError as error:
            self._abandon("truncated", f"The model's answer broke off: {error}")
            raise
        except BaseException:
            self._abandon("cancelled", self._state.stop_reason)
            raise
        return response

    def discard(self, reason: str, delay: float | None = None) -> None:
        """Tell readers that what was said so far does not count, and begin anew.

        Args:
            reason: Why.
            delay: Seconds until it is said again.
        """
        self._close(list(self._open), "truncated", f"The model's answer is discarded: {reason}")
        self._state.emit(
            AttemptDiscarded,
            scope="model_call",
            discarded_attempt=self._tries,
            first_seq=self._first_seq,
            last_seq=self._state.host.next_seq - 1,
            reason=reason,
            delay=delay,
        )
        self._begin()

    async def _stream(self, request: ModelRequest) -> ModelResponse:
        candidates = [Candidate(model.profile, self._way_to(model)) for model in self._models]
        # A chain of one needs no layer of its own.
        stream = candidates[0].ask(request) if len(candidates) == 1 else fall_back(candidates, request)
        try:
            return await self._read(stream)
        finally:
            await close(stream)
            for opened in self._opened:
                await close(opened)
            self._opened.clear()

    def _way_to(self, model: Model) -> Ask:
        """Return the layers around a model: the hooks, the last of them the retries, the repair, and the requests themselves."""
        # While the model thinks there is time for it.
        prepare(model.profile)
        calls = ModelCalls(self._state, model)
        repair = self._state.repair_of(model)
        layers = self._state.hooks.model(lambda request: repair.events(calls.events, request), self._opened)

        def ask(request: ModelRequest) -> AsyncIterator[ModelEvent]:
            self._asked = model.profile
            self._said = Fold(self._asked.provider, self._asked.model or None)
            return layers(request)

        return ask

    async def _read(self, stream: AsyncIterator[ModelEvent]) -> ModelResponse:
        # This loop runs once for every token: no task switch, no item object, no hook unless there is one.
        emit_delta, ready = self._state.host.emit_delta, self._state.host.ready
        told, hooks = self._told, self._state.hooks.sees_deltas
        async for event in stream:
            kind = type(event)
            if type(event) is ToolCallDelta:
                event = self._state.call_ids.delta(event)
                self._note(event)
            if hooks and kind in _DELTAS:
                told.add(kind)
                await self._tell_through_hooks(event)  # type: ignore[arg-type]
            elif type(event) is TextDelta:
                told.add(kind)
                emit_delta("model_delta", text=event.text)
                self._said.text(event.text)
            elif type(event) is ReasoningDelta:
                told.add(kind)
                emit_delta("model_delta", reasoning=event.text)
                self._said.reasoning(event.text, event.index)
            elif type(event) is ToolCallDelta:
                self._fragment(event)
            elif type(event) is Completed:
                response = self._state.call_ids.response(event.response)
                if response.cached:
                    self._enter_cached(response)
                await self._tell_late(response)
                self._partial = response.message
                # What layers do after the last event is part of the call.
                async for _ in stream:
                    pass
                return response
            elif type(event) is Failed:
                self._partial = event.partial
                raise ProviderError(event.error)
            elif type(event) is Discarded:
                self.discard(_reason(event), event.delay)
                told = self._told
            else:
                continue
            await ready()
        raise ProviderProtocolError(broken_off())

    def _enter_cached(self, response: ModelResponse) -> None:
        profile = self._models[0].profile
        record = ModelCallRecord(
            model=response.model or profile.model,
            provider=response.message.provider or profile.provider,
            finish_reason=response.finish_reason,
            cached=True,
            started=time.time(),
        )
        self._state.accounts.add_model_call(record)

    async def _tell_late(self, response: ModelResponse) -> None:
        """Tell what the answer says and no delta told: an answer from a cache, or of a model that does not stream, has only its end."""
        told = frozenset(self._told)
        for event in unfold(response):
            if type(event) is ToolCallDelta:
                late = event.call_id not in (self._with_arguments if event.arguments else self._named)
                self._note(event)
            else:
                late = type(event) in (TextDelta, ReasoningDelta) and type(event) not in told
            if late:
                await self._tell_through_hooks(event)  # type: ignore[arg-type]
                await self._state.host.ready()

    def _note(self, event: ToolCallDelta) -> None:
        """Remember what was said of a call, whether or not a hook lets readers see it."""
        self._named.add(event.call_id)
        if event.arguments:
            self._with_arguments.add(event.call_id)

    async def _tell_through_hooks(self, event: DeltaEvent) -> None:
        seen = await self._state.hooks.delta(event)
        if type(seen) is TextDelta:
            self._state.host.emit_delta("model_delta", text=seen.text)
            self._said.text(seen.text)
        elif type(seen) is ReasoningDelta:
            self._state.host.emit_delta("model_delta", reasoning=seen.text)
            self._said.reasoning(seen.text, seen.index)
        elif type(seen) is ToolCallDelta:
            # Which call it is of is not for hooks to say.
            if isinstance(event, ToolCallDelta) and event.call_id != seen.call_id:
                seen = seen.model_copy(update={"call_id": event.call_id})
            self._fragment(seen)

    def _fragment(self, event: ToolCallDelta) -> None:
        if event.call_id not in self._open:
            self._start(event.call_id, event.tool_name)
        if event.arguments:
            self._arguments(event.call_id, event.tool_name, event.arguments)

    def _start(self, call_id: str, tool_name: str) -> None:
        self._open[call_id] = tool_name
        self._state.emit(ToolCallStarted, call_id=call_id, tool_name=tool_name)

    def _arguments(self, call_id: str, tool_name: str, delta: str) -> None:
        self._state.emit_delta("tool_call_args_delta", call_id=call_id, tool_name=tool_name, delta=delta)

    def _announce(self, response: ModelResponse) -> None:
        """Bring the stream into line with the response, which decides what was called."""
        calls = response.message.tool_calls
        ids = [call.call_id for call in calls]
        if len(set(ids)) < len(ids):
            raise ProviderProtocolError(
                Failure(code="protocol", message="the answer holds two calls of one id", retryable=True)
            )
        for call in calls:
            if call.call_id not in self._open:
                self._start(call.call_id, call.tool_name)
            if call.call_id not in self._named and call.arguments_json:
                self._arguments(call.call_id, call.tool_name, call.arguments_json)
        self._close([each for each in self._open if each not in ids], "invalid", "The final answer has no such call.")

    def _abandon(self, outcome: ToolOutcome, why: str) -> None:
        self._close(list(self._open), outcome, why)
        message = self._partial or self._said.message("unknown", ended=False)
        # Calls of a broken answer were never run; without them the history stays valid for any provider.
        kept = tuple(block for block in message.content if block.kind != "tool_call")
        if kept:
            self._state.messages.append(message.model_copy(update={"content": kept}))

    def _close(self, call_ids: Sequence[str], outcome: ToolOutcome, why: str) -> None:
        for call_id in call_ids:
            name = self._open.pop(call_id)
            self._state.emit(ToolCallCompleted, call_id=call_id, tool_name=name, outcome=outcome, message=why)


_DELTAS = frozenset({TextDelta, ReasoningDelta, ToolCallDelta})


def _reason(event: Discarded) -> str:
    reason = f"{event.error.code}: {event.error.message}"
    return f"{reason}. Next: {event.model}" if event.model else reason
