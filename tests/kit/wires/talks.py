"""Conversations with tools for property tests: turns of any provider, with everything it wants back."""

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from runtree.messages.content import TextBlock
from runtree.messages.model import ModelRequest, ToolDefinition
from runtree.messages.transcript import AssistantMessage, Message, ToolMessage, ToolResult, UserMessage

from .check import response_of
from .families import Family
from .script import Called, Hidden, Part, Said, Script, Thought

TOOL = ToolDefinition(name="get_weather", parameters={"type": "object", "properties": {}})

_WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
_ARGUMENTS = st.dictionaries(
    _WORDS, st.integers(-9, 9) | st.booleans() | st.none() | _WORDS | st.lists(_WORDS, max_size=2), max_size=2
)


@st.composite
def turns(draw: st.DrawFn, number: int, *, last: bool) -> Script:
    """One answer in any order. What is opaque is told apart by the number of its turn."""
    parts: list[Part] = []
    for at, kind in enumerate(draw(st.lists(st.sampled_from(["say", "think", "sign", "hide", "call"]), max_size=5))):
        secret = f"SECRET{number}.{at}"
        match kind:
            case "say":
                parts.append(Said((f"SAID{number}.{at}", draw(_WORDS))))
            case "think":
                parts.append(Thought((f"{secret}t", draw(_WORDS)), f"{secret}s{draw(_WORDS)}"))
            case "sign":
                parts.append(Thought((), f"{secret}s{draw(_WORDS)}"))
            case "hide":
                parts.append(Hidden(f"{secret}h{draw(_WORDS)}"))
            case _:
                parts.append(_call(draw, f"call_{number}{at}"))
    if last:
        parts = [part for part in parts if not isinstance(part, Called)]
        return Script([*parts, Said((f"SAID{number}.end",))])
    if not any(isinstance(part, Called) for part in parts):
        parts.append(_call(draw, f"call_{number}z"))
    return Script(parts, "tool_calls")


def _call(draw: st.DrawFn, call_id: str) -> Called:
    text = json.dumps(draw(_ARGUMENTS), ensure_ascii=draw(st.booleans()))
    cut = draw(st.integers(0, len(text)))
    return Called(call_id, TOOL.name, tuple(piece for piece in (text[:cut], text[cut:]) if piece))


def answered(family: Family, script: Script, *, streamed: bool = True) -> AssistantMessage:
    """What the provider's answer becomes, after it was stored once."""
    reads = family.wire.frames(script) if streamed else [family.wire.body(script)]
    message = response_of(family.decode(reads)).message
    return AssistantMessage.model_validate_json(message.model_dump_json())


def conversation(said: Sequence[AssistantMessage]) -> ModelRequest:
    """A request whose history holds these answers, each call with its result."""
    messages: list[Message] = [UserMessage.of("go")]
    for message in said:
        messages.append(message)
        results = tuple(_result(call.call_id, call.tool_name) for call in message.tool_calls)
        messages.append(ToolMessage(results=results) if results else UserMessage.of("and now?"))
    return ModelRequest(messages=tuple(messages), tools=(TOOL,))


def _result(call_id: str, name: str) -> ToolResult:
    return ToolResult(call_id=call_id, tool_name=name, outcome="ok", content=(TextBlock(text="sunny"),))


def canonical(parts: Sequence[Part]) -> list[Part]:
    """The parts with arguments as values and not as text: some providers are sent an object."""
    return [
        Called(part.call_id, part.name, (_compact(json.loads(part.arguments or "{}")),))
        if isinstance(part, Called)
        else part
        for part in parts
    ]


def _compact(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
