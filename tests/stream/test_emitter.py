"""The emitter: numbers, batches, waiting, switching lanes, giving up."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from runtree.actors.stream.emitter import MAX_FRAME_BYTES, Emitter
from runtree.actors.stream.lane_port import PushReply
from runtree.actors.stream.lanes import Bounds
from runtree.messages import Custom, ItemsDropped, RunCompleted, TurnStarted
from runtree.messages.codec import Frame
from runtree.messages.errors import InternalError, RuntimeUnavailableError

from ..kit.lanes import ROOT, Queue, Reader, check_dense, say, soon, stamp

pytestmark = pytest.mark.anyio
LANE = "driver:root"


class Gate:
    """A port whose pushes wait for the test."""

    def __init__(self, *replies: PushReply | Exception) -> None:
        self.frames: list[Frame] = []
        self.waits = 0
        self.arrived = asyncio.Event()
        self.open = asyncio.Event()
        self.credit = asyncio.Event()
        self._replies = list(replies)

    async def push(self, lane: str, frames: Sequence[bytes]) -> PushReply:
        del lane
        self.frames.append(Frame.from_bytes(frames[0]))
        self.arrived.set()
        await self.open.wait()
        reply = self._replies.pop(0) if self._replies else PushReply(1, 1000, 1_000_000)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def store(self, lane: str, key: str, line: bytes) -> str:
        del line
        return f"queue|{lane}|{key}"

    async def wait_for_credit(self, lane: str, producer: str) -> PushReply:
        del lane, producer
        self.waits += 1
        self.arrived.set()
        await self.credit.wait()
        return PushReply(0, 1000, 1_000_000)


def opened(bounds: Bounds | None = None) -> tuple[Queue, Reader]:
    queue = Queue("q")
    queue.open(LANE, ROOT, bounds or Bounds())
    return queue, Reader(queue.lanes.buffer(LANE))


async def test_d7_what_gathers_during_a_push_goes_out_as_one_frame() -> None:
    gate = Gate()
    emitter = Emitter(stamp(ROOT), gate, LANE)
    emitter.emit(TurnStarted, turn=1)
    await soon(gate.arrived.wait())
    for _ in range(50):
        emitter.emit_delta("model_delta", text="x")
    gate.open.set()
    await soon(emitter.flush())
    assert [(frame.first_seq, frame.last_seq) for frame in gate.frames] == [(0, 0), (1, 50)]


async def test_an_item_that_cannot_be_encoded_uses_up_no_number() -> None:
    queue, reader = opened()
    emitter = Emitter(stamp(ROOT), queue, LANE)
    with pytest.raises(ValueError):
        emitter.emit(TurnStarted, turn="many")
    with pytest.raises(ValueError):
        emitter.emit_delta("model_delta", text="\ud800")
    emitter.emit(TurnStarted, turn=1)
    await soon(emitter.flush())
    assert [item.seq for item in reader.drain()] == [0]


async def test_a_frame_fits_into_a_call_with_its_header() -> None:
    """Non-deltas have a mark each in the header, which counts as well."""
    gate = Gate()
    gate.open.set()
    emitter = Emitter(stamp(ROOT), gate, LANE)
    for number in range(5000):
        emitter.emit(TurnStarted, turn=number + 1)
    await soon(emitter.flush())
    assert max(len(frame.to_bytes()) for frame in gate.frames) < 100_000
    assert sum(frame.count for frame in gate.frames) == 5000


@pytest.mark.parametrize("size", [MAX_FRAME_BYTES, 5 * 2**20])
async def test_d5_an_item_above_every_bound_gets_through(size: int) -> None:
    queue, reader = opened(Bounds(items=4, bytes=1000))
    reader.large = queue.large
    emitter = Emitter(stamp(ROOT), queue, LANE)
    reading = asyncio.ensure_future(reader.until_end_of(ROOT))
    await soon(say(emitter, 3))
    emitter.emit_delta("model_delta", text="x" * size)
    emitter.emit(Custom, name="big", data="y" * size)
    emitter.emit(RunCompleted)
    await soon(emitter.flush())
    check_dense(await soon(reading), lossless=True)
    assert len(reader.items[3].text) == len(reader.items[4].data) == size
    assert queue.pushes < 20


async def test_d9_an_item_that_does_not_fit_yet_waits_without_asking_again_and_again() -> None:
    """Room of a few bytes is no room for a large item: it must not be pushed in a loop until somebody reads."""
    queue, reader = opened(Bounds(items=100, bytes=1000))
    emitter = Emitter(stamp(ROOT), queue, LANE)
    emitter.emit_delta("model_delta", text="x" * 700)
    await soon(emitter.flush())
    emitter.emit_delta("model_delta", text="x" * 900)
    emitter.emit_delta("model_delta", text="x" * 900)
    for _ in range(1000):
        await asyncio.sleep(0)
    assert queue.pushes <= 8
    reading = asyncio.ensure_future(reader.until_end_of(ROOT))
    emitter.emit(RunCompleted)
    await soon(emitter.flush())
    check_dense(await soon(reading), lossless=True)


async def test_d9_lines_that_fill_the_credit_to_the_byte_are_not_pushed_in_a_loop() -> None:
    """A body has line feeds between its lines, which count too."""
    queue, reader = opened(Bounds(items=100, bytes=10_000))
    emitter = Emitter(stamp(ROOT), queue, LANE)
    for _ in range(400):
        emitter.emit_delta("model_delta", text="x" * 50)
    for _ in range(3000):
        await asyncio.sleep(0)
    assert queue.pushes <= 10
    buffer = queue.lanes.buffer(LANE)
    assert buffer.items <= 100
    reading = asyncio.ensure_future(reader.until_end_of(ROOT))
    emitter.emit(RunCompleted)
    await soon(emitter.flush())
    check_dense(await soon(reading), lossless=True)


async def test_d2_switch_is_a_barrier() -> None:
    """Nothing enters the new lane before the old one has accepted what was emitted before."""
    old, new = Gate(), Gate()
    new.open.set()
    emitter = Emitter(stamp(ROOT), old, "old")
    await say(emitter, 3)
    switching = asyncio.ensure_future(emitter.switch(new, "new"))
    await soon(old.arrived.wait())
    await say(emitter, 2)
    assert not switching.done()
    assert not new.frames
    old.open.set()
    await soon(switching)
    await soon(emitter.flush())
    assert old.frames[-1].last_seq + 1 == new.frames[0].first_seq
    assert new.frames[-1].last_seq == 4


async def test_d2_switch_ends_while_the_run_goes_on_talking() -> None:
    """Parallel tools may emit all the time: the barrier waits for what came before it and no longer."""
    queue, reader = opened()
    queue.open("own", ROOT, Bounds(), (queue, LANE))
    emitter = Emitter(stamp(ROOT), queue, LANE)
    stop = False

    async def talk() -> None:
        while not stop:
            emitter.emit_delta("model_delta", text="x")
            await asyncio.sleep(0)

    talking = asyncio.ensure_future(talk())
    reading = asyncio.ensure_future(reader.until_end_of(ROOT))
    for _ in range(10):
        await asyncio.sleep(0)
    await soon(emitter.switch(queue, "own"))
    await soon(emitter.flush())
    stop = True
    await soon(talking)
    emitter.emit(RunCompleted)
    check_dense(await soon(reading), lossless=True)


async def test_ready_waits_behind_a_full_lane_and_thin_ends_the_wait() -> None:
    """D6: a cancelled run does not wait for a reader."""
    queue, reader = opened(Bounds(items=5))
    emitter = Emitter(stamp(ROOT), queue, LANE, high_items=10)
    talking = asyncio.ensure_future(say(emitter, 100))
    for _ in range(200):
        await asyncio.sleep(0)
    assert not talking.done()
    assert queue.lanes.buffer(LANE).items == 5
    emitter.thin()
    await soon(talking)
    emitter.emit(RunCompleted)
    await soon(emitter.flush())
    items = reader.drain()
    check_dense(items)
    assert items[-1].kind == "run_completed"
    assert [item.text for item in items[:5]] == ["0 ", "1 ", "2 ", "3 ", "4 "]


async def test_thin_while_a_push_is_in_flight_that_will_be_refused() -> None:
    gate = Gate(PushReply(0, 0, 0), PushReply(1, 0, 0))
    emitter = Emitter(stamp(ROOT), gate, LANE)
    await say(emitter, 4)
    await soon(gate.arrived.wait())
    emitter.thin()
    gate.open.set()
    await soon(emitter.flush())
    assert gate.waits == 0
    (gap,) = gate.frames[-1].items()
    assert isinstance(gap, ItemsDropped)
    assert (gap.first_seq, gap.last_seq) == (0, 3)


async def test_thin_leaves_deltas_alone_that_have_room() -> None:
    queue, reader = opened()
    emitter = Emitter(stamp(ROOT), queue, LANE)
    emitter.thin()
    await say(emitter, 200)
    await soon(emitter.flush())
    check_dense(reader.drain(), lossless=True)


@pytest.mark.parametrize("when", ["pushing", "waiting", "idle"])
async def test_aclose_leaves_no_task(when: str) -> None:
    before = asyncio.all_tasks()
    gate = Gate(PushReply(0, 0, 0) if when == "waiting" else PushReply(1, 9, 999))
    emitter = Emitter(stamp(ROOT), gate, LANE)
    await say(emitter, 4)
    await soon(gate.arrived.wait())
    gate.arrived.clear()
    if when != "pushing":
        gate.open.set()
        await soon(gate.arrived.wait() if when == "waiting" else emitter.flush())
    await soon(emitter.aclose())
    assert asyncio.all_tasks() == before
    await soon(emitter.flush())
    pushed = len(gate.frames)
    await soon(say(emitter, 3))
    assert asyncio.all_tasks() == before, "an emitter that was closed started to push again"
    assert len(gate.frames) == pushed


@pytest.mark.parametrize("fault", [RuntimeUnavailableError("queue", "gone", ""), KeyError("a bug")])
async def test_d9_nothing_waits_for_a_lane_that_is_out_of_reach(fault: Exception) -> None:
    gate = Gate(fault)
    emitter = Emitter(stamp(ROOT), gate, LANE, high_items=3)
    waits = [asyncio.ensure_future(wait) for wait in (say(emitter, 10), emitter.flush())]
    await soon(gate.arrived.wait())
    gate.open.set()
    for wait in waits:
        await soon(wait)
    assert isinstance(emitter.error, RuntimeUnavailableError | InternalError)
    await soon(emitter.switch(gate, "other"))
    await soon(say(emitter, 10))
    assert len(gate.frames) == 1


async def test_d4_a_fenced_run_stops_and_keeps_nothing() -> None:
    gate = Gate(PushReply(1, 0, 0, fenced=True))
    gate.open.set()
    emitter: Any = Emitter(stamp(ROOT), gate, LANE, high_items=3)
    await soon(say(emitter, 2000))
    await soon(emitter.flush())
    await soon(say(emitter, 2000))
    assert len(gate.frames) == 1
    assert not emitter._lines, "a run that is fenced off gathers what nobody will take"
