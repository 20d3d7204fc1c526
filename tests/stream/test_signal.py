"""Wake-up calls: in turn, and none is lost with a waiter that has gone."""

import asyncio

import pytest

from runtree.actors.stream.buffer import Buffer
from runtree.actors.stream.reader import FrameReader
from runtree.actors.stream.signal import Signal
from runtree.messages import ItemsDropped

from ..kit.lanes import LIMIT, ROOT, frame, soon, stamp

pytestmark = pytest.mark.anyio


async def test_waiters_are_woken_in_turn() -> None:
    signal = Signal()
    waits = [asyncio.ensure_future(signal.wait(LIMIT)) for _ in range(3)]
    await asyncio.sleep(0)
    signal.notify(2)
    assert await soon(waits[0])
    assert await soon(waits[1])
    assert not waits[2].done()
    signal.notify()
    assert await soon(waits[2])
    assert not len(signal)


async def test_a_wait_ends_with_its_time_and_leaves_nothing() -> None:
    signal = Signal()
    assert not await signal.wait(0)
    assert not await signal.wait(0.001)
    assert not len(signal)


async def test_y10_a_waiter_that_is_cancelled_after_it_was_woken_passes_its_turn_on() -> None:
    signal = Signal()
    first, second = (asyncio.ensure_future(signal.wait(LIMIT)) for _ in range(2))
    await asyncio.sleep(0)
    signal.notify(1)
    first.cancel()
    assert await soon(second)
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_waiting_for_data_ends_with_the_time_or_with_a_wake_up() -> None:
    """Who drops the lane wakes its reader although there is nothing to read."""
    buffer = Buffer(1, 1)
    await soon(buffer.wait_for_data(0.001))
    waiting = asyncio.ensure_future(buffer.wait_for_data(LIMIT))
    await asyncio.sleep(0)
    buffer.data.notify()
    await soon(waiting)


def test_d2_reader_leaves_repetitions_out_and_marks_holes() -> None:
    owner = stamp(ROOT)
    reader = FrameReader()
    frames = [frame(owner, 0, 3), frame(owner, 0, 3), frame(owner, 2, 6), frame(owner, 9, 10)]
    items = list(reader.read([one.to_bytes() for one in frames]))
    assert [item.seq for item in items] == [0, 1, 2, 3, 4, 5, 6, 8, 9, 10]
    gap = items[7]
    assert isinstance(gap, ItemsDropped)
    assert (gap.first_seq, gap.last_seq, gap.count) == (7, 8, 2)
