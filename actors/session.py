"""The driver's side of one tree: the call of its root, the driver's lane, and who still wants what."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from ..messages.codec import Frame
from ..messages.control import Admitted, LaneAddress
from ..messages.errors import RuntimeUnavailableError
from ..messages.result import RunRecord, RunResult
from .driver_queues import DriverQueues
from .lane_client import LaneClient, fetch_large
from .stream.lane_port import Flow
from .stream.lanes import Bounds
from .stream.mending import end_of_result
from .supervisor_client import SupervisorClient

_TAKE_ITEMS = 2048
_TAKE_BYTES = 512 * 1024


class Taken(NamedTuple):
    """What came of the driver's lane at once."""

    frames: list[bytes]
    """In order."""
    large: dict[str, bytes]
    """Lines of large items, by the references in the frames."""
    ledger: Mapping[str, RunRecord] | None
    """The records of the tree by run id, if it has lost a queue."""


class Session:
    """What a Runtime keeps of a tree, also after the user let go of the handle. `open` comes first, then `follow`."""

    call: "asyncio.Task[RunResult]"

    def __init__(
        self,
        admitted: Admitted,
        queues: DriverQueues,
        supervisor: SupervisorClient,
        bounds: Bounds,
        on_reader_gone: Callable[[], Awaitable[object]] | None,
    ) -> None:
        self.admitted = admitted
        self.run_id = admitted.stamp.run_id
        self._queues = queues
        self._supervisor = supervisor
        self._bounds = bounds
        self._flow: Flow = bounds.flow
        self._on_reader_gone = on_reader_gone
        self._loop = asyncio.get_running_loop()
        self._gone: asyncio.Task[None] | None = None
        self._lost_queue = False
        self._telling: asyncio.Task[None] | None = None

    @property
    def bounds(self) -> Bounds:
        """Size of the tree's buffers, and what they do now when they are full."""
        return replace(self._bounds, flow=self._flow)

    @property
    def home(self) -> LaneAddress:
        """The driver's lane."""
        return self.admitted.lane

    async def open(self) -> None:
        """Make the driver's lane."""
        self._queues.add(self)
        try:
            await self._client.open(self.home.lane, self.run_id, self.bounds, None)
        except BaseException:
            self._queues.remove(self)
            raise

    def follow(self, call: "asyncio.Task[RunResult]") -> None:
        """Take up the call of the root."""
        self.call = call
        call.add_done_callback(lambda _: self.tell_end())

    async def take(self) -> "Taken":
        """Return the next frames of the driver's lane, with what is needed to read them; none when none came for a while."""
        frames = await self._client.get(self.home.lane, _TAKE_ITEMS, _TAKE_BYTES)
        large = await fetch_large(map(Frame.from_bytes, frames), self._queues.clients.__getitem__)
        return Taken(frames, large, await self.ledger() if self._lost_queue and frames else None)

    async def ledger(self) -> dict[str, RunRecord]:
        """Return the records of the tree by run id, as far as they can be had."""
        with contextlib.suppress(RuntimeUnavailableError):
            return {record.run_id: record for record in await self._supervisor.ledger(self.run_id)}
        return {}

    def note_loss(self) -> None:
        """A queue of this driver was lost; its lanes are about to be made anew."""
        self._lost_queue = True

    def tell_end(self) -> None:
        """Tell the end of the root once more, if it has ended and a lost queue may have had what it said."""
        ended = hasattr(self, "call") and self.call.done() and not self.call.cancelled()
        if self._lost_queue and ended and self.call.exception() is None and not self._loop.is_closed():
            self._telling = self._loop.create_task(self._tell_end(self.call.result()))

    def end_of(self, result: RunResult, ledger: Mapping[str, RunRecord], attempt: int = 1) -> Frame:
        """Return the end of the root, as it told it or would have.

        Args:
            result: How it ended.
            ledger: The records of its tree.
            attempt: The newest that is known otherwise.
        """
        record = ledger.get(self.run_id)
        last = attempt if record is None else max(attempt, record.attempt)
        stamp = self.admitted.stamp.model_copy(update={"attempt": last})
        # Without a number that is known, there was at least one item before.
        seq = 1 if record is None or record.last_seq is None else record.last_seq
        return Frame.of_items([end_of_result(stamp, result, seq)])

    async def collapse(self) -> None:
        """Somebody waits for the end and nobody reads: full buffers drop deltas instead of holding up the tree."""
        if self._bounds.flow == "block":
            await self._set_flow("collapse")

    async def resume(self) -> None:
        """Somebody reads again."""
        if self._flow == "collapse":
            await self._set_flow(self._bounds.flow)

    def reader_gone(self) -> None:
        """The handle was closed or collected: nobody will read any more. May be called from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._start_going)

    @property
    def _client(self) -> LaneClient:
        return self._queues.clients[self.home.queue]

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
            self._queues.remove(self)
            for queue in self._queues.names:
                await self._queues.clients[queue].drop(self.run_id)

    async def _set_flow(self, flow: Flow) -> None:
        self._flow = flow
        for queue in self._queues.names:
            await self._queues.clients[queue].set_flow(self.run_id, flow)

    async def _tell_end(self, result: RunResult) -> None:
        with contextlib.suppress(RuntimeUnavailableError):
            frame = self.end_of(result, await self.ledger())
            if await self._client.end_of(frame.stamp, self.home.lane) is None:
                await self._client.push(self.home.lane, [frame.to_bytes()])
