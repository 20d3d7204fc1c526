"""What the tests of the responses protocol read answers with."""

from collections.abc import Iterable, Sequence
from typing import Any

from runtree.messages.model import (
    Completed,
    Failed,
    ModelEvent,
    ModelRequest,
    ModelSettings,
    ReasoningDelta,
    SignatureDelta,
    TextDelta,
    ToolCallDelta,
)
from runtree.messages.transcript import AssistantMessage, Message, ToolMessage, ToolResult, UserMessage
from runtree.providers.decoder import AnswerDecoder
from runtree.providers.fold import Fold
from runtree.providers.responses.profile import OPENAI, ResponsesProfile
from runtree.providers.responses.request import build_body
from runtree.providers.responses.stream import ResponsesStream

REASONER = "gpt-5"


def decode(reads: Iterable[bytes], profile: ResponsesProfile = OPENAI) -> list[ModelEvent]:
    decoder = AnswerDecoder(ResponsesStream(profile, "asked-for"))
    events: list[ModelEvent] = []
    for read in reads:
        events += decoder.feed(read)
    return events + decoder.finish()


def merge(events: Iterable[ModelEvent]) -> list[tuple[object, ...]]:
    """The events with neighbouring pieces of the same thing put together; the last one with all it holds."""
    merged: list[tuple[object, ...]] = []
    for event in events:
        match event:
            case TextDelta():
                item: tuple[object, ...] = ("text", None, event.text)
            case ReasoningDelta():
                item = ("reasoning", event.index, event.text)
            case ToolCallDelta():
                item = ("call", event.tool_name, event.arguments)
            case SignatureDelta():
                item = ("signature", event.index, event.signature)
            case _:
                item = (event.kind, None, _plain(event))
        if merged and merged[-1][:2] == item[:2] and item[0] in ("text", "reasoning"):
            item = (*item[:2], f"{merged.pop()[2]}{item[2]}")
        merged.append(item)
    return merged


def _plain(event: ModelEvent) -> object:
    message = message_of([event]) if isinstance(event, Completed | Failed) else None
    if message is None:
        return event.model_dump_json()
    # Ids of our own making differ from one reading to the next.
    return [block.model_dump(exclude={"call_id"}) for block in message.content]


def message_of(events: Sequence[ModelEvent]) -> AssistantMessage | None:
    last = events[-1]
    assert isinstance(last, Completed | Failed)
    return last.response.message if isinstance(last, Completed) else last.partial


def completed(events: Sequence[ModelEvent]) -> AssistantMessage:
    last = events[-1]
    assert isinstance(last, Completed), last
    return last.response.message


def failed(events: Sequence[ModelEvent]) -> Failed:
    last = events[-1]
    assert isinstance(last, Failed), last
    return last


def check_pieces(events: Sequence[ModelEvent], message: AssistantMessage | None) -> None:
    """The events say what the message says."""
    fold = Fold()
    for event in events:
        fold.add(event)
    pieces = fold.message("stop")
    assert pieces.text == (message.text if message else "")
    assert pieces.reasoning == (message.reasoning if message else "")
    if message is not None:
        told = [(block.call_id, block.tool_name, block.arguments_json) for block in pieces.tool_calls]
        assert told == [(block.call_id, block.tool_name, block.arguments_json or "{}") for block in message.tool_calls]


def ends_once(events: Sequence[ModelEvent]) -> None:
    assert [event for event in events if isinstance(event, Completed | Failed)] == [events[-1]]


def results(message: AssistantMessage) -> ToolMessage:
    return ToolMessage(
        results=tuple(
            ToolResult(call_id=call.call_id, tool_name=call.tool_name, outcome="ok") for call in message.tool_calls
        )
    )


def sent(
    *messages: Message, profile: ResponsesProfile = OPENAI, model: str = REASONER, store: bool = False, **request: Any
) -> list[dict[str, Any]]:
    """The input items that a conversation is sent as."""
    settings = ModelSettings(extra_body={"store": True} if store else {})
    body = build_body(ModelRequest(messages=messages, settings=settings, **request), model, profile)
    items: list[dict[str, Any]] = body["input"]
    return items


def replayed(message: AssistantMessage, **options: Any) -> list[dict[str, Any]]:
    """What an answer is sent back as in the next request."""
    items = sent(UserMessage.of("hi"), message, results(message), **options)
    return [item for item in items[1:] if not str(item.get("type")).endswith("call_output")]
