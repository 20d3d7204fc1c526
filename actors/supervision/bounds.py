"""Which bound, if any, stands against a new run or another call. Every ancestor with limits of its own bounds its sub-tree."""

from ...messages.control import ChargeReply, ChargeRequest
from ...messages.errors import LimitExceededError
from ...messages.failure import Failure
from ...messages.limits import Limits
from .records import Run


def refusal(parent: Run | None, attempt: int, now: float) -> Failure | None:
    """Return why a child of `parent`, in one of its attempts, must not start; `None` if it may."""
    if parent is None:
        return None
    if not parent.works(attempt):
        return _over(parent)
    if parent.flag is not None:
        return Failure(code="cancelled", message=f"run {parent.run_id} is cancelled ({parent.flag.reason})")
    if parent.deadline is not None and now >= parent.deadline:
        return _limit("deadline", "passed", "tree")
    for scope in parent.lineage():
        limits = scope.own_limits
        if limits is None:
            continue
        depth = parent.stamp.depth + 1 - scope.stamp.depth
        if limits.max_depth is not None and depth > limits.max_depth:
            return _limit("max_depth", limits.max_depth, _scope(scope))
        if limits.max_runs is not None and scope.admitted_runs >= limits.max_runs:
            return _limit("max_runs", limits.max_runs, _scope(scope))
        spent = _spent(scope, limits)
        if spent is not None:
            return spent
    return None


def charge(run: Run, request: ChargeRequest) -> ChargeReply:
    """Grant as many of the calls as every bound of the lineage allows, and count them."""
    if not run.works(request.attempt):
        return ChargeReply(granted_model_calls=0, granted_tool_calls=0, error=_over(run))
    model_calls, tool_calls = request.model_calls, request.tool_calls
    error: Failure | None = None
    for scope in run.lineage():
        limits = scope.own_limits
        if limits is None:
            continue
        if limits.max_model_calls is not None and model_calls > (
            left := limits.max_model_calls - scope.granted_model_calls
        ):
            model_calls, error = left, _limit("max_model_calls", limits.max_model_calls, _scope(scope))
        if limits.max_tool_calls is not None and tool_calls > (
            left := limits.max_tool_calls - scope.granted_tool_calls
        ):
            tool_calls, error = left, _limit("max_tool_calls", limits.max_tool_calls, _scope(scope))
        spent = _spent(scope, limits) if model_calls else None
        if spent is not None:
            model_calls, error = 0, spent
    for scope in run.lineage():
        scope.granted_model_calls += model_calls
        scope.granted_tool_calls += tool_calls
    return ChargeReply(granted_model_calls=model_calls, granted_tool_calls=tool_calls, error=error)


def _spent(scope: Run, limits: Limits) -> Failure | None:
    """Return which of the bounds on what was consumed is reached by what has been reported so far."""
    if limits.max_tokens is not None and scope.tokens >= limits.max_tokens:
        return _limit("max_tokens", limits.max_tokens, _scope(scope))
    if limits.max_cost is not None and (scope.totals().total_cost.amount or 0) >= limits.max_cost:
        return _limit("max_cost", limits.max_cost, _scope(scope))
    return None


def _over(run: Run) -> Failure:
    return Failure(
        code="cancelled", message=f"run {run.run_id} has ended: it makes no more calls and starts no more sub-agents"
    )


def _limit(name: str, allowed: object, scope: str) -> Failure:
    return LimitExceededError(name, str(allowed), scope).failure()


def _scope(run: Run) -> str:
    return "tree" if run.parent is None else f"sub-tree of {run.agent}"
