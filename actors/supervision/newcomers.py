"""Who may start, and how an admitted run comes to be: its lineage, the bounds and the lane it inherits, and the actor it is given."""

from typing import Final

from ...messages.control import Admission, AdmitAnswer, Admitted, ChildRequest, LaneAddress, Postponed, Refused
from ...messages.items import Stamp
from ...messages.limits import Limits
from .allowances import Allowances
from .answers import admitted, remember, sooner
from .bounds import refusal
from .lending import Lending
from .mailboxes import Mailboxes
from .records import Driver, Run
from .tally import Tally

_DEFAULT_LIMITS: Final = Limits()


class Newcomers:
    """Admits runs. A run that was asked for before gets the same answer, or meanwhile the decision."""

    def __init__(self, runs: dict[str, Run], lending: Lending, tally: Tally, mailboxes: Mailboxes) -> None:
        self._runs = runs
        self._lending = lending
        self._tally = tally
        self._changes = mailboxes.changes
        self._ordinal = max((run.ordinal for run in runs.values()), default=0)
        self.allowances = Allowances(mailboxes, self._admit_postponed)

    def admit(self, driver: Driver, parent: Run | None, attempt: int, child: ChildRequest, now: float) -> AdmitAnswer:
        """Admit a run, refuse it, or have it wait for a parallel slot."""
        known = self._runs.get(child.run_id)
        if known is not None and (parent is None or parent.works(attempt)):
            return self._admitted(known, now)
        if self.allowances.postponed(child.run_id):
            return Postponed(run_id=child.run_id)
        error = None if parent is None else parent.refusals.get(child.run_id)
        if error is None:
            error = refusal(parent, attempt, now)
            if error is not None and parent is not None:
                remember(parent.refusals, child.run_id, error)
                parent.touch()
        if error is not None:
            return Refused(run_id=child.run_id, error=error)
        if parent is not None and self.allowances.postpone(parent, child):
            parent.take_own_lane()
            return Postponed(run_id=child.run_id)
        return self._create(driver, parent, child, now)

    def _admit_postponed(self, parent: Run, child: ChildRequest, now: float) -> Admission:
        error = refusal(parent, parent.stamp.attempt, now)
        if error is not None:
            return Refused(run_id=child.run_id, error=error)
        return self._create(parent.driver, parent, child, now)

    def _create(self, driver: Driver, parent: Run | None, child: ChildRequest, now: float) -> Admitted:
        self._ordinal += 1
        run = new_run(driver, parent, child, self._lending, now)
        run.ordinal, run.changes = self._ordinal, self._changes
        self._runs[run.run_id] = run
        self.allowances.begin(run)
        self._tally.begin(run.agent, poolable=child.poolable, warm=run.lease.warm)
        run.touch()
        return self._admitted(run, now)

    def _admitted(self, run: Run, now: float) -> Admitted:
        models = self.allowances.models
        return admitted(run).model_copy(update={"limited_models": models.limited, "paused_models": models.paused(now)})


def new_run(driver: Driver, parent: Run | None, child: ChildRequest, lending: Lending, now: float) -> Run:
    """Make a run; nothing stands against it any more."""
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
    lease = lending.lend(driver, child, stamp.root_run_id)
    run = Run(
        stamp=stamp,
        agent=child.agent,
        call_id=child.call_id,
        driver=driver,
        parent=parent,
        lane=lane,
        own_limits=own_limits,
        limits=limits,
        deadline=sooner(None if parent is None else parent.deadline, own_limits, now),
        started=now,
        progress=now,
        model=child.model,
        lease=lease,
        request=child,
        parent_attempt=1 if parent is None else parent.stamp.attempt,
        attempt_started=now,
    )
    if parent is None:
        driver.trees += 1
    else:
        parent.adopt(run)
    return run
