"""What must be true of the events of every answer."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from runtree.messages.failure import Failure
from runtree.messages.model import (
    Completed,
    Failed,
    ModelEvent,
    ModelResponse,
    ReasoningDelta,
    SignatureDelta,
    TextDelta,
    ToolCallDelta,
)
from runtree.messages.transcript import AssistantMessage

from .script import Called, Hidden, Said, Script, Thought

Told: TypeAlias = tuple[str, object, str, str]
"""Kind, number or name, text and signature."""

_NOTHING = {"text": "", "thought": "", "call": "{}"}


def merged(events: Iterable[ModelEvent]) -> list[Told]:
    """What was told, pieces of the same thing put together in the place of the first; accounts are left out.

    A signature stands behind its thought: some servers send it only at the end.
    """
    told: list[list[Any]] = []
    places: dict[tuple[str, object], list[Any]] = {}
    for event in events:
        match event:
            case TextDelta():
                item: list[Any] = ["text", None, event.text, ""]
            case ReasoningDelta():
                item = ["thought", event.index, event.text, ""]
            case SignatureDelta():
                item = ["thought", event.index, "", event.signature]
            case ToolCallDelta():
                item = ["call", event.call_id, event.arguments, event.tool_name]
            case _:
                continue
        key = (item[0], item[1])
        if item[0] == "text":
            known = told[-1] if told and told[-1][0] == "text" else None
        else:
            known = places.get(key)
        if known is None:
            told.append(item)
            places[key] = item
        else:
            known[2] += item[2]
            known[3] += item[3] if item[0] == "thought" else ""
    return [
        (kind, name if kind == "call" else number, text or _NOTHING[kind], "" if kind == "call" else name)
        for kind, number, text, name in told
    ]


def expected(script: Script) -> list[Told]:
    """What is told of a script, without signatures."""
    told: list[Told] = []
    thinking = 0
    for part in script.parts:
        match part:
            case Said() if part.text:
                joined = told.pop()[2] if told and told[-1][0] == "text" else ""
                told.append(("text", None, joined + part.text, ""))
            case Thought():
                if part.text:
                    told.append(("thought", thinking, part.text, ""))
                thinking += 1
            case Called():
                told.append(("call", part.name, part.arguments or "{}", ""))
            case Said() | Hidden():
                pass
    return told


def unsigned(told: Iterable[Told]) -> list[Told]:
    """The same without signatures, and without thoughts that were nothing else."""
    return [(kind, key, text, "") for kind, key, text, _ in told if text]


def end_of(events: Sequence[ModelEvent]) -> Completed | Failed:
    """The terminal event, of which there must be one, at the end."""
    ends = [event for event in events if isinstance(event, Completed | Failed)]
    assert len(ends) == 1, f"{len(ends)} terminal events"
    assert events[-1] is ends[0], f"something came after the end: {events[-1]}"
    return ends[0]


def response_of(events: Sequence[ModelEvent]) -> ModelResponse:
    """The answer of a call that must have one."""
    end = end_of(events)
    assert isinstance(end, Completed), end
    check_calls(events)
    return end.response


def failure_of(events: Sequence[ModelEvent]) -> Failure:
    """The failure of a call that must have failed."""
    end = end_of(events)
    assert isinstance(end, Failed), end
    check_calls(events)
    return end.error


def message_of(events: Sequence[ModelEvent]) -> AssistantMessage | None:
    """What was said, whole or not."""
    end = end_of(events)
    return end.response.message if isinstance(end, Completed) else end.partial


def check_calls(events: Sequence[ModelEvent]) -> None:
    """Every call of the message was told in pieces, and one that can be run was told whole."""
    message = message_of(events)
    pieces: dict[str, list[str]] = {}
    for event in events:
        if isinstance(event, ToolCallDelta):
            assert event.call_id, "a fragment without an id"
            assert event.tool_name, "a fragment without a name"
            pieces.setdefault(event.call_id, []).append(event.arguments)
    calls = message.tool_calls if message else ()
    assert len({call.call_id for call in calls}) == len(calls), "two calls of one id"
    for call in calls:
        assert call.call_id in pieces, f"a call that was not told: {call}"
        if call.arguments is None:
            continue
        told = "".join(pieces[call.call_id]).strip() or "{}"
        assert told == call.arguments_json, f"a call that was told as {told}: {call}"
