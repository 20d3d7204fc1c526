"""What the tool calls of an answer show."""

from typing import Any

from ..shapes import as_object, as_objects, is_object
from .answer import Answer
from .decoding import calls_of
from .recording import Recording
from .seen import CallsSeen

_KNOWN_FIELDS = frozenset({"index", "id", "type", "function"})


def fragments_of(answer: Answer) -> list[dict[str, Any]]:
    """Return the pieces of calls, in order, without those that say nothing."""
    found = (fragment for chunk in answer.chunks for fragment in as_objects(chunk.delta.get("tool_calls")))
    return [fragment for fragment in found if fragment.get("id") or _name(fragment) or _arguments(fragment)]


def see_calls(recording: Recording, answer: Answer) -> CallsSeen:
    """Return how the calls of an answer arrived."""
    fragments = fragments_of(answer)
    count = len(calls_of(recording))
    ids = [str(fragment["id"]) for fragment in fragments if fragment.get("id")]
    names = [name for name in map(_name, fragments) if name]
    first = next((fragment for fragment in fragments if _name(fragment)), None)
    distinct = tuple(dict.fromkeys(ids))
    return CallsSeen(
        count=count,
        fragments=len(fragments),
        indexed=_indexed(answer, fragments, count),
        ids=distinct,
        repeats_id=len(ids) > count,
        shares_id=len(ids) >= count > len(distinct) > 0,
        lacks_id=len(ids) < count,
        repeats_name=len(names) > count,
        name_first=first is not None and not _arguments(first),
        whole=0 < len(fragments) <= count,
        objects=any(is_object(_arguments(fragment)) for fragment in fragments),
        extras=tuple(dict.fromkeys(name for part in fragments for name in part if name not in _KNOWN_FIELDS)),
    )


def _indexed(answer: Answer, fragments: list[dict[str, Any]], count: int) -> Any:
    if not fragments or answer.framing == "json":
        return None
    indexes = [fragment["index"] for fragment in fragments if isinstance(fragment.get("index"), int)]
    if len(indexes) < len(fragments):
        return "some" if indexes else "none"
    return "same for all" if count > 1 and len(set(indexes)) == 1 else "all"


def _name(fragment: dict[str, Any]) -> str:
    return str(as_object(fragment.get("function")).get("name") or "")


def _arguments(fragment: dict[str, Any]) -> Any:
    return as_object(fragment.get("function")).get("arguments")
