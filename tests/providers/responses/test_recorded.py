"""Answers recorded from real servers, read from the shared fixtures: P01 to P20, K02 and K06 as they happened."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtree.messages.content import ThinkingBlock
from runtree.messages.model import Completed, Failed, ModelEvent
from runtree.messages.transcript import AssistantMessage
from runtree.providers.responses.profile import (
    AZURE,
    BEDROCK,
    DEEPSEEK,
    GENERIC,
    GITHUB,
    OPENAI,
    OPENROUTER,
    XAI,
    ResponsesProfile,
)
from tests.kit.recordings import recordings, usage_problems

from .reading import check_pieces, decode, ends_once, merge, message_of, replayed

PROFILES: dict[str, ResponsesProfile] = {
    "azure": AZURE,
    "bedrock-mantle": BEDROCK,
    "copilot": GITHUB,
    "deepseek": DEEPSEEK,
    "openai": OPENAI,
    "openrouter": OPENROUTER,
    "xai": XAI,
}

UNFINISHED_BUT_REPEATED = {
    "79744bc4b65f": (
        "Two of the server's items have no output_item.done, and the truth keeps them as they were announced, empty. The last event "
        "repeats them whole. The terminal response decides over what was never finished (L3), so they go back whole."
    )
}


@pytest.mark.parametrize("kind", ["stream", "nonstream"])
def test_recorded_answers(streams: Path, kind: str) -> None:
    wrong = {
        name: problems
        for name, recording, body in recordings(streams / kind / "openai_responses")
        if (problems := list(problems_of(name, recording, body)))
    }
    assert not wrong


@pytest.mark.parametrize("kind", ["stream", "nonstream"])
def test_p01_recorded_answers_in_any_cut(streams: Path, kind: str) -> None:
    dice = random.Random(7)
    for name, _, body in recordings(streams / kind / "openai_responses"):
        whole = merge(decode([body]))
        sizes = [1, 2, 7, 100] if len(body) < 12_000 else [3]
        for size in sizes:
            assert merge(decode(body[at : at + size] for at in range(0, len(body), size))) == whole, (name, size)
        for at in dice.sample(range(len(body)), min(20, len(body))):
            assert merge(decode([body[:at], body[at:]])) == whole, (name, at)


def test_p05_recorded_answers_cut_off_anywhere(streams: Path) -> None:
    """A stream without its last event is never an answer, whatever was whole in it."""
    dice = random.Random(7)
    for name, _, body in recordings(streams / "stream" / "openai_responses"):
        end = body.rindex(b"data:") if b"[DONE]" not in body else body.rindex(b"data:", 0, body.rindex(b"data:"))
        for at in dice.sample(range(end), 20):
            events = decode([body[:at]])
            ends_once(events)
            assert isinstance(events[-1], Failed), (name, at)


def problems_of(name: str, recording: dict[str, Any], body: bytes) -> Iterator[object]:
    profile = PROFILES.get(recording["provider"], GENERIC)
    truth, events = recording["truth"], decode([body], profile)
    last, message = events[-1], message_of(events)
    check_pieces(events, message)
    if (message.text if message else "") != (truth["text"] or "") + (truth.get("refusal") or ""):
        yield "text", message
    if (message.reasoning if message else "") != (truth["reasoning"] or ""):
        yield "reasoning", message
    yield from _call_problems(message, truth["tool_calls"])
    yield from _end_problems(last, truth)
    if isinstance(last, Completed):
        yield from _replay_problems(name, last.response.message, truth, profile)


def _call_problems(message: AssistantMessage | None, calls: list[dict[str, Any]]) -> Iterator[object]:
    blocks = message.tool_calls if message else ()
    if len(blocks) != len(calls):
        yield "calls", blocks
    for block, expected in zip(blocks, calls, strict=False):
        arguments = {"input": expected["input_text"]} if expected.get("custom") else expected["arguments"]
        if (block.call_id, block.tool_name, block.arguments) != (expected["id"], expected["name"], arguments):
            yield "call", block
        if block.arguments_json != expected.get("arguments_raw", block.arguments_json):
            yield "raw", block


def _end_problems(last: ModelEvent, truth: dict[str, Any]) -> Iterator[object]:
    assert isinstance(last, Completed | Failed)
    failed = bool(truth["error"] or truth["finish_reason"] == "error" or truth.get("expect"))
    if isinstance(last, Failed) != failed:
        yield "end", last
    if isinstance(last, Failed) and not last.error.retryable:
        yield "retryable", last.error
    if isinstance(last, Completed):
        reason = "refusal" if truth.get("refusal") else truth["finish_reason"]
        if (last.response.finish_reason, last.response.finish_reason_raw) != (reason, truth["finish_reason_raw"]):
            yield "finish", last.response.finish_reason, reason
        if (last.response.model, last.response.response_id) != (truth["model"], truth["response_id"]):
            yield "head", last.response
    if truth["usage"]:
        usage = last.response.usage if isinstance(last, Completed) else last.usage
        yield from usage_problems(usage, truth["usage"])


def _replay_problems(
    name: str, message: AssistantMessage, truth: dict[str, Any], profile: ResponsesProfile
) -> Iterator[object]:
    signatures = [block.signature for block in message.content if isinstance(block, ThinkingBlock) and block.signature]
    if signatures != truth["signatures"]:
        yield "signatures", signatures
    expected = truth["replay_items"]
    # The truth is that of a provider that keeps its items.
    kept = replayed(message, profile=profile, model="gpt-5", store=True)
    if name in UNFINISHED_BUT_REPEATED:
        assert [item for item in kept if not item.get("tools")] == [
            item for item in expected if item["type"] == "message"
        ]
        assert {item["id"] for item in kept} == {item["id"] for item in expected}
    elif kept != expected:
        yield "replay", kept
    # Without its memory, only what can be read without it goes back, and what came after it loses its id.
    stateless = replayed(message, profile=profile, model="gpt-5")
    if name not in UNFINISHED_BUT_REPEATED and stateless != _without_memory(expected, profile):
        yield "stateless replay", stateless


def _without_memory(items: list[dict[str, Any]], profile: ResponsesProfile) -> list[dict[str, Any]]:
    thoughts = [item for item in items if item["type"] == "reasoning"]
    readable = [
        bool(item.get("encrypted_content") or (profile.reasoning_text and item.get("content"))) for item in thoughts
    ]
    assert len(set(readable)) <= 1, "a recording with reasoning of both kinds needs a closer look"
    if all(readable):
        return items
    return [
        {field: value for field, value in item.items() if field not in ("id", "status")}
        for item in items
        if item["type"] in ("message", "function_call", "custom_tool_call")
    ]
