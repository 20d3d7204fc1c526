"""The caller's side of packed runs: one call in flight that starts what has gathered, one that collects ends, for each actor and tree."""

import asyncio
import copy
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from ..messages.errors import RuntreeError
from .batcher import Batcher
from .jobs import JobSlip, Keys, RunEnd, RunJob, TreeContext
from .packed_runs import Ends

CallActor: TypeAlias = Callable[..., Awaitable[Any]]
"""Calls a method of an actor by its name; repeats the call if the actor is out of reach for a moment."""

_SLIP_BYTES: Final = 700
"""About what a job takes beside its input."""


class _Start(NamedTuple):
    slip: JobSlip
    tree: TreeContext
    keys: Keys


class RunChannel:
    """The runs of one tree that this process has in one actor. It belongs to one event loop."""

    def __init__(self, actor: CallActor, tree_id: str) -> None:
        """Make a channel.

        Args:
            actor: Calls a method of the actor.
            tree_id: Root of the runs' tree.
        """
        self._actor = actor
        self._tree_id = tree_id
        self._caller = uuid.uuid4().hex
        self._known = False
        """The actor was sent what the runs share. It is not kept here: it holds the tree's variables in the object store."""
        self._starts: Batcher[_Start, None] = Batcher(self._start, _size)
        self._ends: dict[tuple[str, int], asyncio.Future[RunEnd]] = {}
        self._collecting: asyncio.Task[None] | None = None
        self._seen = 0

    @property
    def idle(self) -> bool:
        """Whether nobody waits for a run of it."""
        return not self._ends and self._collecting is None

    async def run(self, job: RunJob, keys: Keys) -> RunEnd:
        """Have a run executed to its end.

        Args:
            job: The run.
            keys: The keys of its tree's models.

        Raises:
            ActorGoneError: The actor is dead.
            UnreachableError: It is out of reach.
            RuntreeError: What the run's call raised.
        """
        stamp = job.admitted.stamp
        loop = asyncio.get_running_loop()
        end: asyncio.Future[RunEnd] = loop.create_future()
        self._ends[stamp.run_id, stamp.attempt] = end
        try:
            await self._starts.ask(_Start(JobSlip.of(job), job.tree, keys))
            if self._collecting is None:
                self._collecting = loop.create_task(self._collect())
            return await end
        finally:
            self._ends.pop((stamp.run_id, stamp.attempt), None)
            if not end.cancel() and not end.cancelled():
                # The start may have failed as well; then nobody asks for this error.
                end.exception()

    async def _start(self, starts: Sequence[_Start]) -> Sequence[None]:
        slips = [start.slip for start in starts]
        shared = starts[0].tree, starts[0].keys
        first = (None, None) if self._known else shared
        if not await self._actor("start_runs", self._caller, self._tree_id, slips, *first):
            await self._actor("start_runs", self._caller, self._tree_id, slips, *shared)
        self._known = True
        return [None] * len(slips)

    async def _collect(self) -> None:
        try:
            while self._ends:
                answer: Ends = await self._actor("collect_ends", self._caller, self._tree_id, self._seen)
                self._seen = answer.version
                for ended in answer.ends:
                    _settle(self._ends.pop((ended.run_id, ended.attempt), None), ended.end)
        except RuntreeError as error:
            while self._ends:
                _settle(self._ends.popitem()[1], error)
        finally:
            self._collecting = None


def _settle(waiting: asyncio.Future[RunEnd] | None, end: RunEnd | RuntreeError) -> None:
    if waiting is None or waiting.done():
        return
    if isinstance(end, RuntreeError):
        waiting.set_exception(copy.copy(end))
    else:
        waiting.set_result(end)


def _size(start: _Start) -> int:
    return _SLIP_BYTES + len(start.slip.value) + len(start.slip.messages)
