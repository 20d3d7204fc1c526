"""Queues in this process: what a StreamQueue actor puts around `Lanes`, with a wire that delays, repeats and refuses."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runtree.actors.stream.buffer import Buffer
from runtree.actors.stream.emitter import Emitter
from runtree.actors.stream.lane_port import Flow, PushReply
from runtree.actors.stream.lanes import Bounds, Lanes
from runtree.actors.stream.reader import FrameReader
from runtree.actors.stream.relay import Relay
from runtree.actors.stream.tracking import Ending
from runtree.messages.codec import Frame
from runtree.messages.control import LaneAddress
from runtree.messages.errors import InternalError
from runtree.messages.items import DELTA_KINDS, TERMINAL_KINDS, ItemsDropped, Stamp

ROOT = "root"
LIMIT = 20.0
"""Seconds for anything that waits: a stalled test fails, it does not hang."""


def stamp(run_id: str, parent: "Stamp | None" = None, attempt: int = 1) -> Stamp:
    """Return the stamp of a run; without a parent that of a root."""
    return Stamp(
        run_id=run_id,
        parent_run_id=None if parent is None else parent.run_id,
        root_run_id=run_id if parent is None else parent.root_run_id,
        depth=0 if parent is None else parent.depth + 1,
        attempt=attempt,
    )


class Wire:
    """What happens to pushes on their way. The default does nothing to them.

    Args:
        seed: Decides what happens; the same seed does the same.
        delay: Up to so many turns of the event loop before and after each push.
        repeats: Chance that a push is delivered again, now and once more much later.
        refusals: Chance that a push is refused without a look.
    """

    def __init__(self, seed: int = 0, *, delay: int = 0, repeats: float = 0.0, refusals: float = 0.0) -> None:
        self._random = random.Random(seed)
        self._delay, self._repeats, self._refusals = delay, repeats, refusals
        self._old: list[Callable[[], Any]] = []

    async def push(self, lanes: Lanes, lane: str, frames: Sequence[bytes]) -> PushReply:
        """Deliver a push."""
        await self._pause()
        self._repeat_old()
        if self._random.random() < self._refusals:
            return PushReply(0, 1, 1)
        reply = lanes.push(lane, frames)
        if reply.accepted and self._random.random() < self._repeats:
            taken = list(frames[: reply.accepted])
            assert lanes.push(lane, taken).accepted == reply.accepted
            self._old.append(lambda: lanes.push(lane, taken))
        await self._pause()
        return reply

    def _repeat_old(self) -> None:
        if self._old and self._random.random() < 0.5:
            again = self._old.pop(self._random.randrange(len(self._old)))
            assert again().accepted, "an old push, repeated, was not taken as known"

    async def _pause(self) -> None:
        for _ in range(self._random.randint(0, self._delay)):
            await asyncio.sleep(0)


class Queue:
    """One queue, as producers and readers see it."""

    def __init__(self, name: str, queues: "dict[str, Queue] | None" = None, wire: Wire | None = None) -> None:
        self.name = name
        self.lanes = Lanes(name)
        self.wire = wire or Wire()
        self.pushes = 0
        self.large: dict[str, bytes] = {}
        self.relays: dict[int, Relay] = {}
        self._queues: dict[str, Queue] = {} if queues is None else queues
        self._queues[name] = self

    async def push(self, lane: str, frames: Sequence[bytes]) -> PushReply:
        """See `LanePort`."""
        self.pushes += 1
        await asyncio.sleep(0)
        return await self.wire.push(self.lanes, lane, frames)

    async def store(self, lane: str, key: str, line: bytes) -> str:
        """See `EmitterPort`."""
        await asyncio.sleep(0)
        reference = f"{self.name}|{self.lanes.root_of(lane)}|{key}"
        self.large[reference] = line
        return reference

    async def wait_for_credit(self, lane: str, producer: str) -> PushReply:
        """See `LanePort`."""
        await asyncio.sleep(0)
        try:
            buffer = self.lanes.buffer(lane)
        except InternalError:
            return PushReply(0, 0, 0, fenced=True)
        credit = buffer.credit()
        if credit.items > 0 and credit.bytes > 0:
            return credit
        await buffer.room.wait(LIMIT)
        return buffer.credit()

    def open(self, lane: str, root: str, bounds: Bounds, upstream: "tuple[Queue, str] | None" = None) -> None:
        """Make a lane, and its relay if it needs one."""
        address = None if upstream is None else LaneAddress(queue=upstream[0].name, lane=upstream[1])
        relayed = self.lanes.open(lane, root, bounds, address)
        if relayed is not None and upstream is not None:
            self.relays[id(relayed)] = Relay(relayed, upstream[0], upstream[1], lane)

    async def settled(self, lane: str) -> None:
        """Return when the lane holds nothing any more that it holds now."""
        relay = self.relays.get(id(self.lanes.buffer(lane)))
        if relay is not None:
            assert await relay.settled(LIMIT), f"lane {lane} did not settle"

    def close(self, owner: Stamp, lane: str, ending: Ending, *, known_only: bool = False) -> None:
        """See `Lanes.close`."""
        self.lanes.close(owner, lane, ending, known_only=known_only)

    def set_flow(self, flow: Flow, root: str = ROOT) -> None:
        """See `Lanes.set_flow`."""
        self.lanes.set_flow(root, flow)

    async def aclose(self) -> None:
        """End the relays."""
        for relay in self.relays.values():
            await relay.aclose()


class Reader:
    """Reads a lane at its own pace."""

    def __init__(self, buffer: Buffer, seed: int = 0, *, max_items: int = 2048, pause: int = 0) -> None:
        self.items: list[Any] = []
        self.large: Mapping[str, bytes] = {}
        self._buffer = buffer
        self._frames = FrameReader()
        self._random = random.Random(seed)
        self._max_items, self._pause = max_items, pause

    def take(self) -> int:
        """Read what is there, up to `max_items`; returns how many items came."""
        before = len(self.items)
        frames = self._buffer.take(self._random.randint(1, self._max_items), 1_000_000)
        self.items.extend(self._frames.read([frame.to_bytes() for frame in frames], self.large))
        return len(self.items) - before

    def drain(self) -> list[Any]:
        """Read everything that is there; returns all items up to now."""
        while self.take():
            pass
        return self.items

    async def until_end_of(self, run_id: str) -> list[Any]:
        """Read until a run's terminal item came."""
        async with asyncio.timeout(LIMIT):
            while not any(item.run_id == run_id and item.kind in TERMINAL_KINDS for item in self.items):
                if not self.take():
                    await self._buffer.wait_for_data(LIMIT)
                for _ in range(self._random.randint(0, self._pause)):
                    await asyncio.sleep(0)
        return self.items


async def soon(awaitable: Any) -> Any:
    """Await something that must not take long."""
    async with asyncio.timeout(LIMIT):
        return await awaitable


async def say(emitter: Emitter, count: int, start: int = 0) -> None:
    """Emit numbered deltas, as a model would."""
    for number in range(start, start + count):
        emitter.emit_delta("model_delta", text=f"{number} ")
        await emitter.ready()


def frame(owner: Stamp, first: int, last: int) -> Frame:
    """Return a frame of deltas."""
    line = b'{"kind":"model_delta","seq":%d,"time":1.0,"text":"%d "}'
    return Frame.of(owner, first, last, [line % (seq, seq) for seq in range(first, last + 1)], [])


def by_run(items: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the items of each run and attempt."""
    runs: dict[str, list[Any]] = {}
    for item in items:
        runs.setdefault(f"{item.run_id}/{item.attempt}", []).append(item)
    return runs


def check_dense(items: Sequence[Any], *, lossless: bool = False) -> None:
    """Check D1 and D2: each run's numbers from 0, in order, each once, gaps marked."""
    for run, own in by_run(items).items():
        numbers: list[int] = []
        for item in own:
            if isinstance(item, ItemsDropped):
                assert not lossless, f"{run} lost {item.first_seq} to {item.last_seq}"
                assert item.count == item.last_seq - item.first_seq + 1
                numbers += range(item.first_seq, item.last_seq + 1)
            else:
                numbers.append(item.seq)
        assert numbers == list(range(len(numbers))), f"{run}: {numbers}"


def check_ends(items: Sequence[Any]) -> None:
    """Check D4 and D3: one terminal item each, behind all of the run and of those below it; one completion for each call."""
    last: dict[str, int] = {item.run_id: index for index, item in enumerate(items)}
    parents = {item.run_id: item.parent_run_id for item in items}
    for run_id, index in last.items():
        own = [item for item in items if item.run_id == run_id]
        ends = [item for item in own if item.kind in TERMINAL_KINDS]
        assert len(ends) == 1, f"{run_id} has {len(ends)} terminal items"
        assert items[index] is ends[0], f"{run_id} speaks after its end"
        parent = parents[run_id]
        if parent in last:
            assert index < last[parent], f"{run_id} ends after its parent {parent}"
        for attempt in {item.attempt for item in own}:
            said = [item for item in own if item.attempt == attempt]
            for kind in ("tool_call_started", "tool_call_completed"):
                calls = [item.call_id for item in said if item.kind == kind]
                assert len(calls) == len(set(calls)), f"{run_id}/{attempt}: {kind} twice in {calls}"
            started = {item.call_id for item in said if item.kind == "tool_call_started"}
            assert started == {item.call_id for item in said if item.kind == "tool_call_completed"}, run_id
            assert (said[-1].kind == "attempt_discarded") == (attempt < own[-1].attempt), (
                f"{run_id}/{attempt} ends wrong"
            )
        numbers = [item.attempt for item in own]
        assert numbers == sorted(numbers), f"{run_id}: an older attempt speaks after a newer one"


def kept(items: Sequence[Any]) -> list[Any]:
    """Return the items that are never dropped."""
    return [item for item in items if item.kind not in DELTA_KINDS | {"items_dropped"}]
