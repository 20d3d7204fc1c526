"""Ids of tool calls that are unique in a run, whatever the provider gives: some count within a turn, and a repeated try may repeat its ids."""

from collections.abc import Iterable

from ...messages.content import ContentBlock, ToolCallBlock
from ...messages.ids import new_call_id
from ...messages.model import ModelResponse, ToolCallDelta
from ...messages.transcript import AssistantMessage, Message


class UniqueCallIds:
    """Gives a call another id where its own was used before in the run. The provider's id is kept with the call, to be sent back."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._ids: dict[str, str] = {}

    def add_history(self, messages: Iterable[Message]) -> None:
        """Count the ids of earlier messages as used."""
        for message in messages:
            if isinstance(message, AssistantMessage):
                self._used.update(call.call_id for call in message.tool_calls)

    def begin_answer(self) -> None:
        """Count all ids so far as used: what comes next is another answer."""
        self._used.update(self._ids.values())
        self._ids = {}

    def delta(self, event: ToolCallDelta) -> ToolCallDelta:
        """Return a piece of a call under the call's unique id."""
        call_id = self._id(event.call_id)
        return event if call_id == event.call_id else event.model_copy(update={"call_id": call_id})

    def response(self, response: ModelResponse) -> ModelResponse:
        """Return the answer with the same ids as its pieces."""
        message = response.message
        if all(self._id(call.call_id) == call.call_id for call in message.tool_calls):
            return response
        content = tuple(map(self._block, message.content))
        return response.model_copy(update={"message": message.model_copy(update={"content": content})})

    def _block(self, block: ContentBlock) -> ContentBlock:
        if not isinstance(block, ToolCallBlock) or self._id(block.call_id) == block.call_id:
            return block
        given = block.provider_call_id or block.call_id
        return block.model_copy(update={"call_id": self._id(block.call_id), "provider_call_id": given})

    def _id(self, given: str) -> str:
        call_id = self._ids.get(given)
        if call_id is None:
            call_id = self._ids[given] = new_call_id() if given in self._used else given
        return call_id
