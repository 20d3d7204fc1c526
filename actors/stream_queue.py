"""The StreamQueue actor: the lanes of parents behind remote calls.

Its state lives on the loop of the default group, where pushes arrive; calls that wait have groups of their own, whose loops hop there. No call
waits longer than `POLL_SECONDS`.
"""

import asyncio
import random
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from ..messages.control import LaneAddress
from ..messages.errors import InternalError, RuntreeError
from ..messages.items import Stamp
from .lane_client import QueueClients
from .metrics import PUBLISH_SECONDS, QueueMetrics
from .remote import UnreachableError, in_group, put
from .stream.buffer import Buffer
from .stream.lane_port import Flow, PushReply
from .stream.lanes import Bounds, Lanes, Opening
from .stream.relay import Relay
from .stream.shared_lanes import Push
from .stream.signal import Signal
from .stream.tracking import Ending, Standing

POLL_SECONDS: Final = (20.0, 30.0)
"""A waiting call answers empty after a random time between these: whoever died asking does not occupy a slot for ever."""

GROUPS: Final = {"wait": 12_000, "read": 2_000, "control": 100}
"""Slots for waiting producers, for readers, and for what must always get through."""

_Result = TypeVar("_Result")


def poll_seconds() -> float:
    """Return how long a waiting call may wait; jittered, so that a thousand do not come back at once."""
    return random.uniform(*POLL_SECONDS)


class StreamQueue:
    """The actor. Its driver calls `start` first, and again when Ray had to start it again, empty: until then every other call is told to try again."""

    def __init__(self, name: str, namespace: str) -> None:
        self._name = name
        self._lanes = Lanes(name)
        self._large: dict[str, dict[str, Awaitable[bytes]]] = {}
        """Large lines by tree and key."""
        self._namespace = namespace
        self._home: asyncio.AbstractEventLoop | None = None
        self._queues = QueueClients(namespace)
        self._relays: dict[int, Relay] = {}
        self._producers: dict[tuple[str, str], Signal] = {}
        self._publishing: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        # Ray shows it in its dashboard and before each line the actor logs.
        return self._name

    async def start(self, lanes: Sequence[Opening] = ()) -> None:
        """Make the loop of the default group the home of the state, and begin.

        Args:
            lanes: What live trees had here before the process was lost, upstream lanes first.
        """
        self._home = asyncio.get_running_loop()
        if self._publishing is None:
            self._publishing = self._home.create_task(self._publish())
        self._lanes.let_holes_pass(opening.root_run_id for opening in lanes)
        for opening in lanes:
            await self.open(opening.lane, opening.root_run_id, opening.bounds, opening.upstream)

    @in_group("read")
    async def watch(self) -> bool:
        """Wait for a while; False at once if the state is gone and `start` is due."""
        if self._home is None:
            return False
        await asyncio.sleep(poll_seconds())
        return True

    @in_group("control")
    async def let_holes_pass(self, root_run_ids: Sequence[str]) -> None:
        """Take items of trees that lost another queue; see `Lanes.let_holes_pass`."""

        async def let_pass() -> None:
            self._lanes.let_holes_pass(root_run_ids)

        await self._at_home(let_pass())

    async def push(self, lane: str, frames: Sequence[bytes]) -> PushReply:
        """Offer frames; see `LanePort.push`."""
        self._check_home()
        return self._lanes.push(lane, frames)

    async def push_many(self, pushes: Sequence[Push]) -> list[PushReply | RuntreeError]:
        """Take what several producers of a process push at the same time, each into its lane; answers each."""
        self._check_home()
        return [self._push(lane, frames) for lane, frames in pushes]

    async def store(self, lane: str, key: str, line: bytes) -> str:
        """Keep a large line in Ray's object store, which may spill it to disk, and not in this process; see `LanePort.store`."""
        self._check_home()
        root_run_id = self._lanes.root_of(lane)
        if root_run_id is not None:
            self._large.setdefault(root_run_id, {})[key] = await asyncio.to_thread(put, line)
        return f"{self._name}|{root_run_id}|{key}"

    async def open(self, lane: str, root_run_id: str, bounds: Bounds, upstream: LaneAddress | None = None) -> None:
        """Make a lane; does nothing if it exists."""
        self._check_home()
        relayed = self._lanes.open(lane, root_run_id, bounds, upstream)
        if relayed is not None and upstream is not None:
            self._relays[id(relayed)] = Relay(relayed, self._queues[upstream.queue], upstream.lane, producer=lane)

    @in_group("wait")
    async def wait_for_credit(self, lane: str, producer: str) -> PushReply:
        """Wait until the lane has room; see `LanePort.wait_for_credit`."""
        return await self._at_home(self._wait_for_credit(lane, producer))

    @in_group("read")
    async def get(self, lane: str, max_items: int, max_bytes: int) -> list[bytes]:
        """Take the oldest frames of a lane; waits for one to come and answers empty when none does."""
        return await self._at_home(self._get(lane, max_items, max_bytes))

    @in_group("read")
    async def settled(self, lane: str) -> bool:
        """Wait until what the lane holds now was accepted by its parent's lane; False if that takes too long: ask again."""
        return await self._at_home(self._settled(lane))

    @in_group("read")
    async def fetch(self, reference: str) -> bytes | None:
        """Return a large line, `None` if its tree is gone."""
        return await self._at_home(self._fetch(reference))

    @in_group("control")
    async def close(self, stamp: Stamp, lane: str, ending: Ending, known_only: bool = False) -> None:
        """Finish a run that can't; see `Lanes.close`."""

        async def close() -> None:
            self._lanes.close(stamp, lane, ending, known_only=known_only)

        await self._at_home(close())

    @in_group("control")
    async def standing(self, stamp: Stamp, lane: str, seal: bool) -> Standing:
        """Return how far a run has come; see `Lanes.standing`."""

        async def standing() -> Standing:
            return self._lanes.standing(stamp, lane, seal=seal)

        return await self._at_home(standing())

    @in_group("control")
    async def end_of(self, stamp: Stamp, lane: str) -> bytes | None:
        """Return the terminal item of a run, if it has come; see `Lanes.end_of`."""

        async def end_of() -> bytes | None:
            return self._lanes.end_of(stamp, lane)

        return await self._at_home(end_of())

    @in_group("control")
    async def thin(self, lane: str) -> None:
        """Let nothing wait for room that came through this lane: its owner is over."""

        async def thin() -> None:
            relay = self._relay(lane)
            if relay is not None:
                relay.thin()

        await self._at_home(thin())

    @in_group("control")
    async def set_flow(self, root_run_id: str, flow: Flow) -> None:
        """Change what the full buffers of a tree do."""

        async def set_flow() -> None:
            self._lanes.set_flow(root_run_id, flow)

        await self._at_home(set_flow())

    @in_group("control")
    async def drop(self, root_run_id: str) -> None:
        """Forget a tree."""
        await self._at_home(self._drop(root_run_id))

    @in_group("control")
    async def lanes(self) -> int:
        """Return how many lanes there are."""

        async def count() -> int:
            return len(self._lanes)

        return await self._at_home(count())

    def _push(self, lane: str, frames: Sequence[bytes]) -> PushReply | RuntreeError:
        try:
            return self._lanes.push(lane, frames)
        except RuntreeError as error:
            return error

    async def _wait_for_credit(self, lane: str, producer: str) -> PushReply:
        try:
            buffer = self._lanes.buffer(lane)
        except InternalError:
            return PushReply(0, 0, 0, fenced=True)
        if (credit := buffer.credit()).items > 0 and credit.bytes > 0:
            return credit
        await self._wait_alone(buffer.room, (lane, producer))
        return buffer.credit()

    async def _wait_alone(self, signal: Signal, key: tuple[str, str]) -> None:
        """Wait for a signal; a newer wait of the same producer ends this one."""
        older = self._producers.pop(key, None)
        if older is not None:
            older.notify()
        mine = self._producers[key] = Signal()
        waits = {asyncio.ensure_future(signal.wait(poll_seconds())), asyncio.ensure_future(mine.wait(POLL_SECONDS[1]))}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            if self._producers.get(key) is mine:
                del self._producers[key]

    async def _get(self, lane: str, max_items: int, max_bytes: int) -> list[bytes]:
        try:
            buffer = self._lanes.buffer(lane)
        except InternalError:
            return []
        if not len(buffer):
            await buffer.wait_for_data(poll_seconds())
        return [frame.to_bytes() for frame in buffer.take(max_items, max_bytes)]

    async def _fetch(self, reference: str) -> bytes | None:
        _, root_run_id, key = reference.split("|", 2)
        kept = self._large.get(root_run_id, {}).get(key)
        return None if kept is None else await kept

    async def _settled(self, lane: str) -> bool:
        relay = self._relay(lane)
        if relay is None:
            return True
        return await relay.settled(poll_seconds())

    def _relay(self, lane: str) -> Relay | None:
        try:
            return self._relays.get(id(self._lanes.buffer(lane)))
        except InternalError:
            return None

    async def _drop(self, root_run_id: str) -> None:
        self._large.pop(root_run_id, None)
        for buffer in {id(buffer): buffer for buffer in self._lanes.drop(root_run_id)}.values():
            await self._end_relay(buffer)

    async def _end_relay(self, buffer: Buffer) -> None:
        relay = self._relays.pop(id(buffer), None)
        if relay is not None:
            await relay.aclose()

    async def _publish(self) -> None:
        """Let Prometheus see how full the lanes are."""
        metrics = QueueMetrics(self._namespace)
        while True:
            metrics.publish(self._lanes.depth())
            await asyncio.sleep(PUBLISH_SECONDS)

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._home is None:
            raise UnreachableError("stream queue", "it was restarted and is empty still", "Try again")
        return self._home

    def _check_home(self) -> None:
        if asyncio.get_running_loop() is not self._started():
            raise InternalError("the state of a StreamQueue was touched from a foreign event loop")

    async def _at_home(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run work on the home loop, from whatever loop this is called."""
        try:
            home = self._started()
        except UnreachableError:
            work.close()
            raise
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, home))
