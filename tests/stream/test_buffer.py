"""The buffer against a simple model: what is in it, what it counts, what it drops."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from runtree.actors.stream.buffer import Buffer, Slot
from runtree.actors.stream.lane_port import Flow
from runtree.actors.stream.reader import FrameReader
from runtree.messages import Custom, Item, ItemsDropped, ModelDelta
from runtree.messages.codec import Frame

from ..kit.lanes import ROOT, frame, kept, stamp

RUNS = [stamp(name, stamp(ROOT)) for name in ("a", "b", "c")]
FLOWS: tuple[Flow, ...] = ("block", "drop_oldest", "collapse")


class BufferMachine(RuleBasedStateMachine):
    """Offers, reads, gives back and changes the flow; every number that went in comes out once, in order, or is marked as dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.buffer = Buffer(10, 1500)
        self.next = {run.run_id: 0 for run in RUNS}
        self.offered: list[Item] = []
        self.read: list[Any] = []
        self.reader = FrameReader()
        self.borrowed: list[Slot] = []
        self.reserve = 0

    @rule(run=st.sampled_from(RUNS), kinds=st.lists(st.booleans(), min_size=1, max_size=14), size=st.integers(0, 300))
    def offer(self, run: Any, kinds: list[bool], size: int) -> None:
        first = self.next[run.run_id]
        items: list[Item] = [
            ModelDelta(**dict(run), seq=first + index, text="x" * size)
            if delta
            else Custom(**dict(run), seq=first + index, name="kept")
            for index, delta in enumerate(kinds)
        ]
        made = Frame.of_items(items)
        credit = self.buffer.credit()
        fits = made.count <= credit.items and len(made.body) <= credit.bytes
        taken = self.buffer.offer(made)
        if fits or not made.deltas or self.buffer.flow != "block":
            assert taken
        if made.count == 1 and credit.items and credit.bytes:
            assert taken, "one item fits as long as there is room"
        if taken:
            self.next[run.run_id] += len(items)
            self.offered += items

    @rule(max_items=st.integers(0, 12), max_bytes=st.integers(0, 2000))
    def take(self, max_items: int, max_bytes: int) -> None:
        if self.borrowed:
            return
        waiting = len(self.buffer)
        frames = self.buffer.take(max_items, max_bytes)
        assert bool(frames) == bool(waiting)
        assert sum(one.count for one in frames) <= max(1, max_items)
        self.read += self.reader.read([one.to_bytes() for one in frames])

    @precondition(lambda self: not self.borrowed)
    @rule(max_items=st.integers(0, 12))
    def borrow(self, max_items: int) -> None:
        self.borrowed = self.buffer.take_slots(max_items, 1000)

    @precondition(lambda self: self.borrowed)
    @rule(data=st.data())
    def return_some(self, data: st.DataObject) -> None:
        """A relay's push was accepted in part."""
        accepted = data.draw(st.integers(0, len(self.borrowed)))
        self.read += self.reader.read([slot.frame.to_bytes() for slot in self.borrowed[:accepted]])
        self.buffer.give_back(self.borrowed[accepted:])
        self.borrowed = []

    @rule(flow=st.sampled_from(FLOWS))
    def flow(self, flow: Flow) -> None:
        self.buffer.set_flow(flow)

    @invariant()
    def counts_are_exact(self) -> None:
        frames = self._inside()
        assert self.buffer.items == sum(one.count for one in frames)
        assert self.buffer.bytes == sum(len(one.body) for one in frames)
        if not frames:
            assert self.buffer.oldest == self.buffer.accepted + 1
        assert self.buffer.oldest <= self.buffer.accepted + 1

    @invariant()
    def numbers_rise(self) -> None:
        slots: Any = self.buffer
        numbers = [slot.number for slot in [*self.borrowed, *slots._lean, *slots._slots]]
        assert numbers == sorted(numbers)

    @invariant()
    def nothing_is_lost(self) -> None:
        left = [*self.read]
        for one in [*(slot.frame for slot in self.borrowed), *self._inside()]:
            left += one.items()
        for run in RUNS:
            own = [item for item in left if item.run_id == run.run_id]
            numbers: list[int] = []
            for item in own:
                numbers += range(item.first_seq, item.seq + 1) if isinstance(item, ItemsDropped) else [item.seq]
            assert numbers == list(range(self.next[run.run_id]))
            sent = [item for item in self.offered if item.run_id == run.run_id]
            assert [item.seq for item in kept(own)] == [item.seq for item in kept(sent)]

    def _inside(self) -> list[Frame]:
        inside: Any = self.buffer
        return [slot.frame for slot in [*inside._lean, *inside._slots]]


TestBuffer = BufferMachine.TestCase
TestBuffer.settings = settings(max_examples=150, stateful_step_count=30)


@pytest.mark.parametrize("flow", ["drop_oldest", "collapse"])
def test_d5_what_nobody_reads_stays_bounded(flow: Flow) -> None:
    """Thousands of deltas, one a frame as a slow model sends them, of several runs: gaps grow, the buffer does not."""
    buffer = Buffer(20, 10_000, flow)
    for seq in range(2000):
        for run in RUNS:
            buffer.offer(frame(run, seq, seq))
    assert buffer.items <= 20
    assert len(buffer) <= 20
    assert buffer.dropped_items >= 5900


def test_d5_block_bounds_hold() -> None:
    buffer = Buffer(10, 1000)
    taken = sum(buffer.offer(frame(RUNS[0], seq, seq)) for seq in range(100))
    assert (taken, buffer.items) == (10, 10)
    assert buffer.offer(Frame.of_items([Custom(**dict(RUNS[1]), seq=0, name="kept")]))
    assert buffer.credit().items == 0


def test_settled_is_about_the_place_in_line() -> None:
    """D3: a gap that joins an earlier one must not make what stands between look as if it had left."""
    buffer = Buffer(2, 10_000, "drop_oldest")
    buffer.offer(frame(RUNS[0], 0, 1))
    buffer.offer(Frame.of_items([Custom(**dict(RUNS[1]), seq=0, name="end")]))
    newest = buffer.accepted
    buffer.offer(frame(RUNS[0], 2, 5))
    buffer.offer(frame(RUNS[0], 6, 9))
    (gap,) = buffer.take(1, 10_000)
    assert gap.is_gap
    assert buffer.oldest <= newest
    buffer.take(1, 10_000)
    assert buffer.oldest > newest


def test_a_frame_above_what_a_reader_asks_for_is_cut() -> None:
    buffer = Buffer(100, 100_000)
    buffer.offer(frame(RUNS[0], 0, 49))
    frames = [buffer.take(20, 100_000), buffer.take(20, 100_000), buffer.take(20, 100_000)]
    assert [(one.first_seq, one.last_seq) for (one,) in frames] == [(0, 19), (20, 39), (40, 49)]
