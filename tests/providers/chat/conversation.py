"""Answers of servers decoded, and what the next request says of them."""

from collections.abc import Iterable
from typing import Any

from runtree.messages.content import TextBlock
from runtree.messages.model import Completed, Failed, ModelEvent, ModelRequest, ModelSettings, ToolDefinition
from runtree.messages.transcript import AssistantMessage, Message, ToolMessage, ToolResult, UserMessage
from runtree.providers.chat.profile import ChatProfile
from runtree.providers.chat.request import build_body
from runtree.providers.chat.stream import ChatStream
from runtree.providers.decoder import AnswerDecoder

from ..answers import chunk, stream

TOOL = ToolDefinition(name="get", description="Gets.", parameters={"type": "object", "properties": {}})


def decode(reads: Iterable[bytes], profile: ChatProfile, model: str = "m-1") -> list[ModelEvent]:
    decoder = AnswerDecoder(ChatStream(profile.facts_for(model, ModelSettings()), model))
    events: list[ModelEvent] = []
    for read in reads:
        events += decoder.feed(read)
    return events + decoder.finish()


def answer_of(
    profile: ChatProfile, *deltas: dict[str, Any], finish: str = "stop", model: str = "m-1"
) -> AssistantMessage:
    """The message that a stream of these deltas makes."""
    last = decode([stream(*map(chunk, deltas), chunk(finish=finish))], profile, model)[-1]
    assert isinstance(last, Completed), last
    return last.response.message


def message_of(events: list[ModelEvent]) -> AssistantMessage | None:
    last = events[-1]
    assert isinstance(last, Completed | Failed)
    return last.response.message if isinstance(last, Completed) else last.partial


def results_of(message: AssistantMessage) -> ToolMessage:
    """An answer to each call of a message."""
    return ToolMessage(
        results=tuple(
            ToolResult(call_id=call.call_id, tool_name=call.tool_name, outcome="ok", content=(TextBlock(text="1"),))
            for call in message.tool_calls
        )
    )


def turn(message: AssistantMessage) -> tuple[Message, ...]:
    """A question, the answer to it, and the results of its calls."""
    return (UserMessage.of("hi"), message, *([results_of(message)] if message.tool_calls else []))


def body(profile: ChatProfile, *messages: Message, model: str = "m-1", **fields: Any) -> dict[str, Any]:
    return build_body(ModelRequest(messages=messages or (UserMessage.of("hi"),), **fields), model, profile)


def echoed(profile: ChatProfile, *messages: Message, model: str = "m-1", **fields: Any) -> list[dict[str, Any]]:
    """The assistant's messages of the next request."""
    sent = body(profile, *messages, model=model, **fields)["messages"]
    return [message for message in sent if message["role"] == "assistant"]
