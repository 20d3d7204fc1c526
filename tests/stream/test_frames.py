"""Cutting frames apart: at a size, and behind what is known already (D2, Y13)."""

from hypothesis import given
from hypothesis import strategies as st

from runtree.messages import Item, ItemsDropped
from runtree.messages.codec import Frame

from ..messages.samples import item_runs, numbers_of


@given(item_runs(), st.integers(0, 40), st.integers(0, 4000))
def test_cut_keeps_to_the_bounds_and_loses_nothing(items: list[Item], max_items: int, max_bytes: int) -> None:
    frame = Frame.of_items(items)
    head, tail = frame.cut(max_items, max_bytes)
    assert head.count <= max(1, max_items)
    assert head.count == 1 or len(head.body) <= max_bytes
    parts = [Frame.from_bytes(part.to_bytes()) for part in (head, tail) if part is not None]
    assert [item for part in parts for item in part.items()] == items
    assert parts[0].first_seq == frame.first_seq
    assert parts[-1].last_seq == frame.last_seq
    if tail is not None:
        assert tail.first_seq == head.last_seq + 1
        assert len(head.marks) + len(tail.marks) == len(frame.marks)


@given(item_runs(), st.data())
def test_after_accounts_for_exactly_what_is_new(items: list[Item], data: st.DataObject) -> None:
    """The second sending of a batch may have been thinned, so that one gap covers what is known and what is new."""
    frame = Frame.of_items(items)
    if data.draw(st.booleans()):
        frame = frame.without_deltas(2.0)
    known = data.draw(st.integers(frame.first_seq - 1, frame.last_seq - 1))
    rest = Frame.from_bytes(frame.after(known).to_bytes())
    left = rest.items()
    assert numbers_of(left) == list(range(known + 1, frame.last_seq + 1))  # type: ignore[arg-type]
    assert (rest.first_seq, rest.last_seq) == (known + 1, frame.last_seq)
    for item in left:
        if isinstance(item, ItemsDropped):
            assert item.count == item.last_seq - item.first_seq + 1
    assert rest.after(known) == rest
