"""Trees whose lanes are in several queues: order and ends hold as in one (D3, D4, X11)."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtree.actors.stream.buffer import Buffer
from runtree.actors.stream.lane_port import PushReply
from runtree.actors.stream.lanes import Bounds
from runtree.actors.stream.relay import Relay
from runtree.messages import RunCompleted, Stamp
from runtree.messages.codec import Frame
from runtree.messages.errors import InternalError, RuntimeUnavailableError

from ..kit.lanes import LIMIT, ROOT, Queue, Reader, Wire, check_dense, check_ends, frame, soon, stamp
from .test_close import LANE, LOST, ROOT_STAMP, scripts

pytestmark = pytest.mark.anyio


class Spread:
    """The lanes of a scripted tree, dealt out to queues; each run's items take the way they would take from its process."""

    def __init__(self, steps: list[Any], deal: list[int], wire: Wire) -> None:
        self.queues: dict[str, Queue] = {}
        names = [Queue(f"q{number}", self.queues, wire).name for number in range(3)]
        self.stamps: dict[str, Stamp] = {own.run_id: own for own, *_ in steps}
        self.home = {LANE: "q0"} | {
            run_id: names[deal[index % len(deal)]] for index, run_id in enumerate(sorted(self.stamps))
        }
        self.opened = {LANE}
        self.queue(LANE).open(LANE, ROOT, Bounds())
        self.numbers: dict[str, int] = {}
        self.reader = Reader(self.queue(LANE).lanes.buffer(LANE))

    def queue(self, lane: str) -> Queue:
        return self.queues[self.home[lane]]

    def parent_lane(self, own: Stamp) -> str:
        return own.parent_run_id or LANE

    def open(self, lane: str) -> None:
        if lane not in self.opened:
            up = self.parent_lane(self.stamps[lane])
            self.queue(lane).open(lane, ROOT, Bounds(), (self.queue(up), up))
            self.opened.add(lane)

    async def say(self, own: Stamp, lane: str, item_type: Any, fields: dict[str, Any]) -> None:
        self.open(lane)
        seq = self.numbers[own.run_id] = self.numbers.get(own.run_id, -1) + 1
        said = Frame.of_items([item_type(**dict(own), seq=seq, time=1.0, **fields)])
        await self.queue(lane).push(lane, [said.to_bytes()])
        ended = item_type.__name__ == "RunCompleted"
        if ended and lane == own.run_id:
            await self.queue(lane).settled(lane)

    async def close(self, lost: Stamp) -> None:
        """As the caller of a lost run does it: the lanes of its sub-tree, deepest first, then the lane it was called for."""
        below = [run for run in self.stamps.values() if self._is_below(run, lost)]
        for run in sorted(below, key=lambda run: -run.depth):
            if run.run_id in self.opened:
                self.queue(run.run_id).close(lost, run.run_id, LOST, known_only=True)
                await self.queue(run.run_id).settled(run.run_id)
        lane = self.parent_lane(lost)
        if lane in self.opened:
            self.queue(lane).close(lost, lane, LOST)

    def _is_below(self, run: Stamp, top: Stamp) -> bool:
        while run.run_id != top.run_id:
            if run.parent_run_id is None:
                return False
            run = self.stamps[run.parent_run_id]
        return True


@settings(max_examples=60)
@given(scripts(), st.lists(st.integers(0, 2), min_size=1, max_size=4), st.integers(0, 99), st.data())
def test_d4_whatever_is_lost_whenever_everything_ends_once(
    steps: list[Any], deal: list[int], seed: int, data: st.DataObject
) -> None:
    async def main() -> None:
        tree = Spread(steps, deal, Wire(seed, delay=3, repeats=0.2))
        cut = data.draw(st.integers(1, len(steps)))
        for step in steps[:cut]:
            await tree.say(*step)
        lost = tree.stamps[data.draw(st.sampled_from(sorted(run for run in tree.numbers)))]
        await tree.close(lost)
        await tree.close(ROOT_STAMP)
        items = await soon(tree.reader.until_end_of(ROOT))
        check_dense(items, lossless=True)
        check_ends(items)
        assert {item.run_id for item in items} == set(tree.numbers)
        for queue in tree.queues.values():
            await queue.aclose()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


class Refusing:
    """A port that takes nothing."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.waits = 0
        self.waiting = asyncio.Event()
        self._fault = fault

    async def push(self, lane: str, frames: Any) -> PushReply:
        del lane, frames
        if self._fault is not None:
            raise self._fault
        return PushReply(0, 0, 0)

    async def wait_for_credit(self, lane: str, producer: str) -> PushReply:
        del lane, producer
        self.waits += 1
        self.waiting.set()
        await asyncio.Event().wait()
        raise AssertionError


async def test_a_relay_that_is_ended_while_it_waits_leaves_no_task() -> None:
    before = asyncio.all_tasks()
    buffer = Buffer(10, 1000)
    port = Refusing()
    relay = Relay(buffer, port, LANE, "lane")
    buffer.offer(frame(ROOT_STAMP, 0, 3))
    await soon(port.waiting.wait())
    await soon(relay.aclose())
    assert asyncio.all_tasks() == before
    assert (buffer.items, len(buffer)) == (4, 1), "what was not relayed stays"


@pytest.mark.parametrize("fault", [RuntimeUnavailableError("queue", "gone", ""), KeyError("a bug")])
async def test_d9_nothing_waits_for_a_relay_whose_lane_is_out_of_reach(fault: Exception) -> None:
    buffer = Buffer(4, 1000)
    relay = Relay(buffer, Refusing(fault), LANE, "lane")
    buffer.offer(frame(ROOT_STAMP, 0, 3))
    with pytest.raises(RuntimeUnavailableError if isinstance(fault, RuntimeUnavailableError) else InternalError):
        await soon(relay.settled(LIMIT))
    assert buffer.offer(frame(stamp("other"), 0, 3)), "producers do not wait behind it either"
    await soon(relay.aclose())


async def test_settled_takes_no_longer_than_it_is_given() -> None:
    buffer = Buffer(4, 1000)
    relay = Relay(buffer, Refusing(), LANE, "lane")
    buffer.offer(frame(ROOT_STAMP, 0, 3))
    assert not await soon(relay.settled(0.01))
    await soon(relay.aclose())


async def test_c06_a_relay_of_a_cancelled_run_waits_for_no_reader() -> None:
    """Deltas that find no room above are dropped; all else is there at once."""
    queues: dict[str, Queue] = {}
    home, far = Queue("home", queues), Queue("far", queues)
    home.open(LANE, ROOT, Bounds(items=3))
    far.open("inner", ROOT, Bounds(), (home, LANE))
    inner = stamp("inner", ROOT_STAMP)
    await far.push("inner", [frame(inner, 0, 5).to_bytes(), frame(inner, 6, 9).to_bytes()])
    settling = asyncio.ensure_future(far.settled("inner"))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not settling.done()
    (relay,) = far.relays.values()
    relay.thin()
    await soon(settling)
    for seq in range(10, 20):
        await far.push("inner", [frame(inner, seq, seq).to_bytes()])
    await far.push("inner", [Frame.of_items([RunCompleted(**dict(inner), seq=20)]).to_bytes()])
    await soon(far.settled("inner"))
    items = Reader(home.lanes.buffer(LANE)).drain()
    check_dense(items)
    assert [item.seq for item in items[:3]] == [0, 1, 2]
    assert items[-1].kind == "run_completed"
    await far.aclose()
