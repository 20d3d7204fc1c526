"""The registry of runs: who runs below whom, whose flag is set, who has ended, and what it cost. A state machine without I/O.

Time comes in as an argument (seconds since the epoch); orders for processes go out through `mailboxes`; what has to be killed is returned by
`condemn_due`. It is the one place that decides lineage, admission and the outcome of a race between a cancel and a normal end.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final

from ...messages.control import (
    Admission,
    AdmitReply,
    AdmitRequest,
    CancelOrder,
    ChargeReply,
    ChargeRequest,
    ChildRequest,
    DriverHello,
    EndReport,
    LaneAddress,
    Refused,
    RunReport,
)
from ...messages.errors import RuntimeUnavailableError, UnknownRunError
from ...messages.items import Stamp
from ...messages.limits import Limits
from ...messages.loss import LossReport, LossVerdict
from ...messages.result import RunInfo, RunRecord, RunStatus
from ...messages.usage import Cost, Totals, Usage
from . import attempts, bounds
from .answers import admitted, remember, sooner
from .changes import Changes
from .graces import Graces
from .lending import NEVER, Kill, Lending
from .mailboxes import Mailboxes
from .records import Driver, Flag, Run
from .tally import Tally

KEPT_TREES: Final = 1000
"""Ended trees that are remembered, for `ps` and for late questions."""

ORPHAN_GRACE: Final = 2.0
"""Seconds for the sub-tree of a lost run."""

_DEFAULT_LIMITS: Final = Limits()


class Registry:
    """All live runs of a namespace, and the last ended trees."""

    def __init__(
        self, namespace: str, mailboxes: Mailboxes, drivers: Iterable[Driver] = (), runs: Sequence[Run] = ()
    ) -> None:
        """Make a registry, empty or with what an earlier supervisor knew: see `restored`."""
        self._namespace = namespace
        self._mailboxes = mailboxes
        self.tally = Tally()
        """What has happened, for metrics."""
        self._lending = Lending(mailboxes)
        self._changes = mailboxes.changes
        self._ordinal = max((run.ordinal for run in runs), default=0)
        self._drivers = {driver.hello.driver_id: driver for driver in drivers if not driver.gone}
        self._runs = {run.run_id: run for run in runs}
        # Of trees that ended together, with their driver, the last one did first.
        ended = sorted((run.ended, -run.ordinal, run.run_id) for run in runs if run.ended and run.parent is None)
        self._ended_trees = OrderedDict[str, None].fromkeys(run_id for _, _, run_id in ended)
        self._graces = Graces()
        for run in runs:
            if run.live and run.flag is not None:
                self._graces.watch(run)

    # Drivers

    def join(self, hello: DriverHello, now: float) -> None:
        """Take up a driver; joining again changes nothing."""
        if hello.driver_id not in self._drivers:
            driver = self._drivers[hello.driver_id] = Driver(hello, seen=now, changes=self._changes)
            driver.touch()

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
        # Children first: they are lost as their parents are, not cancelled after them.
        for run in [run for run in reversed(self._runs.values()) if run.driver is driver and run.live]:
            run.error = LossReport(run_id=run.run_id, attempt=run.stamp.attempt, reason=reason).failure()
            self._end(run, "failed" if run.flag is None else "cancelled", now)
        self._mailboxes.close(driver_id)
        driver.gone = True
        driver.touch()
        self._forget_driver(driver)

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
        admissions = tuple(self._admit_one(driver, parent, request.attempt, child, now) for child in request.children)
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

    def charge(self, request: ChargeRequest) -> ChargeReply:
        """Grant calls within the bounds of the lineage; a repeated call gets the same answer."""
        run = self.get(request.run_id)
        current = run.works(request.attempt)
        if current and request.number in run.charges:
            return run.charges[request.number]
        reply = bounds.charge(run, request)
        if current:
            remember(run.charges, request.number, reply)
        for scope in run.lineage():
            scope.touch()
        return reply

    def report(self, report: RunReport) -> Totals:
        """Take a snapshot of a run's accounts; older ones than the last are ignored."""
        run = self.get(report.run_id)
        if report.attempt == run.stamp.attempt and report.number > run.report_number:
            run.report_number = report.number
            self._account(run, report.usage, report.cost)
        return run.totals()

    def end(self, report: EndReport, now: float) -> None:
        """Note that a run ended by itself, and give its actor back to the pool unless it is worn out or condemned."""
        run = self.get(report.run_id)
        if report.from_stream and report.attempt == run.stamp.attempt:
            self._account(run, report.usage, report.cost, whole=True)
        else:
            self.report(report)
        # Of a run that was given up, what readers have seen decides, and not what its process says if it was only out of reach.
        if report.attempt != run.stamp.attempt or (run.lost is not None and not report.from_stream):
            return
        if not run.live:
            if report.from_stream:
                # It was killed or lost when it had told its end already: what readers have seen counts.
                run.status, run.error = report.status, report.error
                run.touch()
            return
        run.error = report.error
        self._end(run, report.status, now)
        self._lending.take_back(run, now, reusable=report.reusable)

    def lose(self, report: LossReport, now: float) -> None:
        """Note that a run's process is gone, and set the flags of all below it. What follows is for `judge` to say, once those have ended."""
        run = self.get(report.run_id)
        if not run.works(report.attempt):
            return
        run.lost = report
        run.touch()
        self._doubt_accounts(run)
        self._lending.forget_orders(run)
        self._orphan(run, now)
        self._lending.lose(run, now + ORPHAN_GRACE)

    def judge(self, report: LossReport, now: float) -> LossVerdict:
        """Decide what follows a loss: another attempt, which is admitted here, or the end of the run. A repeated call gets the same answer."""
        run = self.get(report.run_id)
        if report.attempt in run.verdicts:
            return run.verdicts[report.attempt]
        if run.lost is not None and report.attempt == run.stamp.attempt:
            run.error = attempts.final_failure(run, report, now)
            if run.error is None:
                return attempts.begin_next(run, report, now, self._lending)
            self._end(run, "failed" if run.flag is None else "cancelled", now)
        return attempts.verdict_of(run, report)

    # Cancel

    def cancel(self, run_id: str, reason: str, grace: float, now: float) -> list[Run]:
        """Set the flags of a run and all below it; returns the live ones. A second cancel changes nothing but a longer grace."""
        top = self._runs.get(run_id)
        live = [run for run in top.subtree() if run.live] if top is not None else []
        for run in live:
            if run.flag is None:
                run.flag = Flag(reason, grace, now)
                self._graces.watch(run)
                run.touch()
                order = CancelOrder(run_id=run.run_id, attempt=run.stamp.attempt, reason=reason, grace=grace)
                if run.lost is None:
                    self._mailboxes.put(run.lease.actor, order)
            elif grace < run.flag.grace:
                run.flag = replace(run.flag, grace=grace)
                self._graces.watch(run)
                run.touch()
        return live

    def condemn_due(self, now: float) -> list[Kill]:
        """Condemn the runs that outlived their grace, children first; returns those whose actors are to be killed now."""
        for run in self._graces.due(now):
            if run.lost is not None or run.preempted:
                # Its process is gone, and so is whoever would tell what follows.
                self._end(run, "cancelled", now)
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
            self._doubt_accounts(run)
            self._end(run, "cancelled", now)

    def shrink_pools(self, now: float) -> None:
        """Have actors ended that have been idle for long."""
        self._lending.shrink(self._drivers.values(), now)

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

    def _admit_one(
        self,
        driver: Driver,
        parent: Run | None,
        attempt: int,
        child: ChildRequest,
        now: float,
    ) -> Admission:
        known = self._runs.get(child.run_id)
        if known is not None and (parent is None or parent.works(attempt)):
            return admitted(known)
        error = None if parent is None else parent.refusals.get(child.run_id)
        if error is None:
            error = bounds.refusal(parent, attempt, now)
            if error is not None and parent is not None:
                remember(parent.refusals, child.run_id, error)
                parent.touch()
        if error is not None:
            return Refused(run_id=child.run_id, error=error)
        own_limits = child.limits if parent is not None else child.limits or _DEFAULT_LIMITS
        limits = (own_limits or Limits(max_depth=None)) if parent is None else parent.limits.narrow(own_limits)
        stamp = Stamp(
            run_id=child.run_id,
            parent_run_id=None if parent is None else parent.run_id,
            root_run_id=child.run_id if parent is None else parent.stamp.root_run_id,
            depth=0 if parent is None else parent.stamp.depth + 1,
        )
        if parent is None:
            lane = LaneAddress(queue=driver.next_queue_name(), lane=f"driver:{child.run_id}")
        else:
            lane = parent.take_own_lane()
        lease = self._lending.lend(driver, child, stamp.root_run_id)
        self._ordinal += 1
        run = Run(
            ordinal=self._ordinal,
            changes=self._changes,
            stamp=stamp,
            agent=child.agent,
            call_id=child.call_id,
            driver=driver,
            parent=parent,
            lane=lane,
            own_limits=own_limits,
            limits=limits,
            request=child,
            parent_attempt=attempt,
            deadline=sooner(None if parent is None else parent.deadline, own_limits, now),
            started=now,
            progress=now,
            attempt_started=now,
            model=child.model,
            lease=lease,
        )
        self._runs[run.run_id] = run
        if parent is None:
            driver.trees += 1
        else:
            parent.adopt(run)
        self.tally.begin(run.agent, poolable=child.poolable, warm=lease.warm)
        run.touch()
        return admitted(run)

    def _end(self, run: Run, status: RunStatus, now: float) -> None:
        """Note an end. What still lives below the run has nobody to report to any more: its flags are set."""
        run.status, run.ended, run.lost = status, now, None
        self.tally.end(run.agent, status, run.cost)
        run.touch()
        self._graces.forget(run)
        self._lending.forget_orders(run)
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

    def _doubt_accounts(self, run: Run) -> None:
        """Mark that a run whose process is gone may have used more than it could report."""
        if run.status == "running":
            usage, cost = Usage(precision="unknown"), Cost(precision="unknown")
            self._account(run, run.attempt_usage + usage, run.attempt_cost + cost)

    def _account(self, run: Run, usage: Usage, cost: Cost, *, whole: bool = False) -> None:
        """Take a cumulative snapshot of a run's own accounts: of its current attempt, or, `whole`, of all attempts."""
        old_usage, old_cost = run.usage, run.cost
        (run.account_whole if whole else run.account)(usage, cost)
        self.tally.spend(run.agent, (old_usage, run.usage), (old_cost, run.cost))

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
