"""How the stream of a tree that lost a queue is made whole again: by the ledger, which has every run and its end.

Gaps say what is missing; terminal items are never missing. Everything goes to its place by what stands behind it: the end of a child before the
completion of the call it answers, and before its parent's end.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ...messages.failure import Failure
from ...messages.items import (
    AttemptDiscarded,
    ItemsDropped,
    RunCancelled,
    RunCompleted,
    RunFailed,
    Stamp,
    StreamItem,
    ToolCallCompleted,
)
from ...messages.result import RunRecord, RunResult, RunStatus
from ...messages.usage import Totals
from .seen import SeenRun, SeenRuns
from .tracking import UNKNOWN_TOTALS

End: TypeAlias = RunCompleted | RunFailed | RunCancelled

_LOST: Final = Failure(
    code="lost", message="its end was lost with a queue actor, and the ledger does not know it", retryable=True
)


def lost_gap(stamp: Stamp, first: int, last: int) -> ItemsDropped:
    """Return what stands for items that are gone with their queue."""
    numbers: dict[str, Any] = {"seq": last, "count": last - first + 1, "first_seq": first, "last_seq": last}
    return ItemsDropped(**dict(stamp), **numbers, time=time.time(), lost=True)


def end_of_result(stamp: Stamp, result: RunResult, seq: int) -> End:
    """Return the terminal item that tells a run's result."""
    totals = Totals(usage=result.usage, cost=result.cost, total_usage=result.total_usage, total_cost=result.total_cost)
    return _end(stamp, seq, result.status, totals, result.error, output=result.output, forced=result.forced)


class Mender:
    """Passes the items of one batch on, with what the ledger says is missing before them.

    Args:
        seen: What the reader passed on before.
        ledger: The tree's records by run id, newer than the batch.
    """

    def __init__(self, seen: SeenRuns, ledger: Mapping[str, RunRecord]) -> None:
        self._seen = seen
        self._ledger = ledger
        self._below: dict[str | None, list[RunRecord]] = defaultdict(list)
        for record in ledger.values():
            self._below[record.parent_run_id].append(record)

    def before(self, stamp: Stamp) -> Iterator[StreamItem]:
        """Yield what is missing before an attempt of a run speaks: the ends of its older attempts, and that its parent has spoken."""
        if stamp.parent_run_id is not None and self._seen.get(stamp.run_id) is None:
            yield from self._begin(stamp.parent_run_id, self._parent_attempt(stamp))
        yield from self._discards(stamp)

    def mended(self, run: SeenRun, items: Sequence[StreamItem]) -> Iterator[StreamItem]:
        """Yield items of a run that was followed up to their last."""
        for item in items:
            if isinstance(item, ToolCallCompleted) and item.child_run_id is not None:
                yield from self._ends(item.child_run_id)
                yield item
            elif isinstance(item, End) or (isinstance(item, AttemptDiscarded) and item.scope == "run"):
                seq = item.seq
                missing = self._missing(run.stamp, all_attempts=isinstance(item, End))
                # Whoever wrote the end had forgotten what the run said: it is no end that the run wrote itself.
                if missing and seq == 0:
                    yield lost_gap(run.stamp, 0, 0)
                    seq = 1
                for child in missing:
                    yield from self._ends(child)
                completions = _completions(run, seq)
                yield from completions
                yield self._end_of(run, item, seq + len(completions))
            else:
                yield item

    def _end_of(self, run: SeenRun, end: End | AttemptDiscarded, seq: int) -> End | AttemptDiscarded:
        """Return the end of a run, by the ledger where a queue closed it with a lost one above and had forgotten that it had ended before."""
        if isinstance(end, AttemptDiscarded):
            return end.model_copy(update={"seq": seq, "last_seq": seq - 1})
        record = self._ledger.get(run.stamp.run_id)
        if isinstance(end, RunCancelled) and record is not None and record.status in ("completed", "failed"):
            return _end(run.stamp, seq, record.status, self._totals(record), record.error)
        return end.model_copy(update={"seq": seq})

    def _ends(self, run_id: str) -> Iterator[StreamItem]:
        """Yield the ends that are missing of a run and of all below it."""
        record, run = self._ledger.get(run_id), self._seen.get(run_id)
        if run is not None and run.ended:
            return
        if record is not None and (run is None or run.stamp.attempt < record.attempt):
            yield from self._discards(_stamp(record))
            run = self._seen.of(_stamp(record))
        if run is None:
            return
        yield from self._ends_below(run.stamp, all_attempts=True)
        last = run.last_seq
        known = None if record is None else record.last_seq
        # Without a number that is known, the gap says that there was at least one item more.
        seq = last + 2 if known is None or known <= last else known
        if seq > last + 1:
            yield lost_gap(run.stamp, last + 1, seq - 1)
        run.last_seq, run.ended = seq, True
        if record is None:
            yield _end(run.stamp, seq, "failed", UNKNOWN_TOTALS, _LOST)
        else:
            yield _end(run.stamp, seq, record.status, self._totals(record), record.error)

    def _begin(self, run_id: str, attempt: int) -> Iterator[StreamItem]:
        """Yield a gap if an attempt has not spoken that somebody below it proves to have begun."""
        record, run = self._ledger.get(run_id), self._seen.get(run_id)
        if run is not None and run.stamp.attempt >= attempt and run.last_seq >= 0:
            return
        known = run.stamp if run is not None else None if record is None else _stamp(record)
        if known is None:
            return
        stamp = known.model_copy(update={"attempt": attempt})
        if stamp.parent_run_id is not None:
            yield from self._begin(stamp.parent_run_id, self._parent_attempt(stamp))
        yield from self._discards(stamp)
        yield from self._spoken(stamp)

    def _spoken(self, stamp: Stamp) -> Iterator[StreamItem]:
        """Yield a gap if an attempt has not spoken: its first item is lost, since it has begun."""
        run = self._seen.of(stamp)
        if run.last_seq < 0:
            run.last_seq = 0
            yield lost_gap(stamp, 0, 0)

    def _ends_below(self, stamp: Stamp, *, all_attempts: bool = False) -> Iterator[StreamItem]:
        """Yield the ends that are missing of the runs that an attempt started, or all attempts of its run."""
        missing = self._missing(stamp, all_attempts=all_attempts)
        if missing:
            yield from self._spoken(stamp)
        for child in missing:
            yield from self._ends(child)

    def _discards(self, stamp: Stamp) -> Iterator[StreamItem]:
        """Yield the ends that are missing of the attempts before one."""
        record = self._ledger.get(stamp.run_id)
        reasons = {} if record is None else {lost.attempt: lost.reason for lost in record.lost_attempts}
        for attempt in range(1, stamp.attempt):
            older = stamp.model_copy(update={"attempt": attempt})
            if (newest := self._seen.get(stamp.run_id)) is not None and newest.stamp.attempt > attempt:
                continue
            run = self._seen.of(older)
            if run.discarded:
                continue
            yield from self._ends_below(older)
            # How much it said before is not known.
            seq = run.last_seq + 2
            yield lost_gap(older, seq - 1, seq - 1)
            run.last_seq, run.discarded = seq, True
            yield AttemptDiscarded(
                **dict(older),
                seq=seq,
                time=time.time(),
                scope="run",
                discarded_attempt=attempt,
                first_seq=0,
                last_seq=seq - 1,
                reason=reasons.get(attempt, "its process was lost"),
            )

    def _parent_attempt(self, stamp: Stamp) -> int:
        record = self._ledger.get(stamp.run_id)
        return 1 if record is None else record.parent_attempt

    def _missing(self, stamp: Stamp, *, all_attempts: bool) -> list[str]:
        """Return the runs without an end that an attempt started, or all attempts of its run."""
        started = [
            record.run_id
            for record in self._below[stamp.run_id]
            if all_attempts or record.parent_attempt == stamp.attempt
        ]
        if all_attempts:
            started = list(dict.fromkeys([*self._seen.below(stamp.run_id), *started]))
        return [run_id for run_id in started if (run := self._seen.get(run_id)) is None or not run.ended]

    def _totals(self, record: RunRecord) -> Totals:
        total_usage, total_cost = record.usage, record.cost
        waiting = list(self._below[record.run_id])
        while waiting:
            below = waiting.pop()
            total_usage, total_cost = total_usage + below.usage, total_cost + below.cost
            waiting += self._below[below.run_id]
        return Totals(usage=record.usage, cost=record.cost, total_usage=total_usage, total_cost=total_cost)


def _completions(run: SeenRun, seq: int) -> list[ToolCallCompleted]:
    common: dict[str, Any] = {**dict(run.stamp), "time": time.time(), "outcome": "lost"}
    message = "its completion was lost with a queue actor"
    return [
        ToolCallCompleted(**common, seq=number, call_id=call_id, tool_name=tool_name, message=message)
        for number, (call_id, tool_name) in enumerate(run.open_calls.items(), seq)
    ]


def _stamp(record: RunRecord) -> Stamp:
    return Stamp(**{name: getattr(record, name) for name in Stamp.model_fields})


def _end(
    stamp: Stamp,
    seq: int,
    status: RunStatus,
    totals: Totals,
    error: Failure | None,
    output: Any = None,
    *,
    forced: bool = False,
) -> End:
    fields: dict[str, Any] = {**dict(stamp), **dict(totals), "seq": seq, "time": time.time()}
    if status == "completed":
        return RunCompleted(**fields, output=output)
    if status == "cancelled":
        return RunCancelled(**fields, reason=error.message if error else "", forced=forced)
    return RunFailed(**fields, error=error or _LOST)
