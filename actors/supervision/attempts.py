"""What follows the loss of a run's process: another attempt, or the end of the run (S7). Decided once for each attempt.

Started again is a run whose process is gone, or was about to be there: killed, out of memory, out of reach, or on a lost node. Not started again
is a run

- that is cancelled, or whose deadline has passed: a kill by the supervisor follows a cancel, so it never leads to another attempt;
- whose parent is gone or lost, which has set its flag; the parent, started again, asks for children of its own;
- that no other process would serve better (`LossReport.error`): no node has room for it, its node lacks a package, versions differ, the queue or the
  supervisor it needs is gone;
- with an open call of a tool that must not run twice;
- that has used up its attempts. An attempt that was preempted does not count.
"""

from ...messages.control import LaneAddress
from ...messages.failure import Failure
from ...messages.loss import LossReport, LossVerdict
from ...messages.result import AttemptRecord
from ...messages.usage import NO_COST, NO_USAGE
from .answers import admitted
from .lending import Lending
from .records import Run


def below(run: Run, attempt: int) -> list[Run]:
    """Return the runs below one attempt of a run, deepest last."""
    found = [child for child in run.children if child.parent_attempt == attempt]
    for each in found:
        found.extend(each.children)
    return found


def final_failure(run: Run, report: LossReport, now: float) -> Failure | None:
    """Return what a lost run ends with; `None` if it has another attempt."""
    if run.flag is not None or report.error is not None:
        return report.failure()
    if report.in_doubt is not None:
        return in_doubt(run, report.in_doubt)
    lost = report.failure()
    if run.deadline is not None and now >= run.deadline:
        return _ended_by(lost, "its deadline has passed")
    if any(each.live for each in below(run, run.stamp.attempt)):
        return _ended_by(lost, "runs below it could not be ended")
    counted = sum(not each.preempted for each in run.lost_attempts) + (not _preempted(run, report))
    if counted >= run.request.max_attempts:
        return (
            lost
            if run.request.max_attempts == 1
            else _ended_by(lost, f"max_attempts={run.request.max_attempts} are used up")
        )
    return None


def in_doubt(run: Run, tool: str) -> Failure:
    """Return the failure of a run that lost its process while a call was open that must not be made twice."""
    return Failure(
        code="in_doubt",
        message=f"the process of run {run.run_id} is gone, and it is not known whether its call of the tool {tool} took effect. "
        f"The tool must not run twice (idempotent=False), so the run is not started again. Look whether the call took effect, then "
        f"start a new run; or let the tool use ToolContext.idempotency_key and declare it idempotent",
    )


def begin_next(run: Run, report: LossReport, now: float, lending: Lending) -> LossVerdict:
    """Make a run ready for its next attempt. Its accounts so far are kept, those of the new attempt begin at zero."""
    lost, preempted = run.stamp.attempt, _preempted(run, report)
    under = below(run, lost)
    run.lost_attempts += (
        AttemptRecord(
            attempt=lost,
            usage=run.attempt_usage,
            cost=run.attempt_cost,
            started=run.attempt_started,
            ended=now,
            reason=report.reason,
            preempted=preempted,
        ),
    )
    run.attempt_usage, run.attempt_cost = run.reported = NO_USAGE, NO_COST
    run.attempt_started = run.progress = now
    run.stamp = run.stamp.model_copy(update={"attempt": lost + 1})
    run.status, run.lost, run.preempted = "pending", None, False
    # The new process counts its calls from the start.
    run.report_number = run.slot_number = -1
    for numbered in (run.decisions, run.doubts):
        numbered.clear()
    run.lease = lending.lend(run.driver, run.request, run.stamp.root_run_id, run.stamp.attempt)
    run.touch()
    verdict = run.verdicts[lost] = LossVerdict(
        status="failed",
        reason=report.reason,
        forced=False,
        lanes=_lanes_of(run, under),
        below=tuple(each.run_id for each in under),
        preempted=preempted,
        again=admitted(run),
    )
    return verdict


def verdict_of(run: Run, report: LossReport) -> LossVerdict:
    """Return what the loss of a run counts as that has ended."""
    # A flagged run that was killed while it reported a normal end has lost its result all the same.
    flag = run.flag
    return LossVerdict(
        status="failed" if flag is None else "cancelled",
        reason=report.reason if flag is None else flag.reason,
        forced=run.forced,
        error=run.error or report.failure() if flag is None else Failure(code="cancelled", message=flag.reason),
        lanes=_lanes_of(run, below(run, report.attempt)),
        preempted=flag is None and _preempted(run, report),
    )


def _lanes_of(run: Run, under: list[Run]) -> tuple[LaneAddress, ...]:
    lanes = [each.own_lane for each in [run, *under]]
    return tuple(lane for lane in reversed(lanes) if lane is not None)


def _preempted(run: Run, report: LossReport) -> bool:
    return run.preempted or report.preempted


def _ended_by(lost: Failure, why: str) -> Failure:
    return lost.model_copy(update={"message": f"{lost.message}; it is not started again: {why}"})
