"""Answers recorded from real servers, read from the shared fixtures: cases P01 to P20, K02, K06 and K07 as they happened.

In one of them the figures are those of a gateway that contradicts itself (6d38652cb4e9: 5 tokens of completion with 49 of reasoning, where
the model's own figures beside them are 5 and 49 of 54); what was reported counts.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtree.messages.content import ThinkingBlock
from runtree.messages.model import Completed, Failed, ModelEvent
from runtree.providers.chat import dialects as known
from runtree.providers.chat.profile import ChatProfile
from runtree.providers.failures import from_answer
from tests.kit.recordings import CATEGORIES, recordings, usage_problems

from .chat.conversation import decode, echoed, message_of, turn
from .chat.payloads import payloads
from .test_chat_stream import check_pieces, merge

_PROFILES = {profile.provider: profile for profile in known.DIALECTS} | {
    "alibaba": known.QWEN,
    "gpustack-vllm": known.VLLM,
    "huggingface-router": known.HUGGING_FACE,
    "llamacpp": known.LLAMA_CPP,
    "ollama-cloud": known.OLLAMA,
    "vercel-gateway": known.VERCEL,
    "vllm-crusoe": known.VLLM,
}


def read(recording: dict[str, Any], body: bytes, profile: ChatProfile) -> list[ModelEvent]:
    return decode([body], profile, recording["model"] or "m-1")


@pytest.mark.parametrize("kind", ["stream", "nonstream"])
def test_recorded_answers(streams: Path, kind: str) -> None:
    """Each by the profile of its server, and by that for servers nobody knows."""
    wrong = {
        (name, profile.provider): problems
        for name, recording, body in recordings(streams / kind / "openai_chat")
        for profile in (profile_of(recording), known.GENERIC)
        if (problems := list(problems_of(recording, read(recording, body, profile))))
    }
    assert not wrong


@pytest.mark.parametrize("kind", ["stream", "nonstream"])
def test_k02_k06_what_recorded_answers_want_back(streams: Path, kind: str) -> None:
    wrong = {
        (name, profile.provider): problems
        for name, recording, body in recordings(streams / kind / "openai_chat")
        for profile in (profile_of(recording), known.OPENROUTER, known.DEEPSEEK, known.GENERIC)
        if (problems := list(_replay_problems(recording, body, profile)))
    }
    assert not wrong


@pytest.mark.parametrize("kind", ["stream", "nonstream"])
def test_p01_recorded_answers_in_any_cut(streams: Path, kind: str) -> None:
    """All that a dialect is fed is the same for any cut; with reads of seven bytes so is all that it makes of it."""
    dice = random.Random(7)
    for name, recording, body in recordings(streams / kind / "openai_chat"):
        whole = payloads([body])
        for size in (1, 2, 100):
            assert payloads(_in_pieces(body, size)) == whole, (name, size)
        for at in dice.sample(range(len(body)), min(20, len(body))):
            assert payloads([body[:at], body[at:]]) == whole, (name, at)
        profile = profile_of(recording)
        assert merge(decode(_in_pieces(body, 7), profile)) == merge(decode([body], profile)), name


def _in_pieces(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


def test_p19_p20_recorded_errors(streams: Path) -> None:
    wrong: dict[str, object] = {}
    for name, recording, body in recordings(streams / "error" / "any"):
        truth = recording["truth"]
        failure = from_answer(recording["status"], recording.get("headers") or {}, body)
        expected = (CATEGORIES.get(truth["category"], truth["category"]), truth["retryable"])
        if (failure.code, failure.retryable) != expected:
            wrong[name] = (failure, expected)
    assert not wrong


def profile_of(recording: dict[str, Any]) -> ChatProfile:
    return _PROFILES.get(recording["provider"], known.GENERIC)


def problems_of(recording: dict[str, Any], events: list[ModelEvent]) -> Iterator[object]:
    truth, last, message = recording["truth"], events[-1], message_of(events)
    check_pieces(events, message)
    if (message.text if message else "") != (truth["text"] or "") + (truth.get("refusal") or ""):
        yield "text", message
    if (message.reasoning if message else "") != (truth["reasoning"] or ""):
        yield "reasoning", message
    signatures = [block.signature for block in message.content if isinstance(block, ThinkingBlock)] if message else []
    if [signature for signature in signatures if signature] != truth["signatures"]:
        yield "signatures", message
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
        yield from usage_problems(usage, truth["usage"])


def _replay_problems(recording: dict[str, Any], body: bytes, profile: ChatProfile) -> Iterator[object]:
    """What is wrong with the assistant's message of a request that follows the answer."""
    truth, message = recording["truth"], message_of(read(recording, body, profile))
    if message is None:
        return
    (sent,) = echoed(profile, *turn(message), model=recording["model"] or "m-1") or [{}]
    details = _details(recording, body) if profile.replay_shape == "details" else None
    if sent.get("reasoning_details") != details:
        yield "details", sent
    field = "" if details else profile.plain_replay or profile.reasoning_replay or ""
    wants = profile.replay_turns == "always" or truth["tool_calls"]
    reasoning = {name: sent[name] for name in ("reasoning", "reasoning_content") if sent.get(name)}
    expected = {field: truth["reasoning"]} if field and field != "content" and wants and truth["reasoning"] else {}
    if reasoning != expected:
        yield "reasoning", reasoning
    for call, said in zip(sent.get("tool_calls", ()), truth["tool_calls"], strict=False):
        # The recorder's placeholders for ids are none that every server accepts.
        if said["id"] and profile.call_ids.fits(said["id"]) and call["id"] != said["id"]:
            yield "id", call
        if said["arguments"] is not None and json.loads(call["function"]["arguments"]) != said["arguments"]:
            yield "arguments", call


def _details(recording: dict[str, Any], body: bytes) -> Any:
    """The reasoning details that have to go back: the recorder's for a stream, the message's own where there was none."""
    details = recording["truth"].get("reasoning_details_merged")
    if body.lstrip()[:1] == b"{":
        details = json.loads(body)["choices"][0]["message"].get("reasoning_details")
    return details or None
