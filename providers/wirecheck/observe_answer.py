"""What one answer shows: its framing, its usage and where its reasoning stands."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import median_low
from typing import Any

from ..chat.usage import read_cost, read_usage
from ..shapes import as_object, as_objects, is_array
from .answer import Answer, Chunk
from .recording import Recording
from .seen import ReasoningSeen, StreamSeen, UsagePlace, UsageSeen

_KNOWN_DELTAS = frozenset({"content", "role", "tool_calls", "refusal", "function_call", "channel"})
# Names come from the server and end in code to paste: only those that are nothing but names.
_REASONING_NAME = re.compile(r"(?=.*(reason|think|thought))[a-z0-9_.-]{1,64}", re.IGNORECASE)
_PROOF_NAME = re.compile(r"opaque|signature|encrypted", re.IGNORECASE)
_TAG = re.compile(r"<(/?)(think|thought|thinking|reasoning)>")
_REASONING_PARTS = ("thinking", "reasoning")
_MOST_COMMENTS = 5


def see_stream(recording: Recording, answer: Answer) -> StreamSeen:
    """Return how an answer arrived."""
    sizes = [chunk.size for chunk in answer.chunks]
    moments = [seconds for seconds, _ in recording.reads]
    finishes = [chunk.choice.get("finish_reason") for chunk in answer.chunks]
    return StreamSeen(
        content_type=recording.content_type,
        framing=answer.framing,
        events=len(sizes),
        median_event_bytes=median_low(sizes) if sizes else 0,
        largest_event_bytes=max(sizes, default=0),
        comments=dict(Counter(answer.comments).most_common(_MOST_COMMENTS)),
        done=answer.done,
        finish=next((str(finish) for finish in finishes if finish), None),
        unreadable=answer.unreadable,
        crlf=b"\r\n" in recording.body[:4096],
        first_byte=moments[0] if moments else None,
        longest_gap=max((later - earlier for earlier, later in pairwise(moments)), default=0.0),
        seconds=recording.seconds,
        broken=recording.fault,
    )


def see_usage(answer: Answer) -> UsageSeen:
    """Return how an answer told its usage."""
    reports = [report for chunk in answer.chunks for report in _reports(chunk)]
    if not reports:
        return UsageSeen()
    merged: dict[str, Any] = {}
    for _, raw in reports:
        merged.update({name: value for name, value in raw.items() if value is not None})
    usage = read_usage(merged)
    completion = merged.get("completion_tokens")
    return UsageSeen(
        places=_places(answer, [place for place, _ in reports]),
        fields=tuple(_filled(merged)),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached=usage.cache_read_tokens is not None,
        reasoning=usage.reasoning_tokens is not None,
        reasoning_beside=usage.output_tokens is not None
        and isinstance(completion, int)
        and completion < usage.output_tokens,
        cost=read_cost(merged) is not None,
    )


def _reports(chunk: Chunk) -> list[tuple[UsagePlace, dict[str, Any]]]:
    own: UsagePlace = "own event"
    if chunk.choice:
        own = "event with the finish" if chunk.choice.get("finish_reason") else "some events"
    found: list[tuple[UsagePlace, Any]] = [
        (own, chunk.value.get("usage")),
        ("the choice", chunk.choice.get("usage")),
        ("x_groq", as_object(chunk.value.get("x_groq")).get("usage")),
    ]
    return [(place, as_object(raw)) for place, raw in found if as_object(raw)]


def _places(answer: Answer, places: list[UsagePlace]) -> tuple[UsagePlace, ...]:
    if answer.framing == "json":
        return ("the body",)
    if len(answer.chunks) > 2 and len(places) >= len(answer.chunks) - 1:
        return ("every event",)
    return tuple(dict.fromkeys(places))


def _filled(usage: dict[str, Any]) -> list[str]:
    names: list[str] = []
    for name, value in usage.items():
        members = as_object(value)
        names += [f"{name}.{member}" for member, count in members.items() if count is not None] or [name]
    return names


def see_reasoning(answer: Answer) -> ReasoningSeen:
    """Return where an answer has its reasoning."""
    fields: dict[str, None] = {}
    proofs: dict[str, None] = {}
    part: str | None = None
    signed = False
    for chunk in answer.chunks:
        delta = chunk.delta
        for name, value in delta.items():
            if value and name not in _KNOWN_DELTAS and _REASONING_NAME.fullmatch(name):
                (proofs if _PROOF_NAME.search(name) else fields)[name] = None
                signed = signed or _is_signed(value)
        thoughts = [item for item in as_objects(delta.get("content")) if item.get("type") in _REASONING_PARTS]
        part = part or next((str(item["type"]) for item in thoughts), None)
        signed = signed or _is_signed(thoughts)
    tag = _TAG.search(answer.text)
    return ReasoningSeen(
        fields=tuple(fields),
        proofs=tuple(proofs),
        part=part,
        tags=tag[2] if tag else None,
        opened=tag is not None and bool(tag[1]),
        signed=signed or bool(proofs),
    )


def merge_reasoning(seen: Sequence[ReasoningSeen]) -> ReasoningSeen:
    """Return where reasoning stands in any of several answers: not every one of them has some."""
    tagged = next((each for each in seen if each.tags), ReasoningSeen())
    return ReasoningSeen(
        fields=tuple(dict.fromkeys(name for each in seen for name in each.fields)),
        proofs=tuple(dict.fromkeys(name for each in seen for name in each.proofs)),
        part=next((each.part for each in seen if each.part), None),
        tags=tagged.tags,
        opened=tagged.opened,
        signed=any(each.signed for each in seen),
    )


def _is_signed(value: Any) -> bool:
    if not is_array(value):
        return False
    return any(item.get("signature") or item.get("data") for item in as_objects(value))
