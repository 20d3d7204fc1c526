"""Turns with reasoning, text and calls in any order: how a server says them, and how each dialect has to be sent them back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from hypothesis import strategies as st

from runtree.messages.transcript import AssistantMessage
from runtree.providers.chat import dialects as known
from runtree.providers.chat.profile import ChatProfile

from .conversation import answer_of

Deltas = list[dict[str, Any]]


@dataclass(frozen=True)
class Segment:
    """One thing that is said, in pieces. Reasoning may have a signature, a call extras, and `hide` is encrypted reasoning."""

    kind: Literal["think", "hide", "say", "call"]
    pieces: tuple[str, ...]
    proof: Any = None

    @property
    def whole(self) -> str:
        return "".join(self.pieces)


_PIECES = st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=3).map(tuple)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
_EXTRAS = st.none() | st.dictionaries(st.text(min_size=1, max_size=4), _JSON, min_size=1, max_size=2)
_SIGNATURE = st.none() | st.text(min_size=1, max_size=8)
_SEGMENTS = st.one_of(
    st.builds(Segment, st.just("think"), _PIECES, _SIGNATURE),
    st.builds(Segment, st.just("hide"), _PIECES),
    st.builds(Segment, st.just("say"), _PIECES),
    st.builds(Segment, st.just("call"), _PIECES, _EXTRAS),
)
TURNS = st.lists(_SEGMENTS, max_size=5).map(lambda segments: [*segments, Segment("call", ("last",))])
"""What one turn says; it ends in a call, so that the conversation goes on with a result."""


def calls_of(turn: Sequence[Segment], name: str) -> list[dict[str, Any]]:
    """The calls as they stand in a history; the text of such a segment is the argument."""
    calls: list[dict[str, Any]] = []
    for segment in turn:
        if segment.kind == "call":
            call_id = f"{name}{len(calls):08}"[:9]
            call: dict[str, Any] = {"id": call_id, "type": "function", "function": {"name": "get", "arguments": "{}"}}
            calls.append({**call, **({"extra_content": segment.proof} if segment.proof else {})})
    return calls


def say(profile: ChatProfile, turn: Sequence[Segment], name: str, model: str, speak: "Speak") -> AssistantMessage:
    """The message that a server makes of a turn by saying it."""
    calls = iter(calls_of(turn, name))
    deltas: Deltas = []
    for at, segment in enumerate(turn):
        if segment.kind == "say":
            deltas += [{"content": piece} for piece in segment.pieces]
        elif segment.kind == "call":
            deltas.append({"tool_calls": [{"index": sum(s.kind == "call" for s in turn[:at]), **next(calls)}]})
        else:
            deltas += speak(segment, at)
    return answer_of(profile, *deltas, finish="tool_calls", model=model)


Speak = Callable[[Segment, int], Deltas]
"""How a server says a piece of reasoning."""
Expect = Callable[[Sequence[Segment]], dict[str, Any]]
"""What has to go back besides text and calls."""


@dataclass(frozen=True)
class Replaying:
    """A dialect that wants reasoning back."""

    profile: ChatProfile
    speak: Speak
    expect: Expect
    model: str = "m-1"

    def __str__(self) -> str:
        return self.profile.provider


def _text_field(name: str, *, always: bool = False) -> tuple[Speak, Expect]:
    def speak(segment: Segment, at: int) -> Deltas:
        return [{name: piece} for piece in segment.pieces] if segment.kind == "think" else []

    def expect(turn: Sequence[Segment]) -> dict[str, Any]:
        text = "".join(segment.whole for segment in turn if segment.kind == "think")
        return {name: text} if text or always else {}

    return speak, expect


def _detail(segment: Segment, at: int, **said: str) -> dict[str, Any]:
    kind = "reasoning.text" if segment.kind == "think" else "reasoning.encrypted"
    return {"type": kind, "index": at, "format": "f", **said}


def _speak_details(segment: Segment, at: int) -> Deltas:
    if segment.kind == "hide":
        return [{"reasoning_details": [_detail(segment, at, data=piece)]} for piece in segment.pieces]
    said = [{"reasoning": text, "reasoning_details": [_detail(segment, at, text=text)]} for text in segment.pieces]
    return [*said, *([{"reasoning_details": [_detail(segment, at, signature=segment.proof)]}] if segment.proof else [])]


def _expect_details(turn: Sequence[Segment]) -> dict[str, Any]:
    merged = [
        _detail(segment, at, **({"text": segment.whole} if segment.kind == "think" else {"data": segment.whole}))
        | ({"signature": segment.proof} if segment.proof else {})
        for at, segment in enumerate(turn)
        if segment.kind in ("think", "hide")
    ]
    return {"reasoning_details": merged} if merged else {}


def _speak_thinking(segment: Segment, at: int) -> Deltas:
    if segment.kind == "hide":
        return []
    return [
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]} for text in segment.pieces
    ]


def _speak_summary(segment: Segment, at: int) -> Deltas:
    if segment.kind == "hide":
        return [{"content": [_summary("summary_encrypted_text", data=segment.whole)]}]
    signed = {"signature": segment.proof} if segment.proof else {}
    said = [_summary("summary_text", text=text) for text in segment.pieces]
    return [{"content": [part]} for part in [*said, *([_summary("summary_text", text="", **signed)] if signed else [])]]


def _summary(kind: str, **said: str) -> dict[str, Any]:
    return {"type": "reasoning", "summary": [{"type": kind, **said}]}


def _expect_parts(make: Callable[[str], dict[str, Any]], hides: bool) -> Expect:
    """Parts in their order; pieces of one kind that stand side by side are one part unless a signature ends it."""

    def expect(turn: Sequence[Segment]) -> dict[str, Any]:
        runs: list[list[Any]] = []
        for segment in turn:
            if segment.kind == "hide" and not hides:
                continue
            signed = hides and segment.kind == "think" and segment.proof
            if runs and runs[-1][0] == segment.kind and segment.kind in ("think", "say") and not runs[-1][2]:
                runs[-1][1] += segment.whole
                runs[-1][2] = signed
            else:
                runs.append([segment.kind, segment.whole, signed])
        if not any(kind in ("think", "hide") for kind, _, _ in runs):
            return {}
        parts = [_part(kind, text, signed, make) for kind, text, signed in runs if kind != "call"]
        return {"content": parts}

    return expect


def _part(kind: str, text: str, signed: str | None, make: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    if kind == "say":
        return {"type": "text", "text": text}
    if kind == "hide":
        return _summary("summary_encrypted_text", data=text)
    return _summary("summary_text", text=text, signature=signed) if signed else make(text)


def text_between(turn: Sequence[Segment]) -> str:
    """All visible text."""
    return "".join(
        segment.whole for kind, group in groupby(turn, lambda s: s.kind) if kind == "say" for segment in group
    )


REPLAYING = [
    Replaying(known.DEEPSEEK, *_text_field("reasoning_content", always=True)),
    Replaying(known.MOONSHOT, *_text_field("reasoning_content", always=True), model="kimi-k2.5"),
    Replaying(known.ZAI, *_text_field("reasoning_content")),
    Replaying(known.XAI, *_text_field("reasoning_content")),
    Replaying(known.SGLANG, *_text_field("reasoning_content")),
    Replaying(known.LLAMA_CPP, *_text_field("reasoning_content")),
    Replaying(known.CEREBRAS, *_text_field("reasoning")),
    Replaying(known.VLLM, *_text_field("reasoning")),
    Replaying(known.OLLAMA, *_text_field("reasoning")),
    Replaying(known.OPENROUTER, _speak_details, _expect_details),
    Replaying(known.VERCEL, _speak_details, _expect_details),
    Replaying(
        known.MISTRAL,
        _speak_thinking,
        _expect_parts(lambda text: {"type": "thinking", "thinking": [{"type": "text", "text": text}]}, hides=False),
    ),
    Replaying(
        known.DATABRICKS, _speak_summary, _expect_parts(lambda text: _summary("summary_text", text=text), hides=True)
    ),
    Replaying(known.GEMINI, lambda segment, at: [], lambda turn: {}),
]
