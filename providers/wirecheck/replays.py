"""The ways of sending reasoning back, and an answer as the history of the next request."""

from typing import Any

from ...messages.content import TextBlock, ToolCallBlock
from ...messages.model import Completed, ModelRequest
from ...messages.transcript import ToolMessage, ToolResult, UserMessage
from ..chat.dialects import GENERIC
from ..chat.request import build_body
from .decoding import calls_of, decode
from .recording import Recording

TEXT_FIELDS = ("reasoning_content", "reasoning")
"""Fields in which reasoning is sent back as text."""
SHAPED_FIELDS = ("reasoning_details", "content")
"""Fields in which it is sent back in the form it came in."""

_MADE_UP = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
_RESULT = '{"weather": "sunny", "celsius": 21}'
_THOUGHT = "The user wants the weather of two cities. I have a tool for that, so I call it once for each city."


def profile_changes(name: str | None, part: str | None = None) -> dict[str, Any]:
    """Return the fields of a profile that sends reasoning back in a field.

    Args:
        name: The field; `None`: in none.
        part: The type of the parts of the content in which reasoning arrives.
    """
    shape = "text"
    if name == "reasoning_details":
        shape = "details"
    elif name == "content":
        shape = "summary_parts" if part == "reasoning" else "thinking_parts"
    return {"reasoning_replay": name, "replay_shape": shape}


def plain_history(recording: Recording, field: str | None = None) -> list[dict[str, Any]]:
    """Return the assistant's message with its calls, or one that is made up if it made none, and their results.

    Args:
        recording: The answer.
        field: The field of the message that gets its reasoning, made up as well if there is none.
    """
    calls = [_call(block) for block in calls_of(recording)] or [_MADE_UP]
    said: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": calls}
    if field is not None:
        last = decode(recording)
        own = last.response.message.reasoning if isinstance(last, Completed) else ""
        said[field] = own or _THOUGHT
    return [said, *({"role": "tool", "tool_call_id": call["id"], "content": _RESULT} for call in calls)]


def shaped_history(recording: Recording, field: str, part: str | None) -> list[dict[str, Any]]:
    """Return the same with the reasoning in the form it came in, as the model class sends it; nothing if it made no calls."""
    profile = GENERIC.model_copy(update=profile_changes(field, part))
    last = decode(recording, profile)
    if not isinstance(last, Completed) or not last.response.message.tool_calls:
        return []
    message = last.response.message
    results = tuple(
        ToolResult(call_id=call.call_id, tool_name=call.tool_name, outcome="ok", content=(TextBlock(text=_RESULT),))
        for call in message.tool_calls
    )
    request = ModelRequest(messages=(UserMessage.of("?"), message, ToolMessage(results=results)))
    sent: list[dict[str, Any]] = build_body(request, "", profile)["messages"]
    return sent[1:]


def _call(block: ToolCallBlock) -> dict[str, Any]:
    arguments = block.arguments_json if block.arguments is not None else "{}"
    call = {"id": block.call_id, "type": "function", "function": {"name": block.tool_name, "arguments": arguments}}
    return {**call, **(block.extras or {})}
