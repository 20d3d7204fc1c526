"""Changes of an answer of the messages protocol that mean the same."""

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from .frames import Change, Frame, Frames, each, reordered, with_done

Event = dict[str, Any]

_TEXTS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_PING = Frame({"type": "ping"}, "ping")


def _in_place(change: Callable[[Event], object]) -> Change:
    def changed(event: Event) -> Event:
        change(event)
        return event

    return each(changed)


def _delta(event: Event) -> Event:
    delta = event.get("delta")
    return delta if event.get("type") == "content_block_delta" and isinstance(delta, dict) else {}


def _pings(frames: Frames) -> Frames:
    return [each for frame in frames for each in (_PING, frame, _PING)]


def _no_pings(event: Event) -> Event | None:
    return None if event.get("type") == "ping" else event


def _odd_events(event: Event) -> list[Event]:
    return [event, {"type": "new_thing", "index": 0, "delta": {"text": "no"}}, {"type": "ping", "x_new": 1}]


def _odd_deltas(event: Event) -> list[Event]:
    # A block that is only kept takes what it is told.
    if not _delta(event) or _delta(event).get("type") not in ("text_delta", "thinking_delta"):
        return [event]
    return [event, {**event, "delta": {"type": "new_delta", "text": "no", "thinking": "no", "new": 1}}]


def _odd_fields(event: Event) -> None:
    event["x_new"] = {"a": [1]}
    for name in ("message", "usage"):
        if isinstance(event.get(name), dict):
            event[name]["x_new"] = {"a": [1]}
    if isinstance(event.get("delta"), dict) and _delta(event).get("type") in (None, *_TEXTS, "signature_delta"):
        event["delta"]["x_new"] = None if _delta(event).get("type") == "input_json_delta" else [1]


def _nulls(event: Event) -> None:
    for place in (event.get("message"), event):
        if isinstance(place, dict):
            for name in ("usage", "error", "stop_reason", "stop_sequence", "container", "context_management"):
                place.setdefault(name, None)
    if event.get("type") == "message_delta":
        for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "cache_creation"):
            event.setdefault("usage", {})
            if event["usage"] is not None:
                event["usage"].setdefault(name, None)
    block = event.get("content_block")
    if isinstance(block, dict) and block.get("type") == "text":
        block.setdefault("citations", None)


def _no_nulls(event: Event) -> Event:
    out = {name: value for name, value in event.items() if value is not None}
    for place in ("message", "delta", "usage"):
        if isinstance(out.get(place), dict):
            out[place] = {name: value for name, value in out[place].items() if value is not None}
    return out


def _empty_deltas(event: Event) -> list[Event]:
    field = _TEXTS.get(_delta(event).get("type", ""))
    if field is None:
        return [event]
    empty = {**event, "delta": {**event["delta"], field: ""}}
    return [empty, event, deepcopy(empty)]


def _characters(event: Event) -> list[Event]:
    field = _TEXTS.get(_delta(event).get("type", ""))
    if field is None or len(event["delta"][field]) > 300:
        return [event]
    return [{**event, "delta": {**event["delta"], field: character}} for character in event["delta"][field]]


def _merged(frames: Frames) -> Frames:
    out: Frames = []
    for frame in deepcopy(frames):
        said, before = frame.said or {}, (out[-1].said if out else None) or {}
        kind = _delta(said).get("type")
        if kind in _TEXTS and kind == _delta(before).get("type") and said.get("index") == before.get("index"):
            before["delta"][_TEXTS[kind]] += said["delta"][_TEXTS[kind]]
        else:
            out.append(frame)
    return out


def _whole_at_start(frames: Frames) -> Frames:
    """Blocks that come with their beginning, as some gateways send them: calls with their input, texts with their words."""
    pieces: dict[Any, dict[str, str]] = {}
    for frame in frames:
        delta, index = _delta(frame.said or {}), (frame.said or {}).get("index")
        field = _TEXTS.get(delta.get("type", ""))
        if field:
            of = pieces.setdefault(index, {})
            of[field] = of.get(field, "") + delta[field]

    def one(event: Event) -> Event | None:
        if _delta(event).get("type") in _TEXTS:
            return None
        block = event.get("content_block")
        if isinstance(block, dict):
            for field, said in pieces.get(event.get("index"), {}).items():
                try:
                    if field == "partial_json":
                        block["input"] = json.loads(said or "{}")
                    else:
                        block[field] = said
                except ValueError:
                    return event
        return event

    ends = any((frame.said or {}).get("type") == "message_stop" for frame in frames)
    try:
        [json.loads(of.get("partial_json") or "{}") for of in pieces.values()]
    except ValueError:
        return frames
    return each(one)(frames) if ends else frames


def _only_late_usage(frames: Frames) -> Frames:
    """The account stands at the end alone."""
    start: dict[str, Any] = {}

    def one(event: Event) -> Event:
        if event.get("type") == "message_start" and event["message"].get("stop_reason") is None:
            start.update(event["message"].get("usage") or {})
            event["message"]["usage"] = None
        if event.get("type") == "message_delta":
            said = {name: value for name, value in (event.get("usage") or {}).items() if value is not None}
            event["usage"] = {**start, **said}
        return event

    ends = any((frame.said or {}).get("type") == "message_delta" for frame in frames)
    return each(one)(frames) if ends else frames


def _usage_in_parts(event: Event) -> list[Event]:
    if event.get("type") != "message_delta" or not event.get("usage"):
        return [event]
    first = {"type": "message_delta", "delta": {"stop_reason": None}, "usage": {"output_tokens": 1}}
    last = {"type": "message_delta", "delta": {}, "usage": event["usage"]}
    return [first, {**event, "usage": {"output_tokens": 1}}, last]


def _started_twice(event: Event) -> list[Event]:
    return [event, deepcopy(event)] if event.get("type") == "message_start" else [event]


def _signature_at_both_ends(frames: Frames) -> Frames:
    signatures = {
        frame.said["index"]: _delta(frame.said)["signature"]
        for frame in frames
        if frame.said and _delta(frame.said).get("type") == "signature_delta"
    }

    def change(event: Event) -> None:
        if isinstance(event.get("content_block"), dict) and event.get("index") in signatures:
            event["content_block"]["signature"] = signatures[event["index"]]

    return _in_place(change)(frames)


def _signature_first(frames: Frames) -> Frames:
    """The signature is told before the thinking it is of."""
    out: Frames = []
    for frame in frames:
        delta = _delta(frame.said or {})
        if delta.get("type") == "signature_delta":
            index = (frame.said or {})["index"]
            at = next(n for n, old in enumerate(out) if (old.said or {}).get("index") == index)
            out.insert(at + 1, frame)
        else:
            out.append(frame)
    return out


def _numbers_far_apart(event: Event) -> None:
    if isinstance(event.get("index"), int):
        event["index"] = event["index"] * 7 + 3


def _no_type(frames: Frames) -> Frames:
    """The type stands on the event's own line only."""
    out: Frames = []
    for frame in deepcopy(frames):
        kind = frame.said.pop("type", None) if frame.said else None
        out.append(Frame(frame.data, kind or frame.event))
    return out


CHANGES: dict[str, Change] = {
    "key order": each(reordered),
    "pings": _pings,
    "no pings": each(_no_pings),
    "unknown events": each(_odd_events),
    "unknown deltas": each(_odd_deltas),
    "unknown fields": _in_place(_odd_fields),
    "nulls for absent": _in_place(_nulls),
    "absent for nulls": each(_no_nulls),
    "empty deltas": each(_empty_deltas),
    "characters": each(_characters),
    "put together": _merged,
    "blocks whole at their start": _whole_at_start,
    "usage at the end": _only_late_usage,
    "usage in parts": each(_usage_in_parts),
    "started twice": each(_started_twice),
    "signature at both ends": _signature_at_both_ends,
    "signature first": _signature_first,
    "other numbers": _in_place(_numbers_far_apart),
    "types on event lines": _no_type,
    "end mark": with_done,
}
"""Changes by name."""
