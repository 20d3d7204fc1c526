"""The producers of one process share their calls to a queue: one push call in flight, one wait for each full lane, nothing lost or mixed up."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtree.actors.stream.emitter import Emitter
from runtree.actors.stream.lane_port import PushReply
from runtree.actors.stream.lanes import Bounds
from runtree.actors.stream.shared_lanes import Push, SharedLanes
from runtree.messages.codec import Frame
from runtree.messages.errors import RuntimeUnavailableError

from ..kit.eventually import eventually
from ..kit.lanes import ROOT, Queue, Reader, Wire, by_run, check_dense, say, soon, stamp

pytestmark = pytest.mark.anyio
LANE = "driver:root"
ROOT_STAMP = stamp(ROOT)


class Process:
    """A queue as one process with several producers calls it."""

    def __init__(self, queue: Queue, *, delay: int = 1) -> None:
        self.calls: list[list[str]] = []
        self.waiting: list[str] = []
        self.waits = 0
        self.gone = False
        self._queue, self._delay = queue, delay
        self._pushing = False
        self.shared = SharedLanes(self._push_many, self._wait)

    async def push(self, lane: str, frames: Sequence[bytes]) -> PushReply:
        return await self.shared.push(lane, frames)

    async def wait_for_credit(self, lane: str, producer: str) -> PushReply:
        del producer
        return await self.shared.wait_for_credit(lane)

    async def store(self, lane: str, key: str, line: bytes) -> str:
        return await self._queue.store(lane, key, line)

    async def _push_many(self, pushes: Sequence[Push]) -> Sequence[PushReply | Exception]:
        assert not self._pushing, "two calls in flight"
        producers = [(lane, Frame.from_bytes(frames[0]).stamp.run_id) for lane, frames in pushes]
        assert len(set(producers)) == len(producers), "two pushes of one producer into one lane in flight"
        self._pushing = True
        self.calls.append([run_id for _, run_id in producers])
        try:
            for _ in range(self._delay):
                await asyncio.sleep(0)
            if self.gone:
                raise RuntimeUnavailableError("queue", "it is gone", "Start another run")
            return [await self._queue.push(lane, frames) for lane, frames in pushes]
        finally:
            self._pushing = False

    async def _wait(self, lane: str) -> PushReply:
        assert lane not in self.waiting, "two waits for one lane"
        self.waiting.append(lane)
        self.waits += 1
        try:
            if self.gone:
                raise RuntimeUnavailableError("queue", "it is gone", "Start another run")
            return await self._queue.wait_for_credit(lane, "process")
        finally:
            self.waiting.remove(lane)


def opened(bounds: Bounds | None = None, wire: Wire | None = None) -> tuple[Queue, Reader]:
    queue = Queue("q", wire=wire)
    queue.open(LANE, ROOT, bounds or Bounds())
    return queue, Reader(queue.lanes.buffer(LANE))


def emitters(port: Process, count: int, lanes: Sequence[str] = (LANE,)) -> list[Emitter]:
    return [Emitter(stamp(f"r{n}", ROOT_STAMP), port, lanes[n % len(lanes)]) for n in range(count)]


async def test_d2_what_many_producers_push_at_once_leaves_in_one_call() -> None:
    queue, reader = opened()
    process = Process(queue)
    producers = emitters(process, 100)
    for producer in producers:
        producer.emit_delta("model_delta", text="x")
    await soon(asyncio.gather(*(producer.flush() for producer in producers)))
    assert [len(call) for call in process.calls] == [100]
    check_dense(reader.drain(), lossless=True)


async def test_d7_a_lone_producer_does_not_wait_for_others() -> None:
    queue, _ = opened()
    process = Process(queue)
    (producer,) = emitters(process, 1)
    for number in range(3):
        producer.emit_delta("model_delta", text="x")
        await soon(producer.flush())
        assert len(process.calls) == number + 1


async def test_d9_many_producers_behind_a_full_lane_wait_in_one_call() -> None:
    queue, reader = opened(Bounds(items=16))
    process = Process(queue)
    producers = emitters(process, 300)
    for producer in producers:
        for _ in range(3):
            producer.emit_delta("model_delta", text="x")
    done = asyncio.gather(*(producer.flush() for producer in producers))
    await eventually(lambda: process.waiting == [LANE])
    while not done.done():
        reader.take()
        await asyncio.sleep(0)
    reader.drain()
    assert len(reader.items) == 900
    check_dense(reader.items, lossless=True)


async def test_a_producer_that_stops_waiting_takes_nobody_along() -> None:
    queue, reader = opened(Bounds(items=4))
    process = Process(queue)
    first, second, third = emitters(process, 3)
    for producer in (first, second, third):
        for _ in range(6):
            producer.emit_delta("model_delta", text="x")
    await eventually(lambda: process.waiting == [LANE])
    first.thin()
    await soon(first.flush())
    await soon(second.aclose())
    done = asyncio.ensure_future(third.flush())
    while not done.done():
        reader.take()
        await asyncio.sleep(0)
    reader.drain()
    assert len(by_run(reader.items)["r2/1"]) == 6
    check_dense(reader.items)


async def test_all_hear_that_the_queue_is_gone() -> None:
    queue, _ = opened(Bounds(items=4))
    process = Process(queue)
    producers = emitters(process, 20)
    for producer in producers:
        producer.emit_delta("model_delta", text="x")
    process.gone = True
    await soon(asyncio.gather(*(producer.flush() for producer in producers)))
    assert all(isinstance(producer.error, RuntimeUnavailableError) for producer in producers)


async def test_all_who_wait_hear_that_the_queue_is_gone() -> None:
    queue, _ = opened(Bounds(items=1))
    process = Process(queue)
    process.gone = True
    waits = [process.wait_for_credit(LANE, str(n)) for n in range(5)]
    errors = await soon(asyncio.gather(*waits, return_exceptions=True))
    assert all(isinstance(error, RuntimeUnavailableError) for error in errors)
    assert process.waits == 1


async def test_a_closed_lane_wakes_all_who_wait() -> None:
    queue, _ = opened()
    process = Process(queue)
    waits = [process.wait_for_credit("no such lane", str(n)) for n in range(50)]
    replies = await soon(asyncio.gather(*waits))
    assert all(reply.fenced for reply in replies)
    assert process.waits == 1


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32),
    counts=st.lists(st.integers(1, 30), min_size=1, max_size=8),
    room=st.integers(1, 12),
    refusals=st.sampled_from([0.0, 0.3]),
    repeats=st.sampled_from([0.0, 0.3]),
)
def test_d2_any_interleaving_keeps_each_producer_in_order_and_whole(
    seed: int, counts: list[int], room: int, refusals: float, repeats: float
) -> None:
    async def check() -> None:
        queue, reader = opened(Bounds(items=room), wire=Wire(seed, delay=2, repeats=repeats, refusals=refusals))
        queue.open(ROOT, ROOT, Bounds(), (queue, LANE))
        process = Process(queue, delay=seed % 3)
        producers = emitters(process, len(counts), (LANE, ROOT))
        done = asyncio.gather(*(speak(producer, count) for producer, count in zip(producers, counts, strict=True)))
        while not done.done():
            reader.take()
            await asyncio.sleep(0)
        await done
        reader.drain()
        check_dense(reader.items, lossless=True)
        assert sorted(len(own) for own in by_run(reader.items).values()) == sorted(counts)

    asyncio.run(asyncio.wait_for(check(), 20))


async def speak(emitter: Emitter, count: int) -> None:
    await say(emitter, count)
    await emitter.flush()
    assert emitter.error is None
