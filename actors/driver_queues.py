"""The queue actors of one driver. They are its own, so that they outlive every run of its trees; Ray starts one again whose process is lost.

A queue that was started again is empty and answers nobody until its driver has filled it with the lanes that live trees need: whoever calls it tries
again meanwhile. What the lost process held is gone; the readers mark that, and write the ends that were among it (`stream.mending`).
"""

import asyncio
import contextlib
import random
from typing import Final, Protocol

from ..messages.control import LaneAddress
from ..messages.errors import RuntreeError
from .lane_client import PART, QueueClients
from .remote import ActorGoneError, Handle, call, create, kill
from .stream.lanes import Bounds, Opening
from .stream_queue import GROUPS, StreamQueue
from .supervisor_client import SupervisorClient

START_TIMEOUT: Final = 60.0
"""Seconds for a queue actor to start: it asks for nothing that could be used up."""

_WATCH_TIMEOUT: Final = 60.0
"""Twice the longest wait of a queue: beyond it the queue hangs."""

_RETRY_PAUSES: Final = (0.05, 0.2)


class Tree(Protocol):
    """What a queue that was started again has to know of a tree."""

    @property
    def run_id(self) -> str:
        """Id of its root."""
        ...

    @property
    def bounds(self) -> Bounds:
        """Size and flow of its buffers."""
        ...

    @property
    def home(self) -> LaneAddress:
        """The driver's lane."""
        ...

    def note_loss(self) -> None:
        """A queue was lost, and is about to be filled anew."""
        ...

    def tell_end(self) -> None:
        """The queue is filled: tell the end of the root again if it was told before."""
        ...


class DriverQueues:
    """Starts, watches and ends them.

    Args:
        supervisor: Knows the lanes of live runs.
        driver_id: The driver.
        count: How many.
    """

    def __init__(self, supervisor: SupervisorClient, driver_id: str, count: int) -> None:
        self.names = tuple(f"queue:{driver_id}:{index}" for index in range(count))
        self.clients = QueueClients(supervisor.namespace)
        self._supervisor = supervisor
        self._driver_id = driver_id
        self._handles: dict[str, Handle] = {}
        self._trees: dict[str, Tree] = {}
        self._watches: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start them, and see to it that they go on."""
        for name in self.names:
            namespace = self._supervisor.namespace
            handle = self._handles[name] = create(
                StreamQueue, name, namespace, groups=GROUPS, name=name, namespace=namespace, num_cpus=0, max_restarts=-1
            )
            await call(handle, "start", part=PART, timeout=START_TIMEOUT)
        self._watches = [asyncio.create_task(self._watch(name)) for name in self.names]

    def add(self, tree: Tree) -> None:
        """Take up a tree, whose lanes are to be there until it is removed."""
        self._trees[tree.run_id] = tree

    def remove(self, tree: Tree) -> None:
        """Forget a tree: nobody reads it any more."""
        self._trees.pop(tree.run_id, None)

    async def aclose(self) -> None:
        """End them for good."""
        for watch in self._watches:
            watch.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*self._watches, return_exceptions=True)
        for handle in self._handles.values():
            kill(handle)

    async def _watch(self, queue: str) -> None:
        handle = self._handles[queue]
        while True:
            try:
                if not await call(handle, "watch", part=PART, timeout=_WATCH_TIMEOUT):
                    await self._fill(queue)
            except ActorGoneError:
                # Somebody ended it for good: readers write the ends of its trees without it.
                return
            except RuntreeError:
                await asyncio.sleep(random.uniform(*_RETRY_PAUSES))

    async def _fill(self, queue: str) -> None:
        """Give a queue that was started again its lanes back; no item gets there before."""
        trees = dict(self._trees)
        for tree in trees.values():
            tree.note_loss()
        for other in self.names:
            if other != queue:
                await self.clients[other].let_holes_pass(tuple(trees))
        lanes = [
            Opening(tree.home.lane, run_id, tree.bounds) for run_id, tree in trees.items() if tree.home.queue == queue
        ]
        lanes += [
            Opening(each.lane.lane, each.root_run_id, trees[each.root_run_id].bounds, each.upstream)
            for each in await self._supervisor.lanes(self._driver_id)
            if each.lane.queue == queue and each.root_run_id in trees
        ]
        await call(self._handles[queue], "start", lanes, part=PART)
        for tree in trees.values():
            tree.tell_end()
