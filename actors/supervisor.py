"""The Supervisor actor: the registry of runs behind remote calls, long-polls for flags, and the clock that ends graces.

Its state lives on the loop of the default group, and in a store, from which Ray's restart of a killed supervisor goes on: nobody is answered before
what was decided is committed. Everything it is told and tells is JSON of `runtree.messages`: it never sees user code, so that one
supervisor serves the drivers of all programs in a namespace.
"""

import asyncio
import gc
import logging
import os
import platform
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import quote

from ..messages.control import CancelRequest, KillOrder
from ..messages.errors import RuntreeError, StoreError, VersionMismatchError
from ..messages.loss import LossReport
from ..messages.overview import SupervisorInfo
from ..messages.result import CancelReport
from ..messages.version import VERSION, WIRE_VERSION
from .driver_life import is_there
from .metrics import PUBLISH_SECONDS, SupervisorMetrics
from .polls import Polls
from .remote import actor_id, in_group, kill_by_name, node_id, session_folder
from .stream.signal import Signal
from .stream_queue import poll_seconds
from .supervision.desk import Answer, Call, Desk
from .supervision.keeper import Keeper
from .supervision.lending import Kill
from .supervision.mailboxes import Mailboxes
from .supervision.overview import drivers_of, view_of
from .supervision.records import Run
from .supervision.registry import ORPHAN_GRACE, Registry
from .supervision.restored import pending_kills, restored

NAME: Final = "supervisor"

GROUPS: Final = {"poll": 12_000, "wait": 2_000}
"""Slots for long-polls, and for calls that wait for runs to end."""

CANCEL_MARGIN: Final = 5.0
"""Seconds a cancel may take beyond the graces of the sub-tree."""

_KILL_PATIENCE: Final = 1.0
"""Seconds for the driver to kill an actor it owns, before the supervisor does it by name."""

_SWEEP_SECONDS: Final = 5.0

_REOPEN_SECONDS: Final = 2.0
"""Between tries to open a store that can't be opened."""

_GC_THRESHOLDS: Final = (100_000, 50, 100)
"""The state is many long-lived objects and no cycles: at Python's own thresholds, looking through them takes half the time of a large cancel."""

_LOG: Final = logging.getLogger(__name__)
_Result = TypeVar("_Result")


class Supervisor:
    """The actor. Ray makes it on the loop of its default group, and after a restart makes it again with the same arguments."""

    def __init__(self, namespace: str) -> None:
        gc.set_threshold(*_GC_THRESHOLDS)
        self._namespace = namespace
        self._started = time.time()
        self._home = asyncio.get_running_loop()
        self._mailboxes = Mailboxes(start=time.time_ns(), on_put=lambda process: self._polls.wake(process))
        self._polls = Polls(self._mailboxes.collect, self._saved, self._note_poll)
        self._registry = Registry(namespace, self._mailboxes)
        self._desk = Desk(self._registry)
        self._ends = Signal()
        self._flags = Signal()
        self._wakes_at = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._keeper: Keeper | None = None
        self._remove_store: Callable[[], None] | None = None
        self._problem: RuntreeError | None = None
        self._store: str | None = None
        if not self._open():
            self._spawn(self._open_later())

    def __repr__(self) -> str:
        # Ray shows it in its dashboard and before each line the actor logs.
        return f"supervisor:{self._namespace}"

    async def start(self, wire_version: int, version: str) -> int:
        """Compare versions. What a supervisor of any version answers to; nothing else needs it.

        Args:
            wire_version: Version of the protocol the caller speaks.
            version: Version of runtree the caller runs.

        Returns:
            The supervisor's process id.

        Raises:
            VersionMismatchError: The caller's version is another one.
            StoreError: The store can't be opened.
        """
        if wire_version != WIRE_VERSION or version != VERSION:
            fix = "End it with `runtree down`, or install the same version on both sides"
            raise VersionMismatchError(f"the supervisor on {platform.node()}", version, VERSION, fix)
        self._check()
        return os.getpid()

    async def retire(self) -> None:
        """Forget everything, the store's file included: whoever calls this kills the actor next."""
        self._problem = RuntreeError(f"the supervisor of namespace {self._namespace!r} was taken down")
        for task in self._tasks:
            task.cancel()
        if self._keeper is not None and self._remove_store is not None:
            await self._keeper.aclose()
            await asyncio.to_thread(self._remove_store)

    async def batch(self, calls: Sequence[Call]) -> list[Answer]:
        """Carry out small calls of one process, in their order; see `Desk`. Answered when all that changed is committed."""
        self._check()
        answers = self._desk.answer(calls)
        if self._desk.ends_runs(calls):
            self._changed()
        next_time = self._registry.next_time(time.time())
        if next_time is not None and next_time < self._wakes_at:
            self._flags.notify()
        await self._saved()
        return answers

    async def ledger(self, run_id: str) -> list[str]:
        """Return the records of a run and all below it."""
        self._check()
        return [record.to_json() for record in self._registry.ledger(run_id)]

    async def lanes(self, driver_id: str) -> list[str]:
        """Return the lanes that live runs of a driver need, upstream lanes first."""
        mine = (run for run in self._registry.every_run() if run.driver.hello.driver_id == driver_id)
        return [lane.to_json() for run in mine if (lane := run.open_lane()) is not None]

    async def runs(self, ended: bool) -> list[str]:
        """Return the live runs, or all that are remembered."""
        self._check()
        return [info.to_json() for info in self._registry.runs(ended=ended)]

    async def view(self, ended: bool, most: int) -> str:
        """Return what runs, at most so many runs one by one; cheap enough to be asked every second."""
        return view_of(self._registry, self._namespace, time.time(), ended=ended, most=most).to_json()

    async def describe(self) -> str:
        """Return what this supervisor is; answered to callers of any version."""
        live = sum(run.live for run in self._registry.every_run())
        return SupervisorInfo(
            namespace=self._namespace,
            version=VERSION,
            wire_version=WIRE_VERSION,
            host=platform.node(),
            pid=os.getpid(),
            node_id=node_id(),
            started=self._started,
            live_runs=live,
            ended_runs=len(self._registry.every_run()) - live,
            store=self._store,
            problem="" if self._problem is None else str(self._problem),
            drivers=drivers_of(self._registry),
        ).to_json()

    async def note_loss(self, report: str) -> str | None:
        """Note that a run's process is gone, and set the flags of all below it; returns the run's own lane, if it has one."""
        self._check()
        lane = self._note_loss(LossReport.from_json(report))
        await self._saved()
        return lane

    @in_group("wait")
    async def lost(self, report: str) -> str:
        """Decide what follows the loss of a run's process, once all below it have ended, or cannot be made to."""
        return await self._at_home(self._lost(LossReport.from_json(report)))

    @in_group("wait")
    async def cancel(self, request: str) -> str:
        """Cancel a run and all below it; answers when all have ended."""
        return await self._at_home(self._cancel(CancelRequest.from_json(request)))

    @in_group("poll")
    async def poll(self, process: str, seen: int) -> str:
        """Wait for orders to a process; answers empty when none come. A new poll of a process ends its older one."""
        self._check()
        return await self._polls.wait(process, seen, poll_seconds())

    def _note_loss(self, report: LossReport) -> str | None:
        self._registry.lose(report, time.time())
        self._changed()
        lane = self._registry.get(report.run_id).own_lane
        return None if lane is None else lane.to_json()

    async def _lost(self, report: LossReport) -> str:
        self._note_loss(report)
        await self._ended(self._registry.get(report.run_id).subtree()[1:], ORPHAN_GRACE)
        verdict = self._registry.judge(report, time.time())
        self._changed()
        await self._saved()
        return verdict.to_json()

    async def _cancel(self, request: CancelRequest) -> str:
        began = time.monotonic()
        live = self._registry.cancel(request.run_id, request.reason, request.grace, time.time())
        self._flags.notify()
        top = self._registry.find(request.run_id)
        caller = None if request.caller_run_id is None else self._registry.find(request.caller_run_id)
        if caller is None or caller not in live:
            await self._ended(live, request.grace)
            if live:
                self._registry.tally.cancel_seconds.append(time.monotonic() - began)
        if request.repeated and top is not None:
            live = [run for run in top.subtree() if run.flag is not None]
        await self._saved()
        return CancelReport(
            run_id=request.run_id,
            was_live=bool(live),
            cancelled=tuple(run.run_id for run in live if not run.live and not run.forced),
            killed=tuple(run.run_id for run in live if not run.live and run.forced),
            unreachable=tuple(run.run_id for run in live if run.live),
            elapsed=time.monotonic() - began,
        ).to_json()

    async def _ended(self, runs: list[Run], grace: float) -> None:
        """Wait until all runs have ended, but no longer than their graces one after the other, bottom-up, and a margin.

        A run that shares its actor is killed after the grace of those beside it.
        """
        levels = len({run.stamp.depth for run in runs}) + any(run.lease.shared for run in runs)
        deadline = time.monotonic() + grace * levels + CANCEL_MARGIN
        # One after the other: looking at all of them at each end would take ever longer in a large tree.
        for run in reversed(runs):
            while run.live and (left := deadline - time.monotonic()) > 0:
                await self._ends.wait(left)

    def _note_poll(self, process: str) -> None:
        for driver in self._registry.drivers():
            if driver.hello.driver_id == process:
                driver.seen = time.time()

    def _changed(self) -> None:
        self._ends.notify()
        self._flags.notify()

    async def _end_graces(self) -> None:
        """Have every run killed that outlives its grace, and decide on what has waited for time to pass."""
        while True:
            for kill in self._registry.condemn_due(time.time()):
                order = KillOrder(actor=kill.lease.actor, lease=kill.lease.number, run_id=kill.run.run_id)
                self._mailboxes.put(kill.run.driver.hello.driver_id, order)
                self._spawn(self._make_sure(kill))
            self._ends.notify()
            now = time.time()
            self._registry.advance(now)
            self._save_soon()
            times = (self._registry.next_kill_time(), self._registry.next_time(now), now + _SWEEP_SECONDS)
            self._wakes_at = min(each for each in times if each is not None)
            await self._flags.wait(max(0.0, self._wakes_at - now))

    async def _make_sure(self, kill: Kill) -> None:
        """Kill a condemned run's actor by name if its driver does not."""
        await asyncio.sleep(_KILL_PATIENCE)
        if kill.pending:
            await kill_by_name(kill.lease.actor, self._namespace)
            self._registry.killed(kill.run, time.time())
            self._changed()
            self._save_soon()

    async def _sweep(self) -> None:
        """Drop drivers that are gone: Ray has ended their actors with them, queue actors included. Shrink pools that are idle."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            for driver in self._registry.drivers():
                polls = driver.hello.driver_id in self._polls
                if not await is_there(driver, self._namespace, polls=polls, wake=self._polls.nudge):
                    self._registry.leave(driver.hello.driver_id, time.time(), "its driver is gone")
                    self._changed()
            self._registry.shrink_pools(time.time())
            self._save_soon()

    async def _publish(self) -> None:
        """Let Prometheus see the numbers."""
        metrics = SupervisorMetrics(self._namespace)
        while True:
            metrics.publish(self._registry.tally, [driver.leases for driver in self._registry.drivers()])
            await asyncio.sleep(PUBLISH_SECONDS)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _at_home(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run work on the home loop, from whatever loop this is called."""
        try:
            self._check()
        except RuntreeError:
            work.close()
            raise
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._home))

    def _open(self) -> bool:
        """Open the store, and go on where an earlier process of this actor was; returns whether it could."""
        from .supervision.store import (
            Store,
        )  # its imports take longer than a run actor's start, and only this process needs them

        path = session_folder() / "runtree" / f"{quote(self._namespace, safe='')}.db"
        identity = {"supervisor": actor_id(), "version": VERSION, "wire_version": str(WIRE_VERSION)}
        try:
            store, saved = Store.open(path, identity)
        except StoreError as error:
            self._problem = error
            _LOG.error("%s", error)
            return False
        self._registry = restored(self._namespace, self._mailboxes, saved, time.time())
        self._desk = Desk(self._registry)
        self._keeper = Keeper(self._mailboxes.changes, store.write, str(path))
        self._remove_store = store.remove
        self._store = str(path)
        self._problem = None
        for kill in pending_kills(self._registry):
            self._spawn(self._make_sure(kill))
        for work in (self._end_graces(), self._sweep(), self._publish()):
            self._spawn(work)
        return True

    async def _open_later(self) -> None:
        """Try again to open the store: what runs waits for it."""
        await asyncio.sleep(_REOPEN_SECONDS)
        if not self._open():
            self._spawn(self._open_later())

    def _check(self) -> None:
        if self._problem is not None:
            raise self._problem

    async def _saved(self) -> None:
        """Return when all that was decided so far is committed."""
        if self._keeper is not None:
            await self._keeper.saved()

    def _save_soon(self) -> None:
        self._spawn(self._save())

    async def _save(self) -> None:
        """Commit what nobody waits for; if it fails, the next commit has it."""
        try:
            await self._saved()
        except StoreError as error:
            _LOG.warning("%s", error)
