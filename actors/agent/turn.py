"""One turn's question to the model: its stream becomes items, its end a response or an error."""

from collections.abc import AsyncIterator, Sequence

import anyio

from ...messages.content import TextBlock
from ...messages.errors import ProviderError, ProviderProtocolError, ProviderTimeoutError
from ...messages.failure import Failure
from ...messages.items import ToolCallCompleted, ToolCallStarted
from ...messages.model import (
    Completed,
    Failed,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from ...messages.transcript import AssistantMessage, ToolOutcome
from ...providers.protocol import Model
from .model_call import ModelCalls, broken_off, close
from .state import RunState


class Turn:
    """Asks once and remembers what came, for the case that no answer does."""

    def __init__(self, state: RunState, model: Model) -> None:
        self._state = state
        self._model = model
        self._texts: list[str] = []
        self._partial: AssistantMessage | None = None
        self._open: dict[str, str] = {}
        self._with_arguments: set[str] = set()
        self.first_seq = state.host.next_seq
        """Number of the first item of the answer."""

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
            response = await hooks.after_model(response)
            self._announce(response)
        except ProviderError as error:
            self._abandon("truncated", f"The model's answer broke off: {error}")
            raise
        except BaseException:
            self._abandon("cancelled", self._state.stop_reason)
            raise
        return response

    async def _stream(self, request: ModelRequest) -> ModelResponse:
        scope = anyio.CancelScope()
        calls = ModelCalls(self._state, self._model, scope)
        with scope:
            stream = self._state.hooks.model(calls.events)(request)
            try:
                return await self._read(stream)
            finally:
                await close(stream)
                await calls.close()
        text = f"the model call took longer than {calls.timeout:g} seconds (model_call_timeout)"
        raise ProviderTimeoutError(Failure(code="timeout", message=text, retryable=True))

    async def _read(self, stream: AsyncIterator[ModelEvent]) -> ModelResponse:
        # This loop runs once for every token: no task switch, no item object, no hook unless there is one.
        state = self._state
        emit_delta, ready = state.host.emit_delta, state.host.ready
        hooks = state.hooks if state.hooks.sees_deltas else None
        async for event in stream:
            if hooks is not None and isinstance(event, TextDelta | ReasoningDelta | ToolCallDelta):
                seen = await hooks.delta(event)
                if seen is None:
                    continue
                event = seen
            if type(event) is TextDelta:
                emit_delta("model_delta", text=event.text)
                self._texts.append(event.text)
            elif type(event) is ReasoningDelta:
                emit_delta("model_delta", reasoning=event.text)
            elif type(event) is ToolCallDelta:
                self._fragment(event)
            elif type(event) is Completed:
                return event.response
            elif type(event) is Failed:
                self._partial = event.partial
                raise ProviderError(event.error)
            else:
                continue
            await ready()
        raise ProviderProtocolError(broken_off())

    def _fragment(self, event: ToolCallDelta) -> None:
        if event.call_id not in self._open:
            self._start(event.call_id, event.tool_name)
        if event.arguments:
            self._arguments(event.call_id, event.tool_name, event.arguments)

    def _start(self, call_id: str, tool_name: str) -> None:
        self._open[call_id] = tool_name
        self._state.emit(ToolCallStarted, call_id=call_id, tool_name=tool_name)

    def _arguments(self, call_id: str, tool_name: str, delta: str) -> None:
        self._with_arguments.add(call_id)
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
            if call.call_id not in self._with_arguments and call.arguments_json:
                self._arguments(call.call_id, call.tool_name, call.arguments_json)
        self._close([each for each in self._open if each not in ids], "invalid", "The final answer has no such call.")

    def _abandon(self, outcome: ToolOutcome, why: str) -> None:
        self._close(list(self._open), outcome, why)
        message = self._partial
        if message is None:
            text = "".join(self._texts)
            profile = self._model.profile
            message = AssistantMessage(
                content=(TextBlock(text=text),) if text else (),
                model=profile.model or None,
                provider=profile.provider,
                finish_reason="unknown",
            )
        # Calls of a broken answer were never run; without them the history stays valid for any provider.
        kept = tuple(block for block in message.content if block.kind != "tool_call")
        if kept:
            self._state.messages.append(message.model_copy(update={"content": kept}))

    def _close(self, call_ids: Sequence[str], outcome: ToolOutcome, why: str) -> None:
        for call_id in call_ids:
            name = self._open.pop(call_id)
            self._state.emit(ToolCallCompleted, call_id=call_id, tool_name=name, outcome=outcome, message=why)
