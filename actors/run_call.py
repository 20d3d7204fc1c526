"""One call of a RunActor, from an admission to the run's end: shared by the driver, which starts roots, and by runs, which start children.

Whoever makes the call also sees it fail when the process is gone. Then the supervisor is told, which ends what is below the run and decides: either
the queues discard the attempt and the next one is started from here, or they write the end that the run could not.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from ..messages.control import Admitted, EndReport, LaneAddress
from ..messages.errors import RunLostError, RuntimeUnavailableError, RuntreeError
from ..messages.failure import Failure
from ..messages.items import RunCancelled, RunCompleted, RunFailed, Stamp, TerminalItem
from ..messages.loss import LossReport, LossVerdict
from ..messages.result import RunResult, RunStatus
from .actor_start import PART, ActorStarts, demand, ready
from .jobs import Keys, RunEnd, RunJob
from .lane_client import QueueClients
from .remote import ActorGoneError, Handle, NodeUnfitError, UnreachableError, call, find, kill
from .run_channels import RunChannels
from .shared_actors import SharedActors
from .stream.tracking import Ending
from .supervisor_client import SupervisorClient

_LAST_REPORT: Final = 2**53
"""Number of the report that is made for a run which can make none any more."""


_KNOWN_ACTORS: Final = 256
_known: OrderedDict[str, Handle] = OrderedDict()
"""Warm actors this process has called, the latest last. Holding their handles does not keep them alive: their driver kills them."""


class RunCaller:
    """Starts admitted runs and returns their ends."""

    def __init__(
        self, supervisor: SupervisorClient, queues: QueueClients, starts: ActorStarts, channels: RunChannels
    ) -> None:
        self._channels = channels
        self._starts = starts
        self._shared = SharedActors(supervisor)
        self._supervisor = supervisor
        self._queues = queues
        self._namespace = supervisor.namespace

    async def run(
        self,
        job: RunJob,
        keys: Keys,
        resources: Mapping[str, float] | None = None,
        unrepeatable: Collection[str] = (),
    ) -> RunResult:
        """Run a job to its end, over as many attempts as it takes and has; never raises for what happens to the run.

        Returns only after the run's terminal item was accepted by its parent's lane.

        Args:
            job: The run, as it was admitted.
            keys: Keys of its models.
            resources: What it asks of its node.
            unrepeatable: Names of its tools whose calls must not be made twice.
        """
        while True:
            outcome = await self._attempt(job, keys, resources, unrepeatable)
            if isinstance(outcome, RunResult):
                return outcome
            job = replace(job, admitted=outcome)

    async def _attempt(
        self, job: RunJob, keys: Keys, resources: Mapping[str, float] | None, unrepeatable: Collection[str]
    ) -> RunResult | Admitted:
        """Make one attempt; returns the end of the run, or the next attempt if the process was lost."""
        admitted = job.admitted
        handle: Handle | None = None
        try:
            handle = await self._actor(admitted, job, resources)
            end = await self._call(handle, job, keys)
        except RuntreeError as error:
            if handle is not None and not admitted.shared:
                # Nothing is waited for any more: a process that is only out of reach must not go on.
                await asyncio.to_thread(kill, handle)
            return await self._lost(admitted, error, unrepeatable)
        if not admitted.shared and (admitted.actor is None or not end.reusable):
            await asyncio.to_thread(kill, handle)
        return RunResult.from_json(end.result)

    async def _call(self, handle: Handle, job: RunJob, keys: Keys) -> RunEnd:
        if job.admitted.shared:
            return await self._channels.run(handle, job, keys)
        end: RunEnd = await call(handle, "run", job, keys, part=PART, timeout=None)
        return end

    async def _actor(self, admitted: Admitted, job: RunJob, resources: Mapping[str, float] | None) -> Handle:
        """Return the leased warm actor, or start a cold one."""
        if admitted.shared:
            return await self._shared.get(job, resources)
        if admitted.actor is not None:
            return await _warm_actor(admitted.actor, self._namespace)
        async with self._starts.room:
            stamp = admitted.stamp
            reason = await self._supervisor.stopped(stamp.run_id, stamp.attempt)
            if reason is not None:
                raise RunLostError(stamp.run_id, f"it was not started: {reason}")
            return await self._started(admitted, job, resources)

    async def _started(self, admitted: Admitted, job: RunJob, resources: Mapping[str, float] | None) -> Handle:
        handle = self._starts.start_actor(admitted.actor_name, self._namespace, demand(resources))
        try:
            await ready(handle, resources, job.tree.schedule_timeout)
        except ActorGoneError:
            raise
        except RuntimeUnavailableError:
            await asyncio.to_thread(kill, handle)
            raise
        return handle

    async def _lost(
        self, admitted: Admitted, error: RuntreeError, unrepeatable: Collection[str]
    ) -> RunResult | Admitted:
        """Have everything written that a run without a process can't write any more; returns its end or its next attempt."""
        stamp = admitted.stamp
        report = _report(stamp, error)
        own_lane = await self._supervisor.note_loss(report)
        # Once nothing more is taken of the attempt, it is certain whether it has ended and which of its calls are open.
        in_doubt = await self._seal(admitted, own_lane, unrepeatable)
        if (end := await self._end_of(admitted, own_lane)) is not None:
            return await self._ended(end)
        verdict = await self._supervisor.lost(report.model_copy(update={"in_doubt": in_doubt}))
        if verdict.again is not None:
            discarded = Ending(cancelled=False, reason=verdict.reason, again=True, below=verdict.below)
            await self._close(admitted, verdict, discarded)
            return verdict.again
        totals = await self._supervisor.totals(stamp.run_id)
        cancelled = verdict.status == "cancelled"
        ending = Ending(
            cancelled=cancelled, reason=verdict.reason, forced=verdict.forced, totals=totals, error=verdict.error
        )
        await self._close(admitted, verdict, ending)
        return RunResult(
            run_id=stamp.run_id, status=verdict.status, error=verdict.error, forced=verdict.forced, **dict(totals)
        )

    async def _seal(
        self, admitted: Admitted, own_lane: LaneAddress | None, unrepeatable: Collection[str]
    ) -> str | None:
        """Have nothing more taken of an attempt; returns a tool that must not run twice and whose call may have been made, if there is one."""
        stamp, home = admitted.stamp, admitted.lane
        own = own_lane if own_lane is not None and own_lane.queue != home.queue else home
        calls: dict[str, str] = {}
        try:
            standing = await self._queues[own.queue].standing(stamp, own.lane, seal=True)
            calls, certain = standing.open_calls, standing.certain
            if own is not home:
                before = await self._queues[home.queue].standing(stamp, home.lane, seal=False)
                calls = {
                    each: before.open_calls[each] for each in before.open_calls.keys() - standing.completed
                } | calls
                certain = certain and before.certain
        except RuntimeUnavailableError:
            certain = False
        if not certain:
            # Nobody knows which calls were made.
            calls = {name: name for name in unrepeatable}
        return next((name for name in calls.values() if name in unrepeatable), None)

    async def _end_of(self, admitted: Admitted, own_lane: LaneAddress | None) -> TerminalItem | None:
        """Return the terminal item of a run, if it told one; its parent's lane has it then."""
        stamp, home = admitted.stamp, admitted.lane
        with contextlib.suppress(RuntimeUnavailableError):
            if own_lane is not None and own_lane.queue != home.queue:
                queue = self._queues[own_lane.queue]
                if await queue.end_of(stamp, own_lane.lane) is not None:
                    await queue.settled(own_lane.lane)
            return await self._queues[home.queue].end_of(stamp, home.lane)
        return None

    async def _ended(self, end: TerminalItem) -> RunResult:
        """Return the end of a run that told it before its process went: what readers have seen counts."""
        status, _, error = _meaning(end)
        report = EndReport(
            run_id=end.run_id,
            attempt=end.attempt,
            number=_LAST_REPORT,
            usage=end.usage,
            cost=end.cost,
            status=status,
            error=error,
            reusable=False,
            from_stream=True,
            last_seq=end.seq,
        )
        await self._supervisor.end(report)
        return _result_of(end)

    async def _close(self, admitted: Admitted, verdict: LossVerdict, ending: Ending) -> None:
        for lane in _lanes_of_their_own(verdict.lanes, admitted.lane):
            queue = self._queues[lane.queue]
            await queue.close(admitted.stamp, lane.lane, ending, known_only=True)
            if ending.cancelled:
                await queue.thin(lane.lane)
            await queue.settled(lane.lane)
        await self._queues[admitted.lane.queue].close(admitted.stamp, admitted.lane.lane, ending)


async def _warm_actor(name: str, namespace: str) -> Handle:
    """Return a warm actor; a process that called it before has its handle and connection still. Names are never used again."""
    handle = _known.pop(name, None)
    if handle is None:
        handle = await find(name, namespace, PART)
    _known[name] = handle
    while len(_known) > _KNOWN_ACTORS:
        _known.popitem(last=False)
    return handle


def _report(stamp: Stamp, error: RuntreeError) -> LossReport:
    """Return what an error of a run's call means: a lost process, or something that another process would meet again."""
    lost = isinstance(error, ActorGoneError | UnreachableError) and error.part == PART
    if isinstance(error, NodeUnfitError):
        lost = False
    failure = None if lost else error.failure()
    return LossReport(run_id=stamp.run_id, attempt=stamp.attempt, reason=str(error), error=failure)


def _result_of(end: TerminalItem) -> RunResult:
    status, output, error = _meaning(end)
    forced = isinstance(end, RunCancelled) and end.forced
    return RunResult(run_id=end.run_id, status=status, output=output, error=error, forced=forced, **dict(end.totals))


def _meaning(end: TerminalItem) -> tuple[RunStatus, Any, Failure | None]:
    """Return status, output and failure of an end."""
    if isinstance(end, RunCompleted):
        return "completed", end.output, None
    if isinstance(end, RunCancelled):
        return "cancelled", None, Failure(code="cancelled", message=end.reason)
    return "failed", None, end.error if isinstance(end, RunFailed) else None


def _lanes_of_their_own(lanes: tuple[LaneAddress, ...], home: LaneAddress) -> tuple[LaneAddress, ...]:
    """Return the lanes whose items take another way than the home lane's; none as long as a tree is in one queue."""
    return lanes if any(lane.queue != home.queue for lane in lanes) else ()
