"""The actor's side of packed runs: many jobs of a tree in one call, what they share sent once, and their ends collected by a long-poll.

No Ray: how one run is executed is the actor's business.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from ..messages.errors import InternalError, RuntreeError
from .jobs import JobSlip, Keys, RunEnd, RunJob, TreeContext
from .stream.signal import Signal

_REST_SECONDS: Final = 5.0
"""How long a tree without runs keeps its context, which holds its variables in the object store. Whoever starts a run later sends it again."""

_KEPT_TREES: Final = 2
"""Trees without runs whose ends are kept in any case: an actor serves one tree at a time, and then perhaps the next."""

_KEPT_SECONDS: Final = 90.0
"""How long the ends of a tree wait for their caller: a living one has always a poll open."""


class Ended(NamedTuple):
    """The end of one packed run."""

    run_id: str
    """The run."""
    attempt: int
    """Its attempt."""
    end: RunEnd | RuntreeError
    """How it ended, or what its call would have raised."""


class Ends(NamedTuple):
    """The answer to a poll."""

    version: int
    """To be sent with the next poll: acknowledges these ends."""
    ends: Sequence[Ended]
    """What has ended since; none if nothing did in time."""


@dataclass(slots=True)
class _Box:
    """The ends that one caller has not acknowledged."""

    ends: deque[tuple[int, Ended]] = field(default_factory=deque[tuple[int, Ended]])
    number: int = field(default_factory=time.time_ns)
    """Of the newest end; a box that was forgotten and is made anew begins above what its caller has seen."""
    poll: Signal = field(default_factory=Signal)


@dataclass(slots=True)
class _Tree:
    shared: tuple[TreeContext, Keys] | None
    used: float
    """When it was last asked for."""
    started: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    """Attempts that were started: a repeated call starts nothing again."""
    boxes: dict[str, _Box] = field(default_factory=dict[str, _Box])
    tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    rest: asyncio.TimerHandle | None = None
    """Ends what is shared, while no run is at work."""


class PackedRuns:
    """The packed runs of one actor. It belongs to the event loop of the runs."""

    def __init__(self, execute: Callable[[RunJob, Keys], Awaitable[RunEnd]], rest: float = _REST_SECONDS) -> None:
        """Make it.

        Args:
            execute: Executes one run to its end.
            rest: Seconds for which what a tree shares is kept while none of its runs is at work.
        """
        self._execute = execute
        self._rest_seconds = rest
        self._trees: OrderedDict[str, _Tree] = OrderedDict()

    def start(
        self, caller: str, tree_id: str, slips: Sequence[JobSlip], context: TreeContext | None, keys: Keys | None
    ) -> bool:
        """Start runs; those that were started before are left as they are.

        Args:
            caller: Who will collect the ends.
            tree_id: Root of the runs' tree.
            slips: The runs.
            context: What all runs of the tree share; may be left out once the actor has it.
            keys: The keys of their models; an argument of their own, see `Keys`.

        Returns:
            False if the actor does not know the tree: nothing was started, and the call has to be made again with what the runs share.
        """
        tree = self._trees.setdefault(tree_id, _Tree(None, 0.0))
        tree.used = time.monotonic()
        self._trees.move_to_end(tree_id)
        if context is not None and keys is not None:
            tree.shared = context, keys
        if tree.shared is None:
            return False
        self._forget()
        for slip in slips:
            job = slip.job(tree.shared[0])
            stamp = job.admitted.stamp
            attempt = (stamp.run_id, stamp.attempt)
            if attempt not in tree.started:
                tree.started.add(attempt)
                task = asyncio.get_running_loop().create_task(self._run(tree, caller, job, tree.shared[1]))
                tree.tasks.add(task)
                task.add_done_callback(partial(self._ended, tree))
        self._rest(tree)
        return True

    async def collect(self, caller: str, tree_id: str, seen: int, timeout: float) -> Ends:
        """Wait for ends; answers empty when none come in time. A newer poll of a caller ends its older one.

        Args:
            caller: Who started the runs.
            tree_id: Root of the runs' tree.
            seen: Version of the last answer: what it held is forgotten.
            timeout: Seconds.

        Raises:
            InternalError: The actor does not know the tree.
        """
        tree = self._trees.get(tree_id)
        if tree is None:
            raise InternalError(f"runs of tree {tree_id} were asked for where none were started")
        tree.used = time.monotonic()
        box = tree.boxes.setdefault(caller, _Box())
        older, box.poll = box.poll, Signal()
        older.notify()
        while box.ends and box.ends[0][0] <= seen:
            box.ends.popleft()
        if not box.ends:
            await box.poll.wait(timeout)
        return Ends(box.ends[-1][0] if box.ends else seen, [ended for _, ended in box.ends])

    async def _run(self, tree: _Tree, caller: str, job: RunJob, keys: Keys) -> None:
        stamp = job.admitted.stamp
        end: RunEnd | RuntreeError
        try:
            end = await self._execute(job, keys)
        except RuntreeError as error:
            end = error
        except Exception as error:  # noqa: BLE001 - whoever waits for the run must be told, whatever it was
            end = InternalError(f"the run's actor raised {type(error).__name__}: {error}")
        box = tree.boxes.setdefault(caller, _Box())
        tree.used = time.monotonic()
        box.number += 1
        box.ends.append((box.number, Ended(stamp.run_id, stamp.attempt, end)))
        box.poll.notify()

    def _ended(self, tree: _Tree, task: asyncio.Task[None]) -> None:
        tree.tasks.discard(task)
        self._rest(tree)

    def _rest(self, tree: _Tree) -> None:
        """Let go of what a tree shares, a while after its last run."""
        if tree.rest is not None:
            tree.rest.cancel()
            tree.rest = None
        if not tree.tasks:
            tree.rest = asyncio.get_running_loop().call_later(self._rest_seconds, _let_go, tree)

    def _forget(self) -> None:
        """Forget the oldest trees for whose ends nobody asks any more."""
        resting = [(tree_id, tree) for tree_id, tree in self._trees.items() if not tree.tasks]
        for tree_id, tree in resting[:-_KEPT_TREES]:
            if time.monotonic() - tree.used > _KEPT_SECONDS:
                del self._trees[tree_id]


def _let_go(tree: _Tree) -> None:
    tree.shared = tree.rest = None
