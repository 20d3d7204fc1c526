"""What is done when a provider refuses the thinking of a history: it is asked once more without any.

Signatures and encrypted reasoning are bound to the model, the account and the words before them; a conversation that was continued
elsewhere, or edited, makes them invalid. Nothing is changed in the transcript.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from ...messages.model import Discarded, Failed, ModelEvent, ModelRequest
from ...messages.transcript import AssistantMessage, Message
from ...providers.retry import Ask, closable


class ThinkingRepair:
    """Remembers from which message of a run on thinking is sent."""

    def __init__(self) -> None:
        self._first = 0

    def events(self, ask: Ask, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Ask; once more without the history's thinking if that is refused. The refused try is told as `Discarded`."""
        return self._watched(ask, request) if self._can_repair(request) else ask(self._repaired(request))

    async def _watched(self, ask: Ask, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        refused: Failed | None = None
        async with aclosing(closable(ask(self._repaired(request)))) as events:
            async for event in events:
                if type(event) is Failed and event.error.code == "thinking_rejected":
                    refused = event
                    break
                yield event
        if refused is None:
            return
        self._first = len(request.messages)
        yield Discarded(error=refused.error, usage=refused.usage)
        async with aclosing(closable(ask(self._repaired(request)))) as events:
            async for event in events:
                yield event

    def _can_repair(self, request: ModelRequest) -> bool:
        return any(map(_may_hold_thinking, request.messages[self._first :]))

    def _repaired(self, request: ModelRequest) -> ModelRequest:
        return request.model_copy(update={"thinking_from": self._first}) if self._first else request


def _may_hold_thinking(message: Message) -> bool:
    if not isinstance(message, AssistantMessage):
        return False
    return any(block.kind not in ("text", "image") or getattr(block, "extras", None) for block in message.content)
