"""Changes of a responses answer that mean the same."""

import itertools
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from .frames import Change, Frame, Frames, each, reordered, with_done

Event = dict[str, Any]

_DELTAS = (
    "response.output_text.delta",
    "response.refusal.delta",
    "response.reasoning_summary_text.delta",
    "response.reasoning_text.delta",
    "response.function_call_arguments.delta",
    "response.custom_tool_call_input.delta",
)
_ENDS = ("response.completed", "response.incomplete")


def _in_place(change: Callable[[Event], object]) -> Change:
    def changed(event: Event) -> Event:
        change(event)
        return event

    return each(changed)


def _without(*endings: str) -> Change:
    """The stream without the events of these types, or of types that begin so where the word ends in a dot."""
    return each(
        lambda event: (
            None
            if any(event.get("type") == word or str(event.get("type")).startswith(word + ".") for word in endings)
            else event
        )
    )


def _is_whole(frames: Frames) -> bool:
    """Whether each item that was announced is told whole, before an end that is none of an error."""
    said = [frame.said for frame in frames if frame.said]
    added = [event for event in said if event.get("type") == "response.output_item.added"]
    done = [event for event in said if event.get("type") == "response.output_item.done"]
    return len(added) == len(done) and any(event.get("type") in _ENDS for event in said)


def _if_whole(change: Change) -> Change:
    return lambda frames: change(frames) if _is_whole(frames) else frames


def _rotated(frames: Frames) -> Frames:
    numbers = itertools.count()

    def change(event: Event) -> None:
        if "item_id" in event:
            event["item_id"] = f"rotated_{next(numbers)}"
        if event.get("type") == "response.output_item.added":
            event["item"]["id"] = f"rotated_{next(numbers)}"
        if event.get("type") in _ENDS:
            for item in event["response"].get("output") or []:
                item["id"] = f"rotated_{next(numbers)}"

    return _in_place(change)(frames)


def _output(value: Any) -> Change:
    def change(event: Event) -> None:
        if event.get("type") in _ENDS:
            event["response"]["output"] = value

    return _if_whole(_in_place(change))


def _output_absent(event: Event) -> None:
    if event.get("type") in _ENDS:
        event["response"].pop("output", None)


def _characters(event: Event) -> list[Event]:
    piece = event.get("delta")
    if event.get("type") not in _DELTAS or not isinstance(piece, str) or len(piece) > 300:
        return [event]
    return [{**event, "delta": character} for character in piece]


def _merged(frames: Frames) -> Frames:
    out: Frames = []
    for frame in deepcopy(frames):
        said, before = frame.said or {}, (out[-1].said if out else None) or {}
        same = all(
            said.get(key) == before.get(key) for key in ("type", "output_index", "content_index", "summary_index")
        )
        if said.get("type") in _DELTAS and same and isinstance(said.get("delta"), str):
            before["delta"] += said["delta"]
        else:
            out.append(frame)
    return out


def _between(event: Event) -> list[Event]:
    return [event, {"type": "keepalive", "sequence_number": 3}, {"type": "response.new_thing.delta", "delta": "no"}]


def _odd_fields(event: Event) -> None:
    event.update({"x_new": {"error": None, "a": [1]}, "obfuscation": "abcd"})
    if isinstance(event.get("response"), dict):
        event["response"]["x_new"] = {"status": "failed"}


def _nulls(event: Event) -> None:
    for name in ("sequence_number", "logprobs", "error", "delta", "response_id"):
        event.setdefault(name, None)
    if isinstance(event.get("response"), dict):
        for name in ("error", "incomplete_details", "usage", "output", "metadata", "instructions"):
            event["response"].setdefault(name, None)


def _no_nulls(event: Event) -> Event:
    out = {name: value for name, value in event.items() if value is not None}
    if isinstance(out.get("response"), dict):
        out["response"] = {name: value for name, value in out["response"].items() if value is not None}
    return out


def _empty_deltas(event: Event) -> list[Event]:
    if event.get("type") not in _DELTAS:
        return [event]
    return [{**event, "delta": ""}, event, {**event, "delta": ""}]


def _one_index_name(event: Event) -> None:
    event.pop("item_id", None)


def _arguments_named(frames: Frames) -> Frames:
    names: dict[Any, Any] = {}

    def change(event: Event) -> None:
        if event.get("type") == "response.output_item.added":
            names[event.get("output_index")] = event["item"].get("name")
        if event.get("type") == "response.function_call_arguments.done":
            event["name"] = names.get(event.get("output_index"))

    return _in_place(change)(frames)


def _only_deltas(frames: Frames) -> Frames:
    return _without("response.output_item.done")(frames) if _repeats(frames) else frames


def _only_the_end(frames: Frames) -> Frames:
    if not _repeats(frames):
        return frames
    return [frame for frame in frames if "output_index" not in (frame.said or {})]


def _repeats(frames: Frames) -> bool:
    """Whether the end repeats the items as they were told, so that nothing is lost without these."""
    said = [frame.said for frame in frames if frame.said]
    done = [event["item"] for event in said if event.get("type") == "response.output_item.done"]
    ends = [event["response"].get("output") for event in said if event.get("type") in _ENDS]
    return ends == [done] and bool(done)


CHANGES: dict[str, Change] = {
    "key order": each(reordered),
    "unknown fields": _in_place(_odd_fields),
    "nulls for absent": _in_place(_nulls),
    "absent for nulls": each(_no_nulls),
    "no sequence": _in_place(lambda event: event.pop("sequence_number", None)),
    "no item ids": _in_place(_one_index_name),
    "item ids change": _if_whole(_rotated),
    "empty output at the end": _output([]),
    "output null at the end": _output(None),
    "no output at the end": _if_whole(_in_place(_output_absent)),
    "keepalives": each(_between),
    "empty deltas": each(_empty_deltas),
    "characters": each(_characters),
    "put together": _merged,
    "no parts": _without("response.content_part", "response.reasoning_summary_part", "response.reasoning_part"),
    "no done texts": _without(
        "response.output_text.done",
        "response.refusal.done",
        "response.reasoning_summary_text.done",
        "response.reasoning_text.done",
        "response.function_call_arguments.done",
        "response.custom_tool_call_input.done",
    ),
    "no head": _without("response.in_progress", "response.queued"),
    "no beginning": _without("response.created", "response.in_progress"),
    "only whole items": _if_whole(_without("response.output_item.added", *_DELTAS)),
    "no deltas": _if_whole(_without(*_DELTAS)),
    "no announcements": _if_whole(_without("response.output_item.added")),
    "only deltas": _only_deltas,
    "only the end": _only_the_end,
    "names with whole arguments": _arguments_named,
    "end mark": with_done,
    "end mark twice": lambda frames: [*with_done(frames), Frame("[DONE]")],
}
"""Changes by name."""
