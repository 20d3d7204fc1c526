"""The producers' side of the lanes in a queue actor."""

import asyncio
import random
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from ..messages.codec import Frame
from ..messages.control import LaneAddress
from ..messages.items import Stamp, TerminalItem
from .remote import Handle, UnreachableError, call, find
from .stream.lane_port import Flow, PushReply
from .stream.lanes import Bounds
from .stream.shared_lanes import Push, SharedLanes
from .stream.tracking import Ending, Standing

PART: Final = "stream queue"

_RETRY_SECONDS: Final = 60.0
"""How long a call is repeated to a queue that is out of reach: a killed one is back within some seconds, on a lost node after Ray's health check."""

_RETRY_PAUSES: Final = (0.05, 0.5)
"""Seconds between the tries, jittered, since all producers of a queue try again together."""

_WAIT_TIMEOUT: Final = 60.0
"""Twice the longest wait of a queue: beyond it the queue hangs."""


class LaneClient:
    """Calls a queue actor by its name; finds it at the first call and keeps the handle."""

    def __init__(self, queue: str, namespace: str) -> None:
        self.queue = queue
        self._namespace = namespace
        self._handle: Handle | None = None
        self._process = uuid.uuid4().hex
        self._shared = SharedLanes(self._push_many, self._wait_for_credit)

    async def push(self, lane: str, frames: Sequence[bytes]) -> PushReply:
        """See `LanePort.push`."""
        return await self._shared.push(lane, frames)

    async def store(self, lane: str, key: str, line: bytes) -> str:
        """See `LanePort.store`."""
        reference: str = await self._call("store", lane, key, line)
        return reference

    async def fetch(self, reference: str) -> bytes | None:
        """Return a large line that this queue keeps."""
        line: bytes | None = await self._call("fetch", reference)
        return line

    async def wait_for_credit(self, lane: str, producer: str) -> PushReply:
        """See `LanePort.wait_for_credit`; the producers of a process wait in one call."""
        return await self._shared.wait_for_credit(lane)

    async def open(self, lane: str, root_run_id: str, bounds: Bounds, upstream: LaneAddress | None) -> None:
        """Make a lane."""
        await self._call("open", lane, root_run_id, bounds, upstream)

    async def get(self, lane: str, max_items: int, max_bytes: int) -> list[bytes]:
        """Take the oldest frames of a lane; none when none came for a while."""
        frames: list[bytes] = await self._call("get", lane, max_items, max_bytes)
        return frames

    async def set_flow(self, root_run_id: str, flow: Flow) -> None:
        """Change what the full buffers of a tree do."""
        await self._call("set_flow", root_run_id, flow)

    async def drop(self, root_run_id: str) -> None:
        """Forget a tree."""
        await self._call("drop", root_run_id)

    async def let_holes_pass(self, root_run_ids: Sequence[str]) -> None:
        """Take items of trees that lost another queue."""
        await self._call("let_holes_pass", root_run_ids)

    async def greet(self) -> None:
        """Make the connection, so that the first push does not wait for it."""
        await self._call("lanes")

    async def settled(self, lane: str) -> None:
        """Return when what the lane holds now was accepted by its parent's lane."""
        while not await self._call("settled", lane):
            pass

    async def standing(self, stamp: Stamp, lane: str, *, seal: bool) -> Standing:
        """Return how far an attempt of a run has come through the lane; with `seal`, nothing more is taken of what it says itself."""
        standing: Standing = await self._call("standing", stamp, lane, seal)
        return standing

    async def end_of(self, stamp: Stamp, lane: str) -> TerminalItem | None:
        """Return the terminal item of a run, if the lane has it."""
        data: bytes | None = await self._call("end_of", stamp, lane)
        if data is None:
            return None
        frame = Frame.from_bytes(data)
        large = await fetch_large([frame], lambda queue: LaneClient(queue, self._namespace))
        [item] = frame.items(large)
        return item if isinstance(item, TerminalItem) else None

    async def thin(self, lane: str) -> None:
        """Let what came through the lane wait for no reader any more."""
        await self._call("thin", lane)

    async def close(self, stamp: Stamp, lane: str, ending: Ending, *, known_only: bool = False) -> None:
        """Finish a run that can't do it itself."""
        await self._call("close", stamp, lane, ending, known_only)

    async def _push_many(self, pushes: Sequence[Push]) -> Sequence[PushReply | Exception]:
        replies: Sequence[PushReply | Exception] = await self._call("push_many", pushes)
        return replies

    async def _wait_for_credit(self, lane: str) -> PushReply:
        reply: PushReply = await self._call("wait_for_credit", lane, self._process)
        return reply

    async def _call(self, method: str, *args: Any) -> Any:
        """Call a method; again if the queue is out of reach for a moment. Every call may be repeated: frames are numbered, the rest is idempotent."""
        handle = self._handle or await self._actor()
        deadline = asyncio.get_running_loop().time() + _RETRY_SECONDS
        while True:
            try:
                return await call(handle, method, *args, part=PART, timeout=_WAIT_TIMEOUT)
            except UnreachableError:
                if asyncio.get_running_loop().time() >= deadline:
                    raise
                await asyncio.sleep(random.uniform(*_RETRY_PAUSES))

    async def _actor(self) -> Handle:
        self._handle = await find(self.queue, self._namespace, PART)
        return self._handle


class QueueClients:
    """The queue actors a process talks to, by name."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._clients: dict[str, LaneClient] = {}

    def __getitem__(self, queue: str) -> LaneClient:
        client = self._clients.get(queue)
        if client is None:
            client = self._clients[queue] = LaneClient(queue, self._namespace)
        return client


async def fetch_large(frames: Iterable[Frame], client: Callable[[str], LaneClient]) -> dict[str, bytes]:
    """Return the large lines that frames refer to, by reference.

    Args:
        frames: What was taken from a lane.
        client: Finds a queue by its name.
    """
    found: dict[str, bytes] = {}
    for frame in frames:
        for reference in frame.references():
            line = await client(reference.partition("|")[0]).fetch(reference)
            if line is not None:
                found[reference] = line
    return found
