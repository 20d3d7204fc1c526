"""Where the marks of the prompt cache stand."""

from collections.abc import Iterator
from typing import Any

import pytest

from runtree.messages.content import TextBlock, ThinkingBlock, ToolCallBlock
from runtree.messages.model import ModelRequest, ModelSettings, ToolDefinition
from runtree.messages.transcript import AssistantMessage, ToolMessage, ToolResult, UserMessage
from runtree.providers.anthropic.profile import ANTHROPIC
from runtree.providers.anthropic.request import build_call

TOOLS = tuple(ToolDefinition(name=name, parameters={"type": "object"}) for name in ("a", "b"))
CALLED = AssistantMessage(
    content=(
        ThinkingBlock(text="Hm", signature="1=", provider="anthropic"),
        ToolCallBlock(call_id="c1", tool_name="a", arguments={}, provider="anthropic"),
    )
)
ANSWERED = ToolMessage(results=(ToolResult(call_id="c1", tool_name="a", outcome="ok", content=(TextBlock(text="1"),)),))
TALK = (
    UserMessage.of("one"),
    AssistantMessage(content=(TextBlock(text="1"),)),
    UserMessage.of("two"),
    CALLED,
    ANSWERED,
)


def sent(*messages: Any, cache: Any = "5m", **options: Any) -> dict[str, Any]:
    settings = ModelSettings(prompt_cache=cache, **options)
    request = ModelRequest(messages=messages or TALK, instructions="Be brief.", tools=TOOLS, settings=settings)
    return build_call(request, "claude-sonnet-4-5", ANTHROPIC).body


def marks(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        if "cache_control" in value:
            yield path, value["cache_control"]
        for name, part in value.items():
            yield from marks(part, f"{path}.{name}")
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from marks(part, f"{path}.{number}")


@pytest.mark.parametrize("ttl, control", [("5m", {"type": "ephemeral"}), ("1h", {"type": "ephemeral", "ttl": "1h"})])
def test_marks_at_the_ends(ttl: str, control: Any) -> None:
    """Tools, instructions, the last message, and the one the user said before: what the call before has written."""
    assert dict(marks(sent(cache=ttl))) == {
        ".tools.1": control,
        ".system.0": control,
        ".messages.4.content.0": control,
        ".messages.2.content.0": control,
    }


def test_no_marks_unless_they_are_asked_for() -> None:
    body = sent(cache=None)
    assert not list(marks(body))
    assert body["system"] == "Be brief."


def test_a_mark_set_by_the_caller_counts() -> None:
    body = sent(extra_body={"cache_control": {"type": "ephemeral"}})
    assert {path for path, _ in marks(body)} == {"", ".tools.1", ".system.0", ".messages.4.content.0"}


def test_thinking_is_never_marked() -> None:
    paused = AssistantMessage(
        content=(TextBlock(text="x"), ThinkingBlock(text="", signature="2=", provider="anthropic")),
        finish_reason="pause",
    )
    assert [path for path, _ in marks(sent(UserMessage.of("one"), paused))][2:] == [
        ".messages.0.content.0",
        ".messages.1.content.0",
    ]


def test_without_tools_and_instructions_there_is_room_for_more() -> None:
    said = [message for number in range(6) for message in (UserMessage.of(f"{number}"), TALK[1])][:-1]
    request = ModelRequest(messages=tuple(said), settings=ModelSettings(prompt_cache="5m"))
    found = [path for path, _ in marks(build_call(request, "m-1", ANTHROPIC).body)]
    assert found == [f".messages.{number}.content.0" for number in (4, 6, 8, 10)]


def test_the_transcript_is_not_marked() -> None:
    before = [message.model_dump_json() for message in TALK]
    sent()
    assert [message.model_dump_json() for message in TALK] == before
