"""The registry of runs: who runs below whom, whose flag is set, who has ended, and what it cost. A state machine without I/O.

Time comes in as an argument (seconds since the epoch); orders for processes go out through `mailboxes`; what has to be killed is returned by
`condemn_due`. It is the one place that decides lineage, admission and the outcome of a race between a cancel and a normal end.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final

from ...messages.control import (
    AdmitReply,
    AdmitRequest,
    CancelOrder,
    DriverHello,
    EndReport,
    LimitOrder,
    Order,
    PauseOrder,
    RunReport,
)
from ...messages.errors import RuntimeUnavailableError, UnknownRunError
from ...messages.loss import LossReport, LossVerdict
from ...messages.reservations import Budget, ReserveReply, ReserveRequest, SlotRequest, ThrottleReport
from ...messages.result import RunInfo, RunRecord, RunStatus
from ...messages.usage import Totals
from . import attempts, bounds
from .allowances import budget
from .changes import Changes
from .graces import Graces
from .lending import NEVER, Kill, Lending
from .mailboxes import Mailboxes
from .model_limits import UNUSED, ModelUse
from .newcomers import Newcomers
from .records import Driver, Flag, Run
from .scopes import Reservation
from .tally import Tally

KEPT_TREES: Final = 1000
"""Ended trees that are remembered, for `ps` and for late questions."""

ORPHAN_GRACE: Final = 2.0
"""Seconds for the sub-tree of a lost run."""


class Registry:
    """All live runs of a namespace, and the last ended trees."""

    def __init__(
        self,
        namespace: str,
        mailboxes: Mailboxes,
        drivers: Iterable[Driver] = (),
        runs: Sequence[Run] = (),
        use: ModelUse = UNUSED,
    ) -> None:
        """Make a registry, empty or with what an earlier supervisor knew: see `restored`."""
        self._namespace = namespace
        self._mailboxes = mailboxes
        self.tally = Tally()
        """What has happened, for metrics."""
        self._lending = Lending(mailboxes)
        self._changes = mailboxes.changes
        self._drivers = {driver.hello.driver_id: driver for driver in drivers if not driver.gone}
        self._runs = {run.run_id: run for run in runs}
        # Of trees that ended together, with their driver, the last one did first.
        ended = sorted((run.ended, -run.ordinal, run.run_id) for run in runs if run.ended and run.parent is None)
        self._ended_trees = OrderedDict[str, None].fromkeys(run_id for _, _, run_id in ended)
        self._graces = Graces()
        for run in runs:
            if run.live and run.flag is not None:
                self._graces.watch(run)
        self._newcomers = Newcomers(self._runs, self._lending, self.tally, mailboxes)
        self._allowances = self._newcomers.allowances
        self._bound_models()
        self._allowances.restore(runs, use)

    # Drivers

    def join(self, hello: DriverHello, now: float) -> None:
        """Take up a driver; joining again changes nothing."""
        if hello.driver_id not in self._drivers:
            driver = self._drivers[hello.driver_id] = Driver(hello, seen=now, changes=self._changes)
            driver.touch()
            known = self._allowances.models.limited
            self._bound_models()
            limited = self._allowances.models.limited
            if not set(limited) <= set(known):
                self._tell_all(LimitOrder(models=limited))

    def driver(self, driver_id: str) -> Driver:
        """Return a driver.

        Raises:
            RuntimeUnavailableError: It never joined, or was dropped.
        """
        try:
            return self._drivers[driver_id]
        except KeyError:
            raise RuntimeUnavailableError(
                "supervisor", f"driver {driver_id} is not known", "Open a new Runtime"
            ) from None

    def drivers(self) -> list[Driver]:
        """Return all drivers."""
        return list(self._drivers.values())

    def leave(self, driver_id: str, now: float, reason: str) -> None:
        """Drop a driver. What of its runs is still live is lost: Ray ends their processes with the driver's."""
        driver = self._drivers.pop(driver_id, None)
        if driver is None:
            return
        self._bound_models()
        # Children first: they are lost as their parents are, not cancelled after them.
        lost = [run for run in reversed(self._runs.values()) if run.driver is driver and run.live]
        for run in lost:
            # Before the first one ends, so that nothing of it is let in by the end of another.
            self._doubt(run)
            self._allowances.close(run)
        for run in lost:
            run.error = LossReport(run_id=run.run_id, attempt=run.stamp.attempt, reason=reason).failure()
            self._end(run, "failed" if run.flag is None else "cancelled", now)
        self._mailboxes.close(driver_id)
        driver.gone = True
        driver.touch()
        self._forget_driver(driver)
        self._allowances.advance(now)

    # Runs

    def get(self, run_id: str) -> Run:
        """Return a run.

        Raises:
            UnknownRunError: Nobody knows the id.
        """
        try:
            return self._runs[run_id]
        except KeyError:
            raise UnknownRunError(run_id, self._namespace) from None

    def find(self, run_id: str) -> Run | None:
        """Return a run, or `None` for an unknown id."""
        return self._runs.get(run_id)

    def admit(self, request: AdmitRequest, now: float) -> AdmitReply:
        """Admit the children of one fan-out, or refuse them one by one; a repeated call gets the same answer."""
        driver = self.driver(request.driver_id)
        parent = None if request.parent_run_id is None else self.get(request.parent_run_id)
        admissions = tuple(
            self._newcomers.admit(driver, parent, request.attempt, child, now) for child in request.children
        )
        return AdmitReply(admissions=admissions, own_lane=None if parent is None else parent.own_lane)

    def begin(self, run_id: str, attempt: int) -> Flag | None:
        """Note that a run's process works on it; returns its flag if a cancel came first, or if it was given up as lost."""
        run = self.get(run_id)
        if not run.works(attempt):
            return run.flag or Flag(f"attempt {attempt} of run {run_id} is over", 0.0, run.ended or 0.0)
        run.status = "running"
        run.touch()
        return run.flag

    def stopped(self, run_id: str, attempt: int) -> str | None:
        """Return why a run that has not begun must not be started any more; `None` if it may."""
        run = self.get(run_id)
        if run.flag is not None:
            return run.flag.reason
        return None if run.works(attempt) else "it is over"

    def reserve(self, request: ReserveRequest, now: float) -> ReserveReply:
        """Reserve calls within the bounds of the lineage and of the model; a repeated request gets the same answer, or the decision."""
        return self._allowances.reserve(self.get(request.run_id), request, now)

    def slot(self, request: SlotRequest, now: float) -> ReserveReply:
        """Take a parallel slot back, or give it again; a repeated request gets the same answer, or the decision."""
        return self._allowances.slot(self.get(request.run_id), request, now)

    def throttle(self, report: ThrottleReport, now: float) -> None:
        """Let nobody call a model for some time, and tell all processes that have a run."""
        until = self._allowances.models.pause(report.model, report.seconds, now)
        if until is not None:
            self._tell_all(PauseOrder(model=report.model, until=until))

    def budget(self, run_id: str) -> Budget:
        """Return what is left for a run."""
        return budget(self.get(run_id))

    def report(self, report: RunReport, now: float) -> Totals:
        """Take a snapshot of a run's accounts, and settle what is over; an older snapshot than the last is ignored."""
        run = self.get(report.run_id)
        if report.attempt == run.stamp.attempt:
            self._stop_overruns(run, self._account(run, report), now)
            self._allowances.drain(run, now)
        return run.totals()

    def end(self, report: EndReport, now: float) -> None:
        """Note that a run ended by itself, and give its actor back to the pool unless it is worn out or condemned."""
        run = self.get(report.run_id)
        if report.attempt != run.stamp.attempt:
            return
        # The snapshot is the last: it has all that its calls used.
        run.doubts.clear()
        settled = self._account(run, report, whole=report.from_stream)
        if run.lost is not None and not report.from_stream:
            # Of a run that was given up, what readers have seen decides, and not what its process says if it was only out of reach.
            self._allowances.drain(run, now)
            return
        if not run.live:
            if report.from_stream:
                # It was killed or lost when it had told its end already: what readers have seen counts.
                run.status, run.error, run.last_seq = report.status, report.error, report.last_seq
                run.touch()
            self._allowances.drain(run, now)
            return
        run.error, run.last_seq = report.error, report.last_seq
        self._end(run, report.status, now)
        self._stop_overruns(run, settled, now)
        self._lending.take_back(run, now, reusable=report.reusable)
        # Only now: who is let in may have its actor.
        self._allowances.drain(run, now)

    def lose(self, report: LossReport, now: float) -> None:
        """Note that a run's process is gone, and set the flags of all below it. What follows is for `judge` to say, once those have ended."""
        run = self.get(report.run_id)
        if not run.works(report.attempt):
            return
        run.lost = report
        run.touch()
        self._doubt(run)
        self._allowances.stop(run)
        self._lending.forget_orders(run)
        self._orphan(run, now)
        self._lending.lose(run, now + ORPHAN_GRACE)
        self._allowances.drain(run, now)

    def judge(self, report: LossReport, now: float) -> LossVerdict:
        """Decide what follows a loss: another attempt, which is admitted here, or the end of the run. A repeated call gets the same answer."""
        run = self.get(report.run_id)
        if report.attempt in run.verdicts:
            return run.verdicts[report.attempt]
        if run.lost is not None and report.attempt == run.stamp.attempt:
            run.error = attempts.final_failure(run, report, now)
            if run.error is None:
                verdict = attempts.begin_next(run, report, now, self._lending)
                self._allowances.begin(run)
                return verdict
            self._end(run, "failed" if run.flag is None else "cancelled", now)
            self._allowances.drain(run, now)
        return attempts.verdict_of(run, report)

    # Cancel

    def cancel(self, run_id: str, reason: str, grace: float, now: float) -> list[Run]:
        """Set the flags of a run and all below it; returns the live ones. A second cancel changes nothing but a longer grace."""
        top = self._runs.get(run_id)
        if top is None:
            self._allowances.refuse_child(run_id, bounds.cancelled(run_id, reason))
        live = [run for run in top.subtree() if run.live] if top is not None else []
        for run in live:
            if run.flag is None:
                run.flag = Flag(reason, grace, now)
                self._graces.watch(run)
                self._allowances.refuse(run, bounds.cancelled(run.run_id, reason))
                run.touch()
                order = CancelOrder(run_id=run.run_id, attempt=run.stamp.attempt, reason=reason, grace=grace)
                if run.lost is None:
                    self._mailboxes.put(run.lease.actor, order)
            elif grace < run.flag.grace:
                run.flag = replace(run.flag, grace=grace)
                self._graces.watch(run)
                run.touch()
        if top is not None:
            self._allowances.drain(top, now)
        return live

    def condemn_due(self, now: float) -> list[Kill]:
        """Condemn the runs that outlived their grace, children first; returns those whose actors are to be killed now."""
        for run in self._graces.due(now):
            if run.lost is not None or run.preempted:
                # Its process is gone, and so is whoever would tell what follows.
                self._end(run, "cancelled", now)
                self._allowances.drain(run, now)
            else:
                self._lending.condemn(run, now)
        return list(self._lending.doomed(self._drivers.values(), self.find, now))

    def next_kill_time(self) -> float | None:
        """Return when the next grace ends, `None` if nothing waits for one."""
        time = min(self._graces.next_time(), self._lending.next_kill_time(self._drivers.values()))
        return None if time == NEVER else time

    def killed(self, run: Run, now: float) -> None:
        """Note that the actor of a condemned run is gone. What follows for one that was lost is for `judge` to say."""
        if run.live and (run.lost is None or run.flag is not None):
            self._doubt(run)
            self._end(run, "cancelled", now)
            self._allowances.drain(run, now)

    def shrink_pools(self, now: float) -> None:
        """Have actors ended that have been idle for long."""
        self._lending.shrink(self._drivers.values(), now)

    # Time

    def next_time(self, now: float) -> float | None:
        """Return when `advance` has something to do; `None` if nothing waits for time to pass."""
        return self._allowances.next_time(now)

    def advance(self, now: float) -> None:
        """Decide on what has waited for time to pass: pauses and minutes of models, and deadlines."""
        self._allowances.advance(now)

    # Views

    def ledger(self, run_id: str) -> tuple[RunRecord, ...]:
        """Return the records of a run and all below it."""
        return tuple(run.record() for run in self.get(run_id).subtree())

    def every_run(self) -> Collection[Run]:
        """Return the live runs and those that are remembered, in the order of their admission."""
        return self._runs.values()

    def runs(self, *, ended: bool) -> tuple[RunInfo, ...]:
        """Return the live runs, or all that are remembered."""
        return tuple(run.info() for run in self._runs.values() if ended or run.live)

    # Inside

    def _tell_all(self, order: Order) -> None:
        """Tell all processes that have a run."""
        for actor in {run.lease.actor for run in self._runs.values() if run.live}:
            self._mailboxes.put(actor, order)

    def _bound_models(self) -> None:
        self._allowances.models.bound(driver.hello.model_limits for driver in self._drivers.values())

    def _stop_overruns(self, run: Run, settled: list[Reservation], now: float) -> None:
        for top, reason in self._allowances.overruns(run, settled):
            self.cancel(top.run_id, reason, ORPHAN_GRACE, now)

    def _end(self, run: Run, status: RunStatus, now: float) -> None:
        """Note an end. What still lives below the run has nobody to report to any more: its flags are set."""
        run.status, run.ended, run.lost = status, now, None
        self.tally.end(run.agent, status, run.cost)
        run.touch()
        self._graces.forget(run)
        self._lending.forget_orders(run)
        self._allowances.close(run)
        self._orphan(run, now)
        for above in run.lineage()[1:]:
            above.live_below -= 1
            if above.live and above.flag is not None and not above.live_below:
                above.flag = replace(above.flag, since=now)
                self._graces.watch(above)
                above.touch()
        if run.parent is None:
            self._ended_trees[run.run_id] = None
            while len(self._ended_trees) > KEPT_TREES:
                self._forget(self._ended_trees.popitem(last=False)[0])

    def _orphan(self, run: Run, now: float) -> None:
        """End what lives below a run: it has nobody to report to."""
        if run.live_below:
            for child in run.children:
                self.cancel(child.run_id, f"run {run.run_id} above it is gone", ORPHAN_GRACE, now)

    def _account(self, run: Run, report: RunReport, *, whole: bool = False) -> list[Reservation]:
        """Take over a report of the current attempt or, `whole`, of all; returns the reservations that it settles."""
        before = run.usage, run.cost
        settled = self._allowances.account(run, report, whole=whole)
        self.tally.spend(run.agent, (before[0], run.usage), (before[1], run.cost))
        return settled

    def _doubt(self, run: Run) -> None:
        """Count what a run whose process is gone may have used beyond what it could report."""
        before = run.usage, run.cost
        self._allowances.doubt(run)
        self.tally.spend(run.agent, (before[0], run.usage), (before[1], run.cost))

    def _forget(self, root_run_id: str) -> None:
        tree = self._runs[root_run_id].subtree()
        for run in tree:
            del self._runs[run.run_id]
            self._graces.forget(run)
            run.changes = Changes()  # whoever still holds it may do with it what he likes
        self._changes.forget_tree(tree)
        driver = tree[0].driver
        driver.trees -= 1
        self._forget_driver(driver)

    def _forget_driver(self, driver: Driver) -> None:
        if driver.gone and not driver.trees and driver.hello.driver_id not in self._drivers:
            self._changes.forget_driver(driver.hello.driver_id)
