"""The driver's side of one tree: the call of its root, the driver's lane, and who still wants what."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from ..messages.codec import Frame
from ..messages.control import Admitted
from ..messages.errors import RuntimeUnavailableError
from ..messages.result import RunResult
from .lane_client import PART, QueueClients, fetch_large
from .remote import Handle, call
from .stream.lane_port import Flow

_TAKE_ITEMS = 2048
_TAKE_BYTES = 512 * 1024
_TAKE_TIMEOUT = 60.0


class Taken(NamedTuple):
    """What came of the driver's lane at once."""

    frames: list[bytes]
    """In order."""
    large: dict[str, bytes]
    """Lines of large items, by the references in the frames."""


class Session:
    """What a Runtime keeps of a tree, also after the user let go of the handle."""

    def __init__(
        self,
        admitted: Admitted,
        queues: Sequence[Handle],
        clients: QueueClients,
        lane_queue: Handle,
        flow: Flow,
        call: "asyncio.Task[RunResult]",
        on_reader_gone: Callable[[], Awaitable[object]] | None,
    ) -> None:
        self.admitted = admitted
        self.run_id = admitted.stamp.run_id
        self.call = call
        self._queues = queues
        self._clients = clients
        self._lane_queue = lane_queue
        self._flow: Flow = flow
        self._given_flow: Flow = flow
        self._on_reader_gone = on_reader_gone
        self._loop = asyncio.get_running_loop()
        self._gone: asyncio.Task[None] | None = None

    async def take(self) -> "Taken":
        """Return the next frames of the driver's lane, with the large items they refer to; none when none came for a while."""
        lane = self.admitted.lane.lane
        frames: list[bytes] = await call(
            self._lane_queue, "get", lane, _TAKE_ITEMS, _TAKE_BYTES, part=PART, timeout=_TAKE_TIMEOUT
        )
        large = await fetch_large(map(Frame.from_bytes, frames), self._clients.__getitem__)
        return Taken(frames, large)

    async def collapse(self) -> None:
        """Somebody waits for the end and nobody reads: full buffers drop deltas instead of holding up the tree."""
        if self._given_flow == "block":
            await self._set_flow("collapse")

    async def resume(self) -> None:
        """Somebody reads again."""
        if self._flow == "collapse":
            await self._set_flow(self._given_flow)

    def reader_gone(self) -> None:
        """The handle was closed or collected: nobody will read any more. May be called from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._start_going)

    async def drop(self) -> None:
        """Forget the tree's lanes."""
        for queue in self._queues:
            await call(queue, "drop", self.run_id, part=PART)

    def _start_going(self) -> None:
        if self._gone is None:
            self._gone = self._loop.create_task(self._go())

    async def _go(self) -> None:
        # Nobody waits for this: if the Runtime is closed meanwhile, its queues are gone and there is nothing left to free.
        with contextlib.suppress(RuntimeUnavailableError):
            if not self.call.done():
                await self._set_flow("void")
                if self._on_reader_gone is not None:
                    await self._on_reader_gone()
                await asyncio.wait({self.call})
            await self.drop()

    async def _set_flow(self, flow: Flow) -> None:
        self._flow = flow
        for queue in self._queues:
            await call(queue, "set_flow", self.run_id, flow, part=PART)
