"""Answers recorded from real servers, read from the shared fixtures: the blocks that must go back, P01, P04, P05, P17, P19, U02."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtree.messages.model import Completed, Failed, ModelEvent, ModelRequest
from runtree.messages.transcript import ToolMessage, ToolResult, UserMessage
from runtree.providers.anthropic.profile import ANTHROPIC
from runtree.providers.anthropic.request import build_call
from runtree.providers.failures import from_answer
from tests.kit.recordings import CATEGORIES, recordings, usage_problems
from tests.kit.wires.check import check_calls, end_of, merged, message_of

from .test_stream import decode


@pytest.mark.parametrize("kind", ["stream", "nonstream"])
def test_recorded_answers(streams: Path, kind: str) -> None:
    wrong = {
        name: problems
        for name, recording, body in recordings(streams / kind / "anthropic")
        if (problems := list(problems_of(recording["truth"], decode([body]))))
    }
    assert not wrong


@pytest.mark.parametrize("kind", ["stream", "nonstream"])
def test_p01_recorded_answers_in_any_cut(streams: Path, kind: str) -> None:
    dice = random.Random(7)
    for name, _, body in recordings(streams / kind / "anthropic"):
        events = decode([body])
        whole = (merged(events), events[-1])
        for size in [1, 7, 100] if len(body) < 20_000 else [1]:
            events = decode(body[at : at + size] for at in range(0, len(body), size))
            assert (merged(events), events[-1]) == whole, (name, size)
        for at in dice.sample(range(len(body)), min(20, len(body))):
            events = decode([body[:at], body[at:]])
            assert (merged(events), events[-1]) == whole, (name, at)


def test_p05_recorded_streams_that_end_anywhere(streams: Path) -> None:
    dice = random.Random(7)
    for name, _, body in recordings(streams / "stream" / "anthropic"):
        for at in dice.sample(range(len(body) - 10), 20):
            last = end_of(decode([body[:at]]))
            # The end of the last event is all that may be missing.
            assert isinstance(last, Failed) or b"message_stop" in body[max(at - 40, 0) : at], (name, at)


def test_p19_recorded_errors(streams: Path) -> None:
    seen = 0
    for name, recording, body in recordings(streams / "error" / "any"):
        if recording["provider"] != "anthropic":
            continue
        truth, seen = recording["truth"], seen + 1
        failure = from_answer(recording["status"], recording.get("headers") or {}, body)
        category = CATEGORIES.get(truth["category"], truth["category"])
        assert (failure.code, failure.retryable) == (category, truth["retryable"]), name
    assert seen


def problems_of(truth: dict[str, Any], events: list[ModelEvent]) -> Iterator[object]:
    last, message = end_of(events), message_of(events)
    if isinstance(last, Completed):
        check_calls(events)
    if (message.text if message else "") != (truth["text"] or ""):
        yield "text", message
    if (message.reasoning if message else "") != (truth["reasoning"] or ""):
        yield "reasoning", message
    calls = message.tool_calls if message else ()
    told = [(call.call_id, call.tool_name, call.arguments) for call in calls]
    if told != [(call["id"], call["name"], call["arguments"]) for call in truth["tool_calls"]]:
        yield "calls", told
    if isinstance(last, Failed) != bool(truth["error"] or truth.get("expect")):
        yield "end", last
    if isinstance(last, Failed):
        yield from _failure_problems(last, truth)
    else:
        yield from _answer_problems(last, truth)


def _failure_problems(last: Failed, truth: dict[str, Any]) -> Iterator[object]:
    if last.error.retryable is False or (truth["error"] or {}).get("type") != last.error.provider_code:
        yield "failure", last.error
    yield from usage_problems(last.usage, truth["usage"])


def _answer_problems(last: Completed, truth: dict[str, Any]) -> Iterator[object]:
    response = last.response
    if (response.finish_reason, response.finish_reason_raw) != (truth["finish_reason"], truth["finish_reason_raw"]):
        yield "finish", response.finish_reason, response.finish_reason_raw
    if (response.response_id, response.model) != (truth["response_id"], truth["model"]):
        yield "id", response.response_id, response.model
    yield from usage_problems(response.usage, truth["usage"])
    results = tuple(
        ToolResult(call_id=call.call_id, tool_name=call.tool_name, outcome="ok") for call in response.message.tool_calls
    )
    follow = ToolMessage(results=results) if results else UserMessage.of("and?")
    request = ModelRequest(messages=(UserMessage.of("x"), response.message, follow))
    messages = build_call(request, "m-1", ANTHROPIC).body["messages"]
    sent = messages[1]["content"] if len(messages) == 3 else []
    if sent != [_said(block) for block in truth["blocks"]]:
        yield "blocks", sent, truth["blocks"]


def _said(block: dict[str, Any]) -> dict[str, Any]:
    """A block as it goes back: a text says nothing of citations where it has none."""
    return {name: value for name, value in block.items() if block["type"] != "text" or value not in (None, [])}
