"""Queues that are lost while a tree runs, without Ray: any tree, any moment, any number of times, over one queue or two."""

import asyncio
import random
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from runtree.actors.stream.emitter import Emitter
from runtree.actors.stream.lane_port import Flow
from runtree.actors.stream.lanes import Bounds, Lanes
from runtree.actors.stream.mending import end_of_result
from runtree.actors.stream.reader import FrameReader
from runtree.actors.stream.tracking import Ending
from runtree.messages.codec import Frame
from runtree.messages.failure import Failure
from runtree.messages.items import RunCompleted, RunStarted, Stamp, ToolCallCompleted, ToolCallStarted
from runtree.messages.result import AttemptRecord, RunRecord, RunResult
from tests.kit.lanes import LIMIT, ROOT, Queue, frame, say, soon, stamp
from tests.kit.stream_check import check_stream, ends_of, lost

DRIVER = f"driver:{ROOT}"


class Mortal(Queue):
    """A queue that can be lost; whoever calls it then waits until it is filled again, as a `LaneClient` does."""

    def __init__(self, name: str, queues: dict[str, Queue]) -> None:
        super().__init__(name, queues)
        self.up = asyncio.Event()
        self.up.set()

    async def ready(self) -> None:
        """Wait until it is filled."""
        while not self.up.is_set():
            await self.up.wait()

    async def push(self, lane: str, frames: Any) -> Any:
        while True:
            await asyncio.sleep(0)
            await self.ready()
            lanes = self.lanes
            reply = lanes.push(lane, frames)
            await asyncio.sleep(0)
            if lanes is self.lanes:
                return reply

    async def wait_for_credit(self, lane: str, producer: str) -> Any:
        while True:
            await self.ready()
            lanes = self.lanes
            reply = await super().wait_for_credit(lane, producer)
            if lanes is self.lanes:
                return reply

    async def settled(self, lane: str) -> None:
        settled = False
        while not settled:
            await self.ready()
            lanes = self.lanes
            relay = self.relays.get(id(lanes.buffer(lane)))
            settled = (relay is None or await relay.settled(0.01)) and lanes is self.lanes

    async def lose(self) -> None:
        """Forget everything."""
        self.up.clear()
        old, self.lanes = self.lanes, Lanes(self.name)
        for buffer in old.drop(ROOT):
            buffer.room.notify()
        await self.aclose()
        self.relays.clear()


@dataclass
class Place:
    """A lane in a queue."""

    queue: Mortal
    lane: str


class Tree:
    """A tree of runs that talk, call each other, and die; with the driver's part in it."""

    def __init__(self, seed: int, queues: int, flow: Flow) -> None:
        self.dice = random.Random(seed)
        known: dict[str, Queue] = {}
        self.queues = [Mortal(f"queue{n}", known) for n in range(queues)]
        self.bounds = Bounds(self.dice.choice((4, 64)), 100_000, flow)
        self.home = Place(self.queues[0], DRIVER)
        self.home.queue.open(DRIVER, ROOT, self.bounds)
        self.lanes: list[tuple[Place, Place]] = []
        self.ledger: dict[str, RunRecord] = {}
        self.holed = False
        self.pause = self.dice.choice((2, 8, 400))
        self.items: list[Any] = []
        self.reader = FrameReader()
        self.done: asyncio.Task[None] | None = None

    async def play(self, losses: int) -> list[Any]:
        root = stamp(ROOT)
        self.done = asyncio.create_task(self.run(root, self.home))
        killing = asyncio.create_task(self.kill(losses))
        try:
            async with asyncio.timeout(LIMIT):
                await self.read()
                await killing
                await self.done
        finally:
            for task in (killing, self.done):
                task.cancel()
            for queue in self.queues:
                await queue.aclose()
        return self.items

    async def run(self, who: Stamp, home: Place) -> None:
        """One run to its end, over some attempts, as its processes and its caller do it."""
        while not await self.attempt(who, home):
            who = who.model_copy(update={"attempt": who.attempt + 1})

    async def attempt(self, who: Stamp, home: Place) -> bool:
        """Returns False if it was lost and another one follows."""
        emitter = Emitter(who, home.queue, home.lane)
        own: list[Place] = []
        call_id = f"call-{who.run_id}" if who.depth else None
        emitter.emit(RunStarted, agent="agent", call_id=call_id)
        self.note(who, "running")
        fate = self.dice.random() if who.depth else 1.0
        await say(emitter, self.dice.randrange(30))
        if who.depth < 3 and self.dice.random() < 0.8:
            own.append(self.own_lane(who, home))
            await own[0].queue.ready()
            own[0].queue.open(own[0].lane, ROOT, self.bounds, (home.queue, home.lane))
            await emitter.switch(own[0].queue, own[0].lane)
            await asyncio.gather(*(self.child(who, emitter, own[0], n) for n in range(self.dice.randrange(1, 3))))
        await say(emitter, self.dice.randrange(30))
        if fate < 0.3:
            again = who.attempt < 3 and self.dice.random() < 0.6
            await self.die(who, home, emitter, own, again=again)
            return not again
        emitter.emit(RunCompleted, output=who.run_id)
        await emitter.flush()
        for place in own:
            await place.queue.settled(place.lane)
        self.note(who, "completed", emitter.next_seq - 1)
        await emitter.aclose()
        return True

    def own_lane(self, who: Stamp, home: Place) -> Place:
        """A run keeps its lane over its attempts."""
        for place, _ in self.lanes:
            if place.lane == who.run_id:
                return place
        place = Place(self.dice.choice(self.queues), who.run_id)
        self.lanes.append((place, home))
        return place

    async def die(self, who: Stamp, home: Place, emitter: Emitter, own: list[Place], *, again: bool) -> None:
        emitter.emit(ToolCallStarted, call_id="open", tool_name="tool")
        if self.dice.random() < 0.5:
            await emitter.flush()
        await emitter.aclose()
        self.note(who, "running" if again else "failed")
        if again:
            lost_attempts = (
                *self.ledger[who.run_id].lost_attempts,
                AttemptRecord(attempt=who.attempt, reason="killed"),
            )
            self.ledger[who.run_id] = self.ledger[who.run_id].model_copy(
                update={"attempt": who.attempt + 1, "lost_attempts": lost_attempts}
            )
        ending = Ending(cancelled=False, reason="killed", again=again)
        for place in own:
            await place.queue.ready()
            if place.queue is not home.queue:
                place.queue.close(who, place.lane, ending, known_only=True)
                await place.queue.settled(place.lane)
        await home.queue.ready()
        home.queue.close(who, home.lane, ending)

    async def child(self, who: Stamp, emitter: Emitter, lane: Place, number: int) -> None:
        child = stamp(f"{who.run_id}.{who.attempt}{number}", who)
        call = {"call_id": f"call-{child.run_id}", "tool_name": "agent"}
        emitter.emit(ToolCallStarted, **call)
        await self.run(child, lane)
        emitter.emit(ToolCallCompleted, **call, outcome="ok", child_run_id=child.run_id)

    def note(self, who: Stamp, status: Any, last_seq: int | None = None) -> None:
        ended = None if status == "running" else 1.0
        error = Failure(code="lost", message="killed") if status == "failed" else None
        before = self.ledger.get(who.run_id)
        self.ledger[who.run_id] = RunRecord(
            **dict(who),
            agent="agent",
            status=status,
            ended=ended,
            last_seq=last_seq,
            error=error,
            lost_attempts=() if before is None else before.lost_attempts,
            parent_attempt=int(who.run_id[-2]) if who.depth else 1,
        )

    async def kill(self, losses: int) -> None:
        """Lose queues at random moments, and fill them again as their driver does."""
        for _ in range(losses):
            for _ in range(self.dice.randrange(120)):
                await asyncio.sleep(0)
            queue = self.dice.choice(self.queues)
            await queue.lose()
            for _ in range(self.dice.randrange(20)):
                await asyncio.sleep(0)
            self.holed = True
            for each in self.queues:
                each.lanes.let_holes_pass([ROOT])
            if queue is self.home.queue:
                queue.open(DRIVER, ROOT, self.bounds)
            for place, upstream in self.lanes:
                if place.queue is queue:
                    queue.open(place.lane, ROOT, self.bounds, (upstream.queue, upstream.lane))
            queue.up.set()
            await self.tell_end()

    async def tell_end(self) -> None:
        assert self.done is not None
        if self.holed and self.done.done() and self.home.queue.lanes.end_of(stamp(ROOT), DRIVER) is None:
            end = end_of_result(
                stamp(ROOT), RunResult(run_id=ROOT, status="completed"), self.ledger[ROOT].last_seq or 0
            )
            await self.home.queue.push(DRIVER, [Frame.of_items([end]).to_bytes()])

    async def read(self) -> None:
        assert self.done is not None
        self.done.add_done_callback(lambda _: asyncio.ensure_future(self.tell_end()))
        while not self.items or self.items[-1].run_id != ROOT or self.items[-1].kind != "run_completed":
            await self.home.queue.ready()
            taken = self.home.queue.lanes.buffer(DRIVER).take(self.dice.randrange(1, 64), 100_000)
            frames = [frame.to_bytes() for frame in taken]
            ledger = {**self.ledger} if self.holed else None
            self.items.extend(self.reader.read(frames, {}, ledger))
            for _ in range(self.dice.randrange(self.pause)):
                await asyncio.sleep(0)


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 2**32),
    queues=st.integers(1, 2),
    losses=st.integers(0, 4),
    flow=st.sampled_from(["block", "drop_oldest"]),
)
def test_d2_d3_d4_any_tree_any_loss(seed: int, queues: int, losses: int, flow: Flow) -> None:
    async def play() -> None:
        tree = Tree(seed, queues, flow)
        items = await soon(tree.play(losses))
        check_stream(items)
        assert set(ends_of(items)) == set(tree.ledger)
        for run_id, end in ends_of(items).items():
            assert end.kind == f"run_{tree.ledger[run_id].status}"
        if not losses:
            assert lost(items) == 0

    asyncio.run(play())


def test_s7_nobody_is_certain_of_what_a_lost_queue_knew() -> None:
    """Which calls of a run are open decides whether it may be started again: a queue that is new to the run must not say that none is."""
    lanes = Lanes("queue")
    lanes.open(DRIVER, ROOT, Bounds())
    root, later = stamp(ROOT), stamp("later", stamp(ROOT))
    assert lanes.standing(root, DRIVER, seal=False).certain
    lanes.let_holes_pass([ROOT])
    assert not lanes.standing(root, DRIVER, seal=False).certain
    lanes.push(DRIVER, [frame(root, 7, 9).to_bytes(), frame(later, 0, 3).to_bytes()])
    assert not lanes.standing(root, DRIVER, seal=False).certain
    assert lanes.standing(later, DRIVER, seal=False).certain
