"""Answers recorded from real servers, read from the shared fixtures: cases P01 to P20 as they happened."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtree.messages.model import Completed, Failed, ModelEvent
from runtree.messages.usage import Usage
from runtree.providers.failures import from_answer

from .test_chat_stream import check_pieces, decode, merge, message_of

_CATEGORIES = {
    "auth": "authentication",
    "permission": "authentication",
    "not_found": "model_not_found",
    "context_length": "context_overflow",
    "server_error": "provider",
}


@pytest.fixture(scope="module")
def streams(shared_dir: Path) -> Path:
    return shared_dir / "streams"


def _recordings(folder: Path) -> Iterator[tuple[str, dict[str, Any], bytes]]:
    paths = sorted(folder.glob("*.json"))
    assert paths, f"no recordings in {folder}"
    for path in paths:
        yield path.stem, json.loads(path.read_text()), path.with_suffix(".body").read_bytes()


@pytest.mark.parametrize("kind", ["stream", "nonstream"])
def test_recorded_answers(streams: Path, kind: str) -> None:
    wrong = {
        name: problems
        for name, recording, body in _recordings(streams / kind / "openai_chat")
        if (problems := list(_problems(recording, decode([body]))))
    }
    assert not wrong


@pytest.mark.parametrize("kind", ["stream", "nonstream"])
def test_p01_recorded_answers_in_any_cut(streams: Path, kind: str) -> None:
    dice = random.Random(7)
    for name, _, body in _recordings(streams / kind / "openai_chat"):
        whole = merge(decode([body]))
        sizes = [1, 2, 7, 100]
        for size in sizes[: 1 if len(body) > 50_000 else None]:
            assert merge(decode(body[at : at + size] for at in range(0, len(body), size))) == whole, (name, size)
        for at in dice.sample(range(len(body)), min(20, len(body))):
            assert merge(decode([body[:at], body[at:]])) == whole, (name, at)


def test_p19_p20_recorded_errors(streams: Path) -> None:
    wrong: dict[str, object] = {}
    for name, recording, body in _recordings(streams / "error" / "any"):
        truth = recording["truth"]
        failure = from_answer(recording["status"], recording.get("headers") or {}, body)
        expected = (_CATEGORIES.get(truth["category"], truth["category"]), truth["retryable"])
        if (failure.code, failure.retryable) != expected:
            wrong[name] = (failure, expected)
    assert not wrong


def _problems(recording: dict[str, Any], events: list[ModelEvent]) -> Iterator[object]:
    truth, last, message = recording["truth"], events[-1], message_of(events)
    check_pieces(events, message)
    if (message.text if message else "") != (truth["text"] or "") + (truth.get("refusal") or ""):
        yield "text", message
    if (message.reasoning if message else "") != (truth["reasoning"] or ""):
        yield "reasoning", message
    calls = message.tool_calls if message else ()
    # The old form of a call is not part of the recorded truth.
    if len(calls) != len(truth["tool_calls"]) and truth["finish_reason_raw"] != "function_call":
        yield "calls", calls
    for block, expected in zip(calls, truth["tool_calls"], strict=False):
        if (block.tool_name, block.arguments) != (expected["name"], expected["arguments"]):
            yield "call", block
        if expected["id"] and block.call_id != expected["id"]:
            yield "id", block
    failed = bool(truth["error"] or truth["finish_reason"] == "error" or truth.get("expect"))
    if isinstance(last, Failed) != failed:
        yield "end", last
    if isinstance(last, Completed):
        reason = truth["finish_reason"] or "unknown"
        if last.response.finish_reason != ("refusal" if truth.get("refusal") else reason) and reason != "function_call":
            yield "finish", last.response.finish_reason, reason
    if truth["usage"] and isinstance(last, Completed | Failed):
        usage = last.response.usage if isinstance(last, Completed) else last.usage
        yield from _usage_problems(usage, truth["usage"])


def _usage_problems(usage: Usage, truth: dict[str, int | None]) -> Iterator[object]:
    figures = {
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "cached_read": usage.cache_read_tokens,
        "cache_write": usage.cache_write_tokens,
        "reasoning": usage.reasoning_tokens,
    }
    for name, figure in figures.items():
        # What was not reported is null here and may be zero there.
        if (figure or 0) != (truth.get(name) or 0):
            yield name, figure, truth.get(name)
