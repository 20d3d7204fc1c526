"""Which bound, if any, stands against a new run or another call. Every ancestor with limits of its own bounds its sub-tree."""

from ...messages.errors import LimitExceededError
from ...messages.failure import Failure
from .records import Run


def refusal(parent: Run | None, attempt: int, now: float) -> Failure | None:
    """Return why a child of `parent`, in one of its attempts, must not start; `None` if it may."""
    if parent is None:
        return None
    error = stopped(parent, attempt, now)
    if error is not None:
        return error
    for scope in reversed(parent.bounds):
        limits, top = scope.limits, scope.run
        depth = parent.stamp.depth + 1 - top.stamp.depth
        if limits.max_depth is not None and depth > limits.max_depth:
            return scope.failure("max_depth")
        if limits.max_runs is not None and top.admitted_runs >= limits.max_runs:
            return scope.failure("max_runs")
        spent = scope.spent()
        if spent is not None:
            return scope.failure(spent)
    return None


def stopped(run: Run, attempt: int, now: float) -> Failure | None:
    """Return why an attempt of a run makes no more calls; `None` if it may."""
    if not run.works(attempt):
        return over(run)
    if run.flag is not None:
        return cancelled(run.run_id, run.flag.reason)
    if run.deadline is not None and now >= run.deadline:
        return passed()
    return None


def over(run: Run) -> Failure:
    """Return that a run is over."""
    return Failure(
        code="cancelled", message=f"run {run.run_id} has ended: it makes no more calls and starts no more sub-agents"
    )


def cancelled(run_id: str, reason: str) -> Failure:
    """Return that a run is cancelled."""
    return Failure(code="cancelled", message=f"run {run_id} is cancelled ({reason})")


def passed() -> Failure:
    """Return that the deadline has passed."""
    return LimitExceededError("deadline", "passed", "tree").failure()
