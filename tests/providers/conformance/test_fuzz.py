"""Whatever comes over the wire ends in one typed event, and nothing that did not come whole can be run."""

import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtree.messages.model import Completed, ModelEvent
from runtree.providers.failures import from_answer, from_frame
from runtree.providers.sse import SseParser
from tests.kit.wires.check import end_of
from tests.kit.wires.families import FAMILIES, Family
from tests.kit.wires.scripts import ANSWERS, INTERLEAVED

FAMILY = st.sampled_from(FAMILIES)
SCRIPTS = {**ANSWERS, "interleaved": INTERLEAVED}
FOLDERS = {"chat": "openai_chat", "responses": "openai_responses", "anthropic": "anthropic"}
recorded = pytest.mark.parametrize("family", [family for family in FAMILIES if family.name in FOLDERS], ids=str)
ODD: list[Any] = [
    None,
    "",
    "x",
    0,
    1,
    -1,
    1e400,
    True,
    [],
    {},
    [None],
    ["x"],
    [[1]],
    [{}],
    {"text": None},
    {"type": 7},
    "\ud800",
]


def check(events: list[ModelEvent]) -> None:
    """One typed end, which can be stored and sent on."""
    end = end_of(events)
    for event in events:
        event.model_dump_json()
    if not isinstance(end, Completed):
        assert end.error.message


@settings(max_examples=150)
@given(FAMILY, st.lists(st.binary(max_size=80), max_size=8))
def test_random_bytes(family: Family, reads: list[bytes]) -> None:
    check(family.decode(reads))


def _object(words: dict[str, list[Any]], dice: random.Random, depth: int = 3) -> dict[str, Any]:
    """An object of names that the dialect has, with values of any type, often those that it has."""
    names = dice.choices(sorted(words), k=dice.randint(0, 5))
    return {name: _value(words, name, dice, depth) for name in names}


def _value(words: dict[str, list[Any]], name: str, dice: random.Random, depth: int) -> Any:
    match dice.randrange(5 if depth else 3):
        case 0:
            return dice.choice(ODD)
        case 1 | 2:
            return dice.choice(words[name])
        case 3:
            return _object(words, dice, depth - 1)
        case _:
            return [_object(words, dice, depth - 1) for _ in range(dice.randint(0, 2))]


def _words(frames: list[bytes]) -> dict[str, list[Any]]:
    """The names of all fields that stand in an answer, each with the values it has there."""
    words: dict[str, list[Any]] = {}

    def take(value: Any) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                words.setdefault(name, []).append(inner)
                take(inner)
        elif isinstance(value, list):
            for inner in value:
                take(inner)

    for frame in frames:
        take(_payload(frame))
    return words


def _payload(frame: bytes) -> Any:
    data = frame.split(b"data: ", 1)[1]
    return json.loads(data) if data.lstrip()[:1] == b"{" else {}


def _line(payload: Any) -> bytes:
    return f"data: {json.dumps(payload)}\n\n".encode()


_WORDS = {
    family.name: _words([f for script in SCRIPTS.values() for f in family.wire.frames(script)]) for family in FAMILIES
}


@pytest.mark.parametrize("seed", range(2))
def test_p07_random_objects(family: Family, seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(100):
        payloads = [_object(_WORDS[family.name], dice) for _ in range(dice.randint(1, 5))]
        check(family.decode(map(_line, payloads)))
        check(family.decode([json.dumps(payloads[0]).encode()]))


@settings(max_examples=250)
@given(FAMILY, st.sampled_from(sorted(SCRIPTS)), st.randoms(use_true_random=False), st.integers(1, 4))
def test_p07_fields_of_any_type(family: Family, name: str, dice: random.Random, changes: int) -> None:
    """A whole answer in which some fields have other values, and some events stand elsewhere, twice, or not at all."""
    payloads = [_payload(frame) for frame in family.wire.frames(SCRIPTS[name])]
    for _ in range(changes):
        _change(payloads, dice)
    check(family.decode(map(_line, payloads)))


def test_p07_each_field_of_a_unary_answer(family: Family) -> None:
    whole = json.loads(family.wire.body(SCRIPTS["calling"]))
    for path in _paths(whole):
        for odd in ODD:
            changed = copy.deepcopy(whole)
            _put(changed, path, odd)
            check(family.decode([json.dumps(changed).encode()]))


def _change(payloads: list[Any], dice: random.Random) -> None:
    at = dice.randrange(len(payloads)) if payloads else 0
    match dice.randrange(5):
        case 0 if payloads:
            del payloads[at]
        case 1 if payloads:
            payloads.insert(dice.randrange(len(payloads)), copy.deepcopy(payloads[at]))
        case 2 if payloads:
            payloads.append(payloads.pop(at))
        case _ if payloads and (paths := list(_paths(payloads[at]))):
            payloads[at] = copy.deepcopy(payloads[at])
            _put(payloads[at], dice.choice(paths), dice.choice(ODD))


Path_: TypeAlias = tuple[str | int, ...]


def _paths(value: Any, before: Path_ = ()) -> Iterator[Path_]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inner:
        yield (*before, name)
        yield from _paths(each, (*before, name))


def _put(value: Any, path: Path_, odd: Any) -> None:
    for name in path[:-1]:
        value = value[name]
    value[path[-1]] = odd


@settings(max_examples=200)
@given(
    st.lists(
        st.sampled_from(
            [
                b"data:",
                b"data: ",
                b"event: x",
                b"\n",
                b"\r",
                b"\r\n",
                b":",
                b"id: 1",
                "é\u2028".encode(),
                b"\xef\xbb\xbf",
                b"\xff",
            ]
        ),
        max_size=14,
    ),
    st.lists(st.integers(0, 60), max_size=5),
)
def test_p01_p02_the_sse_layer(parts: list[bytes], cuts: list[int]) -> None:
    body = b"".join(parts)
    ends = sorted({min(cut, len(body)) for cut in cuts} | {len(body)})
    parser, whole = SseParser(), SseParser()
    found = [event for start, end in zip([0, *ends], ends, strict=False) for event in parser.feed(body[start:end])]
    assert found + parser.close() == whole.feed(body) + whole.close()


@given(
    st.integers(300, 599),
    st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms", "x-should-retry"]), st.text(max_size=9)),
    st.binary(max_size=60),
    st.sampled_from(ODD),
)
def test_p20_errors_of_any_shape(status: int, headers: dict[str, str], body: bytes, value: Any) -> None:
    for content in (body, json.dumps(value).encode(), json.dumps({"error": value}).encode()):
        failure = from_answer(status, headers, content)
        assert failure.status == status
        assert failure.message
    assert from_frame(value).message
    assert from_frame({"error": {"message": value, "code": value, "details": value, "type": value}}).message


# Recordings


def _recorded(shared_dir: Path, family: Family, kind: str) -> list[tuple[str, bytes]]:
    found = sorted((shared_dir / "streams" / kind / FOLDERS[family.name]).glob("*.body"))
    assert found
    return [(path.stem, path.read_bytes()) for path in found if path.stat().st_size < 60_000]


@recorded
@pytest.mark.parametrize("kind", ["stream", "nonstream"])
def test_p05_recordings_that_end_anywhere(family: Family, shared_dir: Path, kind: str) -> None:
    """Only calls of the whole answer can be run, and only with all of their bytes."""
    dice = random.Random(11)
    for name, body in _recorded(shared_dir, family, kind):
        whole = {json.dumps([call.tool_name, call.arguments]) for call in _runnable(family.decode([body]))}
        for end in dice.sample(range(len(body)), min(len(body), 12)):
            events = family.decode([body[:end]])
            check(events)
            calls = {json.dumps([call.tool_name, call.arguments]) for call in _runnable(events)}
            assert calls <= whole, (name, end)


def _runnable(events: list[ModelEvent]) -> list[Any]:
    end = end_of(events)
    if not isinstance(end, Completed):
        return []
    return [call for call in end.response.message.tool_calls if call.arguments is not None]


def _flip(body: bytes, dice: random.Random) -> bytes:
    changed = bytearray(body)
    for _ in range(dice.randint(1, 5)):
        changed[dice.randrange(len(changed))] = dice.choice(b'{}[]":,\n\r\\0a\xff')
    return bytes(changed)


def _lose(body: bytes, dice: random.Random) -> bytes:
    start = dice.randrange(len(body))
    return body[:start] + body[start + dice.randint(1, 200) :]


def _repeat(body: bytes, dice: random.Random) -> bytes:
    start = dice.randrange(len(body))
    return body[:start] + body[max(0, start - dice.randint(1, 400)) :]


def _shuffle(body: bytes, dice: random.Random) -> bytes:
    events = body.split(b"\n\n")
    first, second = dice.randrange(len(events)), dice.randrange(len(events))
    events[first], events[second] = events[second], events[first]
    return b"\n\n".join(events)


@recorded
@pytest.mark.parametrize("damage", [_flip, _lose, _repeat, _shuffle])
def test_damaged_recordings(family: Family, shared_dir: Path, damage: Callable[[bytes, random.Random], bytes]) -> None:
    dice = random.Random(13)
    for kind in ("stream", "nonstream"):
        for _, body in _recorded(shared_dir, family, kind):
            for _ in range(2):
                damaged = damage(body, dice)
                cut = dice.randrange(len(damaged) + 1)
                check(family.decode([damaged[:cut], damaged[cut:]]))


@recorded
def test_p07_recordings_with_fields_of_any_type(family: Family, shared_dir: Path) -> None:
    dice = random.Random(17)
    for _, body in _recorded(shared_dir, family, "stream"):
        payloads = [json.loads(data) for data, _ in SseParser().feed(body) if data.strip().endswith(b"}")]
        for _ in range(4):
            _change(payloads, dice)
        check(family.decode(map(_line, payloads)))


_CITED = {"index": 0, "content_block": {"type": "text", "text": "", "citations": True}}
ODDITIES = [
    (
        "anthropic",
        [
            {"type": "content_block_start", **_CITED},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": {"url": "u"}}},
        ],
    ),
]


@pytest.mark.parametrize("name, payloads", ODDITIES)
def test_p07_what_was_found_before(name: str, payloads: list[Any]) -> None:
    family = next(family for family in FAMILIES if family.name == name)
    check(family.decode(map(_line, payloads)))
