"""The batch codec: what goes in comes out, and thinning it accounts for every number (D2, D5)."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtree.messages import DELTA_KINDS, Item, ItemsDropped, ModelDelta, Stamp, ToolCallArgsDelta, UnknownItem
from runtree.messages.codec import Frame, encode_delta, encode_item

from .samples import STAMP, item_runs, numbers_of, one_of_every_kind


def _kind(item: Any) -> str:
    return str(item.kind)


@given(item_runs())
def test_frame_round_trip(items: list[Item]) -> None:
    frame = Frame.from_bytes(Frame.of_items(items).to_bytes())
    assert frame.items() == items
    assert (frame.first_seq, frame.last_seq, frame.count) == (numbers_of(items)[0], items[-1].seq, len(items))
    assert frame.stamp == Stamp(**STAMP)


def test_frame_carries_every_kind() -> None:
    items = one_of_every_kind()
    assert Frame.from_bytes(Frame.of_items(items).to_bytes()).items() == items


@given(item_runs())
def test_header_marks_every_item_that_is_no_delta(items: list[Item]) -> None:
    """D4: queues know of terminal items and open calls without decoding a body."""
    frame = Frame.from_bytes(Frame.of_items(items).to_bytes())
    marked = {mark.index: mark for mark in frame.marks}
    assert set(marked) == {index for index, item in enumerate(items) if _kind(item) not in DELTA_KINDS}
    for index, mark in marked.items():
        assert mark.kind == _kind(items[index])
        assert mark.call_id == getattr(items[index], "call_id", None)
        assert mark.tool_name == getattr(items[index], "tool_name", None)
    assert frame.deltas == len(items) - len(marked)


@given(item_runs())
def test_without_deltas_accounts_for_every_number(items: list[Item]) -> None:
    """D2: a gap is never silent."""
    frame = Frame.of_items(items)
    thinned = Frame.from_bytes(frame.without_deltas(time=5.0).to_bytes())
    left: list[Any] = thinned.items()
    assert numbers_of(left) == numbers_of(items)
    assert not {_kind(item) for item in left} & DELTA_KINDS
    assert (thinned.first_seq, thinned.last_seq) == (frame.first_seq, frame.last_seq)


@given(item_runs())
def test_without_deltas_keeps_all_else_and_never_leaves_two_gaps_in_a_row(items: list[Item]) -> None:
    left: list[Any] = Frame.of_items(items).without_deltas().items()
    expected = [item for item in items if _kind(item) not in DELTA_KINDS | {"items_dropped"}]
    assert [item for item in left if not isinstance(item, ItemsDropped)] == expected
    if Frame.of_items(items).deltas:
        assert not any(isinstance(a, ItemsDropped) and isinstance(b, ItemsDropped) for a, b in pairwise(left))
    for item in left:
        if isinstance(item, ItemsDropped):
            assert item.count == item.last_seq - item.first_seq + 1


@given(item_runs())
def test_without_deltas_is_idempotent(items: list[Item]) -> None:
    once = Frame.of_items(items).without_deltas()
    assert once.without_deltas() == once


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 10**12), st.floats(0, 1e10))
def test_the_fast_way_to_encode_a_delta_gives_the_same_item(text: str, seq: int, time: float) -> None:
    for item, fields in (
        (ModelDelta(**STAMP, seq=seq, time=time, text=text), {"text": text}),
        (
            ToolCallArgsDelta(**STAMP, seq=seq, time=time, call_id="c", tool_name="t", delta=text),
            {"call_id": "c", "tool_name": "t", "delta": text},
        ),
    ):
        line = encode_delta(item.kind, seq, time, fields)
        assert b"\n" not in line
        assert Frame.of(Stamp(**STAMP), seq, seq, [line], []).items() == [item]
        slow, mark = encode_item(item)
        assert mark is None
        assert Frame.of(Stamp(**STAMP), seq, seq, [slow], []).items() == [item]


def test_an_item_of_a_newer_version_arrives_as_unknown() -> None:
    line = b'{"kind":"input_requested","seq":4,"time":2.0,"question":"Go on?"}'
    (item,) = Frame.of(Stamp(**STAMP), 4, 4, [line], []).items()
    assert isinstance(item, UnknownItem)
    assert (item.kind, item.run_id, item.seq) == ("input_requested", "run", 4)
    assert item.model_dump()["question"] == "Go on?"


@pytest.mark.parametrize(
    "data", [b"", b"\x00\x00\x00\x02{}", b"\x00\x00\x00\xffshort", b'\x00\x00\x00\x0d{"run":[1,2]}']
)
def test_bytes_that_are_no_frame_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a frame"):
        Frame.from_bytes(data)
