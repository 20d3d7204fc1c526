"""Changes of a chat completions answer that mean the same."""

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from .frames import Change, Frame, Frames, each, reordered, with_done, without_done

Chunk = dict[str, Any]


def choices(chunk: Chunk) -> list[dict[str, Any]]:
    return [choice for choice in chunk.get("choices") or [] if isinstance(choice, dict)]


def deltas(chunk: Chunk) -> list[dict[str, Any]]:
    return [choice["delta"] for choice in choices(chunk) if isinstance(choice.get("delta"), dict)]


def fragments(chunk: Chunk) -> list[dict[str, Any]]:
    return [fragment for delta in deltas(chunk) for fragment in delta.get("tool_calls") or []]


def _in_place(change: Callable[[Chunk], object]) -> Change:
    def changed(chunk: Chunk) -> Chunk:
        change(chunk)
        return chunk

    return each(changed)


def _odd_fields(chunk: Chunk) -> None:
    for place in [chunk, *choices(chunk), *deltas(chunk), *fragments(chunk)]:
        place.update({"x_new": {"error": "none", "a": [1]}, "obfuscation": "abc", "p": "abcd"})


def _nulls(chunk: Chunk) -> None:
    for name in ("usage", "error", "system_fingerprint", "service_tier", "model", "id"):
        chunk.setdefault(name, None)
    for choice in choices(chunk):
        for name in ("finish_reason", "logprobs", "error", "usage", "index"):
            choice.setdefault(name, None)
    names = ("role", "content", "reasoning", "reasoning_content", "reasoning_details", "refusal", "tool_calls")
    for delta in deltas(chunk):
        for name in (*names, "function_call", "audio", "annotations", "extra_content"):
            delta.setdefault(name, None)
    for fragment in fragments(chunk):
        for name in ("id", "type", "extra_content", "index"):
            fragment.setdefault(name, None)
        if isinstance(fragment.get("function"), dict):
            for name in ("name", "arguments"):
                fragment["function"].setdefault(name, None)


def _no_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _no_nulls(item) for name, item in value.items() if item is not None}
    return [_no_nulls(item) for item in value] if isinstance(value, list) else value


def _empty_words(chunk: Chunk) -> None:
    for choice in choices(chunk):
        if not choice.get("finish_reason"):
            choice["finish_reason"] = ""
    for delta in deltas(chunk):
        for name in ("content", "reasoning_content", "refusal"):
            delta[name] = delta.get(name) or ""
        if not delta.get("tool_calls"):
            delta["tool_calls"] = []
    for fragment in fragments(chunk):
        fragment["id"] = fragment.get("id") or ""
        function = fragment.setdefault("function", {})
        function["name"] = function.get("name") or ""
        function["arguments"] = function.get("arguments") or ""


def _bare(chunk: Chunk) -> None:
    for name in ("object", "created", "model", "id", "system_fingerprint", "service_tier", "provider"):
        chunk.pop(name, None)
    for choice in choices(chunk):
        if choice.get("index") == 0:
            del choice["index"]
    for fragment in fragments(chunk):
        fragment.pop("type", None)


def _roles(chunk: Chunk) -> None:
    for delta in deltas(chunk):
        delta["role"] = "assistant"


def _no_roles(chunk: Chunk) -> None:
    for delta in deltas(chunk):
        delta.pop("role", None)


def _plain_field(delta: dict[str, Any]) -> str | None:
    """The one field of a delta that says something, if it is text."""
    said = [name for name, value in delta.items() if value and name != "role"]
    return said[0] if len(said) == 1 and isinstance(delta[said[0]], str) else None


def _characters(chunk: Chunk) -> list[Chunk]:
    said = deltas(chunk)
    field = _plain_field(said[0]) if len(said) == 1 and len(choices(chunk)) == 1 else None
    if not field or len(said[0][field]) > 300:
        return [chunk]
    pieces: list[Chunk] = []
    for character in said[0][field]:
        piece = deepcopy(chunk)
        piece.pop("usage", None)
        choices(piece)[0]["finish_reason"] = None
        choices(piece)[0]["delta"][field] = character
        pieces.append(piece)
    said[0][field] = ""
    return [*pieces, chunk]


def _arguments_in_characters(chunk: Chunk) -> list[Chunk]:
    parts = fragments(chunk)
    if len(parts) != 1 or not isinstance(parts[0].get("index"), int):
        return [chunk]
    text = (parts[0].get("function") or {}).get("arguments")
    if not isinstance(text, str) or len(text) > 300:
        return [chunk]
    pieces: list[Chunk] = []
    for character in text:
        function = {"arguments": character}
        delta = {"tool_calls": [{"index": parts[0]["index"], "function": function}]}
        pieces.append({"choices": [{"index": choices(chunk)[0].get("index"), "delta": delta, "finish_reason": None}]})
    finish = choices(chunk)[0].get("finish_reason")
    parts[0]["function"]["arguments"] = ""
    choices(chunk)[0]["finish_reason"] = None
    after = [{"choices": [{"delta": {}, "finish_reason": finish}]}] if finish else []
    return [chunk, *pieces, *after]


def _merged(frames: Frames) -> Frames:
    """Neighbours that go on with the same text put together."""
    out: Frames = []
    for frame in deepcopy(frames):
        before = deltas(out[-1].said) if out and out[-1].said else []
        now = deltas(frame.said) if frame.said else []
        if len(before) == len(now) == 1:
            field = _plain_field(now[0])
            ends = any(choice.get("finish_reason") for choice in choices(out[-1].said or {}))
            if field and field == _plain_field(before[0]) and not ends and not frame.said.get("usage"):  # type: ignore[union-attr]
                finish = choices(frame.said or {})[0].get("finish_reason")
                same = choices(frame.said or {})[0].get("index") == choices(out[-1].said or {})[0].get("index")
                if not finish and same:
                    before[0][field] += now[0][field]
                    continue
        out.append(frame)
    return out


def _calls(change: Callable[[dict[str, Any], bool, dict[str, Any]], None]) -> Change:
    """A change of each fragment, which is told whether it begins a call and what the call's first fragment was."""

    def changed(frames: Frames) -> Frames:
        begun: dict[object, dict[str, Any]] = {}

        def one(chunk: Chunk) -> Chunk:
            if any(choice.get("index") for choice in choices(chunk)):
                return chunk
            for fragment in fragments(chunk):
                key = fragment.get("index", fragment.get("id"))
                first = begun.get(key)
                given = fragment.get("id")
                begins = first is None or bool(given and first.get("id") and given != first["id"])
                if begins:
                    first = begun[key] = deepcopy(fragment)
                assert first is not None
                change(fragment, begins, first)
            return chunk

        return each(one)(frames)

    return changed


def _continued(**fields: Any) -> Change:
    def change(fragment: dict[str, Any], begins: bool, first: dict[str, Any]) -> None:
        if not begins:
            for name, value in fields.items():
                place = fragment.setdefault("function", {}) if name == "name" else fragment
                source = first.get("function") or {} if name == "name" else first
                place[name] = source.get(name) if value is ... else value

    return _calls(change)


def _index(value: Callable[[dict[str, Any]], Any]) -> Change:
    def change(fragment: dict[str, Any], begins: bool, first: dict[str, Any]) -> None:
        if first.get("id"):
            fragment.pop("index", None)
            if (index := value(fragment)) is not None:
                fragment["index"] = index

    return _calls(change)


def _index_and_id(fragment: dict[str, Any], begins: bool, first: dict[str, Any]) -> None:
    if first.get("id"):
        fragment.pop("index", None)
        fragment["id"] = first["id"]


def _objects(fragment: dict[str, Any], begins: bool, first: dict[str, Any]) -> None:
    try:
        said = json.loads((fragment.get("function") or {}).get("arguments") or "")
    except ValueError:
        return
    if isinstance(said, dict):
        fragment["function"]["arguments"] = said


def _renamed(*names: str) -> Change:
    def change(chunk: Chunk) -> None:
        for delta in deltas(chunk):
            known = [name for name in ("reasoning_content", "reasoning", "reasoning_text") if delta.get(name)]
            if known and not delta.get("reasoning_details") and isinstance(delta[known[0]], str):
                said = delta[known[0]]
                for name in known:
                    del delta[name]
                delta.update(dict.fromkeys(names, said))

    return _in_place(change)


def _last_usage(frames: Frames) -> Any:
    found = [frame.said["usage"] for frame in frames if frame.said and frame.said.get("usage")]
    return found[-1] if found else None


def _usage(place: Callable[[Frames, Any], Frames]) -> Change:
    def changed(frames: Frames) -> Frames:
        usage = _last_usage(frames)
        seen = [frame.said["usage"] for frame in frames if frame.said and frame.said.get("usage")]
        if usage is None or any(set(one) != set(usage) for one in seen) or _has_none(seen):
            return frames

        def stripped(chunk: Chunk) -> Chunk | None:
            chunk.pop("usage", None)
            if chunk.get("x_groq"):
                chunk["x_groq"].pop("usage", None)
            return None if chunk.get("choices") == [] and not set(chunk) & {"citations", "error"} else chunk

        return place(each(stripped)(frames), usage)

    return changed


def _has_none(seen: list[Any]) -> bool:
    return any(value is None for one in seen for value in one.values())


def _before_done(frames: Frames, *more: Chunk) -> Frames:
    done = [frame for frame in frames if frame.data == "[DONE]"]
    return [*without_done(frames), *map(Frame, more), *done]


def _on_last_choice(frames: Frames, usage: Any, *, inside: bool = False) -> Frames:
    frames = deepcopy(frames)
    for frame in reversed(frames):
        if frame.said and any(not choice.get("index") for choice in choices(frame.said)):
            (choices(frame.said)[0] if inside else frame.said)["usage"] = usage
            break
    return frames


def _cumulative(frames: Frames, usage: Any) -> Frames:
    count = len(frames)

    def share(value: Any, at: int) -> Any:
        if isinstance(value, dict):
            return {name: share(item, at) for name, item in value.items()}
        return value * (at + 1) // count if type(value) is int else value

    out = [
        Frame({**frame.said, "usage": share(usage, at)}, frame.event) if frame.said else frame
        for at, frame in enumerate(frames)
    ]
    return _on_last_choice(out, usage) if not any(f.data == "[DONE]" for f in out[:-1]) else out


def _cumulative_exact(frames: Frames, usage: Any) -> Frames:
    out = _cumulative(frames, usage)
    for at in range(len(out) - 1, -1, -1):
        said = out[at].said
        if said:
            said["usage"] = usage
            if choices(said):
                break
    return out


def _null_until_the_end(frames: Frames, usage: Any) -> Frames:
    early = {name: value if name == "prompt_tokens" else None for name, value in usage.items()}
    late = {name: None if name == "prompt_tokens" else value for name, value in usage.items()}
    out = [Frame({**frame.said, "usage": early}, frame.event) if frame.said else frame for frame in frames]
    return _before_done(out, {"choices": [], "usage": late}, {"choices": [], "usage": None})


def _groq(frames: Frames, usage: Any) -> Frames:
    return _before_done(frames, {"choices": [], "x_groq": {"id": "req_1", "usage": usage}})


def _finish(frames: Frames) -> str | None:
    found = [
        choice["finish_reason"]
        for frame in frames
        if frame.said
        for choice in choices(frame.said)
        if choice.get("finish_reason") and not choice.get("index")
    ]
    return found[0] if found else None


def _finish_again(frames: Frames) -> Frames:
    finish = _finish(frames)
    again = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": finish}]}
    return _before_done(frames, again, again) if finish else frames


def _late_chunks(frames: Frames) -> Frames:
    if not _finish(frames):
        return frames
    delta = {"role": "assistant", "content": "", "tool_calls": []}
    late = {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    filtered = {"id": "", "created": 0, "choices": [{"index": 0, "content_filter_offsets": {"check_offset": 1}}]}
    return _before_done(frames, late, filtered, {"choices": []}, {"id": "x"})


def _no_done(frames: Frames) -> Frames:
    return without_done(frames) if _finish(frames) else frames


def _prelude(frames: Frames) -> Frames:
    first = {"id": "", "model": "", "object": "", "created": 0, "choices": [], "prompt_filter_results": []}
    return [Frame(first), Frame({"choices": [{"index": 0, "delta": {"role": "assistant", "content": None}}]}), *frames]


def _other_choices(frames: Frames) -> Frames:
    def one(chunk: Chunk) -> Chunk:
        if chunk.get("choices"):
            chunk["choices"].append(
                {"index": 1, "delta": {"content": "no", "reasoning": "no"}, "finish_reason": "length"}
            )
        return chunk

    return each(one)(frames)


CHANGES: dict[str, Change] = {
    "key order": each(reordered),
    "unknown fields": _in_place(_odd_fields),
    "nulls for absent": _in_place(_nulls),
    "absent for nulls": each(_no_nulls),
    "empty for absent": _in_place(_empty_words),
    "only what is needed": _in_place(_bare),
    "role in each chunk": _in_place(_roles),
    "no role": _in_place(_no_roles),
    "text in characters": each(_characters),
    "arguments in characters": each(_arguments_in_characters),
    "text put together": _merged,
    "continued with id ''": _continued(id=""),
    "continued with id null": _continued(id=None),
    "continued with the id": _continued(id=...),
    "continued with name ''": _continued(name="", type="function"),
    "continued with name null": _continued(name=None, id=None, type=None),
    "continued with the name": _continued(name=...),
    "continued with id and name": _continued(id=..., name=..., type="function"),
    "no index": _index(lambda _: None),
    "no index but ids": _calls(_index_and_id),
    "index 0 for all": _index(lambda _: 0),
    "index null": _in_place(lambda chunk: [f.update(index=None) for f in fragments(chunk) if "index" not in f]),
    "arguments as objects": _calls(_objects),
    "reasoning_content": _renamed("reasoning_content"),
    "reasoning": _renamed("reasoning"),
    "reasoning_text": _renamed("reasoning_text"),
    "reasoning twice": _renamed("reasoning", "reasoning_content"),
    "usage alone": _usage(lambda frames, usage: _before_done(frames, {"choices": [], "usage": usage})),
    "usage without choices": _usage(lambda frames, usage: _before_done(frames, {"usage": usage})),
    "usage with the last choice": _usage(_on_last_choice),
    "usage in the last choice": _usage(lambda frames, usage: _on_last_choice(frames, usage, inside=True)),
    "usage twice": _usage(lambda frames, usage: _before_done(frames, *[{"choices": [], "usage": usage}] * 2)),
    "usage cumulative": _usage(_cumulative_exact),
    "usage null until the end": _usage(_null_until_the_end),
    "usage at the side": _usage(_groq),
    "finish again": _finish_again,
    "late chunks": _late_chunks,
    "no end mark": _no_done,
    "end mark": lambda frames: with_done(frames) if _finish(frames) else frames,
    "prelude": _prelude,
    "another choice": _other_choices,
}
"""Changes by name."""
