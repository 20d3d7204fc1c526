"""From a whole answer to events: what a stream of it would have looked like."""

from ..messages.content import TextBlock, ThinkingBlock, ToolCallBlock
from ..messages.model import (
    Completed,
    ModelEvent,
    ModelResponse,
    ReasoningDelta,
    SignatureDelta,
    Started,
    TextDelta,
    ToolCallDelta,
    UsageDelta,
)
from .fold import UNKNOWN_USAGE


def unfold(response: ModelResponse) -> list[ModelEvent]:
    """Return the events of a response, one delta a block, the response itself as the last.

    Blocks that no delta describes are found in the response only.
    """
    events: list[ModelEvent] = [Started(model=response.model)]
    thinking = 0
    for block in response.message.content:
        if isinstance(block, TextBlock) and block.text:
            events.append(TextDelta(text=block.text))
        elif isinstance(block, ToolCallBlock):
            events.append(
                ToolCallDelta(call_id=block.call_id, tool_name=block.tool_name, arguments=block.arguments_json)
            )
        elif isinstance(block, ThinkingBlock):
            if block.text:
                events.append(ReasoningDelta(text=block.text, index=thinking))
            if block.signature:
                events.append(SignatureDelta(signature=block.signature, index=thinking))
            thinking += 1
    if response.usage != UNKNOWN_USAGE:
        events.append(UsageDelta(usage=response.usage))
    events.append(Completed(response=response))
    return events
