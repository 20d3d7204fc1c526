"""Emitters, lanes, relays and reader together, under every pace and with a wire that repeats, delays and refuses (D1 to D6)."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtree.actors.stream.emitter import Emitter
from runtree.actors.stream.lane_port import Flow
from runtree.actors.stream.lanes import Bounds
from runtree.messages import ModelDelta, RunCompleted, RunStarted, ToolCallCompleted, ToolCallStarted, TurnStarted
from runtree.messages.codec import Frame

from ..kit.lanes import LIMIT, ROOT, Queue, Reader, Wire, by_run, check_dense, check_ends, kept, say, soon, stamp

pytestmark = pytest.mark.anyio
LANE = "driver:root"
ROOT_STAMP = stamp(ROOT)

BOUNDS = st.builds(Bounds, items=st.sampled_from([1, 2, 5, 40, 4096]), bytes=st.sampled_from([1, 60, 300, 5000, 2**24]))
WIRES = st.builds(
    Wire,
    st.integers(0, 10**6),
    delay=st.integers(0, 5),
    repeats=st.sampled_from([0.0, 0.3, 0.9]),
    refusals=st.sampled_from([0.0, 0.3]),
)
READERS = st.fixed_dictionaries(
    {"seed": st.integers(0, 1000), "max_items": st.sampled_from([1, 3, 2048]), "pause": st.sampled_from([0, 3, 30])}
)


async def talk(emitter: Emitter, count: int) -> None:
    """A run that ends: deltas, some of them long, and turns between."""
    emitter.emit(RunStarted, agent="a")
    for number in range(count):
        if number % 7 == 3:
            emitter.emit(TurnStarted, turn=number)
        else:
            emitter.emit_delta("model_delta", text="x" * (number * 37 % 200))
        await emitter.ready()
    emitter.emit(RunCompleted)
    await emitter.flush()


async def tell(
    queue: Queue, reader: Reader, counts: list[int], thin_at: "dict[int, int] | None" = None
) -> dict[str, list[Any]]:
    """Have a root and its children talk at once; returns what came of each."""
    queue.open(ROOT, ROOT, Bounds(), (queue, LANE))
    emitters = [Emitter(stamp(f"run{n}", ROOT_STAMP), queue, ROOT, high_items=8) for n in range(len(counts))]
    for number, turns in (thin_at or {}).items():
        asyncio.get_running_loop().create_task(_thin(emitters[number % len(emitters)], turns))
    root = Emitter(ROOT_STAMP, queue, LANE, high_items=8)
    reading = asyncio.ensure_future(reader.until_end_of(ROOT))
    root.emit(RunStarted, agent="root")
    await root.switch(queue, ROOT)
    await asyncio.gather(*(talk(emitter, count) for emitter, count in zip(emitters, counts, strict=True)))
    root.emit(RunCompleted)
    await root.flush()
    items = await reading
    assert [emitter.error for emitter in [root, *emitters]] == [None] * (len(emitters) + 1)
    check_dense(items)
    check_ends(items)
    runs = by_run(items)
    for number, count in enumerate(counts):
        own = kept(runs[f"run{number}/1"])
        assert [item.turn for item in own if item.kind == "turn_started"] == list(range(3, count, 7))
    return runs


async def _thin(emitter: Emitter, turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)
    emitter.thin()


FLOWS: tuple[Flow, ...] = ("block", "drop_oldest", "collapse")
COUNTS = st.lists(st.integers(0, 60), min_size=1, max_size=5)


@settings(max_examples=50)
@given(BOUNDS, WIRES, READERS, COUNTS)
def test_d2_block_loses_nothing(bounds: Bounds, wire: Wire, reader: dict[str, int], counts: list[int]) -> None:
    """Y13: whatever the bounds, the reader's pace and the wire, every item comes once, in order."""

    async def main() -> None:
        queue = Queue("q", wire=wire)
        queue.open(LANE, ROOT, bounds)
        runs = await soon(tell(queue, Reader(queue.lanes.buffer(LANE), **reader), counts))
        for items in runs.values():
            check_dense(items, lossless=True)
        buffer = queue.lanes.buffer(LANE)
        assert (buffer.items, buffer.bytes, len(buffer)) == (0, 0, 0)

    asyncio.run(main())


@settings(max_examples=50)
@given(BOUNDS, WIRES, READERS, COUNTS, st.dictionaries(st.integers(0, 4), st.integers(0, 200), max_size=3))
def test_d6_thinned_runs_lose_deltas_only(
    bounds: Bounds, wire: Wire, reader: dict[str, int], counts: list[int], thin_at: dict[int, int]
) -> None:
    """A cancelled run, at any moment; also when the thinned frame repeats one that arrived whole but whose reply did not."""

    async def main() -> None:
        queue = Queue("q", wire=wire)
        queue.open(LANE, ROOT, bounds)
        runs = await soon(tell(queue, Reader(queue.lanes.buffer(LANE), **reader), counts, thin_at))
        thinned = {f"run{number % len(counts)}/1" for number in thin_at}
        for run, items in runs.items():
            check_dense(items, lossless=run not in thinned)

    asyncio.run(main())


@settings(max_examples=50)
@given(BOUNDS, WIRES, READERS, COUNTS, st.sampled_from(["drop_oldest", "collapse"]))
def test_d5_drop_oldest_and_collapse_drop_deltas_only(
    bounds: Bounds, wire: Wire, reader: dict[str, int], counts: list[int], flow: Flow
) -> None:
    async def main() -> None:
        queue = Queue("q", wire=wire)
        queue.open(LANE, ROOT, Bounds(bounds.items, bounds.bytes, flow))
        await soon(tell(queue, Reader(queue.lanes.buffer(LANE), **reader), counts))

    asyncio.run(main())


@settings(max_examples=30)
@given(BOUNDS, COUNTS)
def test_d6_void_ends_without_a_reader(bounds: Bounds, counts: list[int]) -> None:
    async def main() -> None:
        queue = Queue("q")
        queue.open(LANE, ROOT, bounds)
        emitters = [Emitter(stamp(f"run{n}", ROOT_STAMP), queue, LANE, high_items=4) for n in range(len(counts))]
        talking = [asyncio.ensure_future(talk(*pair)) for pair in zip(emitters, counts, strict=True)]
        for _ in range(20):
            await asyncio.sleep(0)
        queue.set_flow("void")
        await soon(asyncio.gather(*talking))
        buffer = queue.lanes.buffer(LANE)
        assert (buffer.items, buffer.bytes, len(buffer)) == (0, 0, 0)

    asyncio.run(main())


@settings(max_examples=30)
@given(BOUNDS, WIRES, READERS, st.booleans(), st.sampled_from(FLOWS))
def test_d3_a_chain_of_lanes_keeps_causality(
    room: Bounds, wire: Wire, reader: dict[str, int], spread: bool, flow: Flow
) -> None:
    """Each run returns when its parent's lane has its end; with every lane in a queue of its own, too."""

    async def main() -> None:
        bounds = Bounds(room.items, room.bytes, flow)
        queues: dict[str, Queue] = {}
        home = Queue("home", queues, wire)
        home.open(LANE, ROOT, bounds)
        reading = asyncio.ensure_future(Reader(home.lanes.buffer(LANE), **reader).until_end_of(ROOT))

        async def run(own: Any, parent_queue: Queue, lane: str, depth: int) -> None:
            emitter = Emitter(own, parent_queue, lane, high_items=6)
            emitter.emit(RunStarted, agent=own.run_id)
            await say(emitter, 3)
            if depth:
                queue = Queue(own.run_id, queues, wire) if spread else home
                queue.open(own.run_id, ROOT, bounds, (parent_queue, lane))
                await emitter.switch(queue, own.run_id)
                await asyncio.gather(*(_call(emitter, own, queue, n, depth) for n in range(2)))
            await say(emitter, 2)
            emitter.emit(RunCompleted)
            await emitter.flush()
            if depth and spread:
                await queues[own.run_id].settled(own.run_id)
            await emitter.aclose()

        async def _call(emitter: Emitter, own: Any, queue: Queue, number: int, depth: int) -> None:
            child = stamp(f"{own.run_id}.{number}", own)
            call = {"call_id": child.run_id, "tool_name": "sub"}
            emitter.emit(ToolCallStarted, **call)
            await run(child, queue, own.run_id, depth - 1)
            emitter.emit(ToolCallCompleted, **call, outcome="ok", child_run_id=child.run_id)

        await soon(run(ROOT_STAMP, home, LANE, 3))
        items = await soon(reading)
        check_dense(items, lossless=flow == "block")
        check_ends(items)
        last = {item.run_id: index for index, item in enumerate(items)}
        completed = [(index, item) for index, item in enumerate(items) if isinstance(item, ToolCallCompleted)]
        assert len(completed) == 14
        for index, item in completed:
            assert item.child_run_id is not None
            assert last[item.child_run_id] < index
        for queue in queues.values():
            await queue.aclose()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


async def test_y01_a_full_lane_takes_a_terminal_item() -> None:
    queue = Queue("q")
    queue.open(LANE, ROOT, Bounds(items=2))
    noisy, quiet = (Emitter(stamp(name, ROOT_STAMP), queue, LANE) for name in ("noisy", "quiet"))
    for _ in range(20):
        noisy.emit_delta("model_delta", text="x")
    for _ in range(50):
        await asyncio.sleep(0)
    quiet.emit(RunCompleted)
    await soon(quiet.flush())
    reader = Reader(queue.lanes.buffer(LANE))
    reader.drain()
    assert [item.kind for item in reader.items if item.run_id == "quiet"] == ["run_completed"]
    await noisy.aclose()


async def crowd(queue: Queue, count: int) -> list[Emitter]:
    """Many producers that wait behind a full lane."""
    emitters = [Emitter(stamp(f"run{number}", ROOT_STAMP), queue, LANE) for number in range(count)]
    for emitter in emitters:
        for _ in range(5):
            emitter.emit_delta("model_delta", text="x")
    for _ in range(200):
        await asyncio.sleep(0)
    assert queue.lanes.buffer(LANE).items == 4
    return emitters


async def served(queue: Queue, living: list[Emitter]) -> None:
    """Read until everything the living have to say is there."""
    buffer = queue.lanes.buffer(LANE)
    reader = Reader(buffer)

    async def read() -> None:
        while True:
            if not reader.take():
                await buffer.wait_for_data(LIMIT)

    reading = asyncio.ensure_future(read())
    await soon(asyncio.gather(*(emitter.flush() for emitter in living)))
    reading.cancel()
    check_dense(reader.drain(), lossless=True)
    for emitter in living:
        assert len([item for item in reader.items if item.run_id == emitter.stamp.run_id]) == 5


async def test_y10_producers_that_are_cancelled_while_they_wait_leave_no_trace() -> None:
    queue = Queue("q")
    queue.open(LANE, ROOT, Bounds(items=4))
    emitters = await crowd(queue, 60)
    for emitter in emitters[:30]:
        await soon(emitter.aclose())
    await served(queue, emitters[30:])
    assert not len(queue.lanes.buffer(LANE).room)


async def test_y10_waiting_calls_whose_callers_are_dead_hold_nobody_up() -> None:
    """They stay in line as those of a killed process do, and use up the wake-ups they get."""
    queue = Queue("q")
    queue.open(LANE, ROOT, Bounds(items=4))
    first = Emitter(stamp("first", ROOT_STAMP), queue, LANE)
    await say(first, 4)
    await soon(first.flush())
    ghosts = [asyncio.ensure_future(queue.lanes.buffer(LANE).room.wait(LIMIT * 5)) for _ in range(500)]
    await asyncio.sleep(0)
    await served(queue, await crowd(queue, 60))
    for ghost in ghosts:
        ghost.cancel()


async def test_d2_a_thinned_repetition_of_a_frame_that_had_arrived() -> None:
    """The reply was lost, the run was cancelled, and the second sending has one gap over what is known and what is new."""
    queue = Queue("q")
    queue.open(LANE, ROOT, Bounds())
    reader = Reader(queue.lanes.buffer(LANE))
    emitter = Emitter(ROOT_STAMP, queue, LANE)
    await say(emitter, 3)
    await soon(emitter.flush())
    whole = Frame.of_items([ModelDelta(**dict(ROOT_STAMP), seq=seq, text="x") for seq in range(10)])
    assert queue.lanes.push(LANE, [whole.without_deltas(1.0).to_bytes()]).accepted
    items = reader.drain()
    check_dense(items)
    assert (items[-1].first_seq, items[-1].last_seq, items[-1].count) == (3, 9, 7)


async def test_d6_a_void_buffer_is_settled_at_once() -> None:
    """Nobody will read: the end of a run does not wait for a relay that waits for room."""
    queues: dict[str, Queue] = {}
    home, far = Queue("home", queues), Queue("far", queues)
    home.open(LANE, ROOT, Bounds(items=1))
    far.open(ROOT, ROOT, Bounds(), (home, LANE))
    emitter = Emitter(ROOT_STAMP, far, ROOT)
    await say(emitter, 50)
    await soon(emitter.flush())
    settling = asyncio.ensure_future(far.settled(ROOT))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not settling.done()
    far.set_flow("void")
    async with asyncio.timeout(2):
        await settling
    await far.aclose()
    await emitter.aclose()
