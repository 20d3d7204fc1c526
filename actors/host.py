"""A run's surroundings inside a RunActor: its emitter, its accounts, its children."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from ..messages.control import (
    AdmitAnswer,
    AdmitRequest,
    Admitted,
    CancelRequest,
    ChildRequest,
    RunReport,
)
from ..messages.errors import InternalError, RuntimeUnavailableError
from ..messages.items import Item, Stamp
from ..messages.limits import Limits
from ..messages.reservations import Budget, ReserveReply, ReserveRequest, SlotRequest, ThrottleReport
from ..messages.result import RunResult
from ..messages.usage import Cost, Totals, Usage
from .actor_start import ActorStarts
from .agent import AgentSet, Pauses
from .jobs import Keys, RunJob
from .lane_client import QueueClients
from .pickling import pack
from .run_call import RunCaller
from .run_channels import RunChannels
from .stream.emitter import Emitter
from .supervisor_client import SupervisorClient


class RunActorHost:
    """The ports of `AgentRun`, on Ray. It belongs to the run's event loop."""

    def __init__(
        self,
        job: RunJob,
        keys: Keys,
        supervisor: SupervisorClient,
        queues: QueueClients,
        starts: ActorStarts,
        channels: RunChannels,
        pauses: Pauses,
        limited_models: set[str],
    ) -> None:
        self._job = job
        self.keys = keys
        self._admitted = job.admitted
        self._supervisor = supervisor
        self._limited_models = limited_models
        limited_models.update(job.admitted.limited_models)
        self._pauses = pauses
        for model, until in job.admitted.paused_models.items():
            pauses.put(model, until)
        self._queues = queues
        self._caller = RunCaller(supervisor, self._queues, starts, channels)
        lane = self._admitted.lane
        self._emitter = Emitter(self.stamp, self._queues[lane.queue], lane.lane)
        self._numbers = itertools.count(1)
        self._admitting = asyncio.Lock()
        self._lane = lane
        self._call_ids: dict[str, str | None] = {}
        self.agents: AgentSet | None = None
        """The agents of the tree, once they are loaded."""
        self._thinning: asyncio.Task[None] | None = None
        self._deadline_timer = self._thin_at_deadline()

    # The run's identity

    @property
    def stamp(self) -> Stamp:
        """See `RunHost`."""
        return self._admitted.stamp

    @property
    def limits(self) -> Limits:
        """See `RunHost`."""
        return self._admitted.limits

    @property
    def deadline(self) -> float | None:
        """See `RunHost`."""
        return self._admitted.deadline

    # Emitting

    def emit(self, item_type: type[Item], **fields: Any) -> None:
        """See `Emitting`."""
        self._emitter.emit(item_type, **fields)

    def emit_delta(self, kind: str, **fields: Any) -> None:
        """See `Emitting`."""
        self._emitter.emit_delta(kind, **fields)

    async def ready(self) -> None:
        """See `Emitting`."""
        await self._emitter.ready()

    async def delivered(self) -> bool:
        """See `Emitting`."""
        await self._emitter.flush()
        return self._emitter.is_heard

    @property
    def next_seq(self) -> int:
        """See `Emitting`."""
        return self._emitter.next_seq

    def thin(self) -> None:
        """Stop waiting for a slow reader: the run is over."""
        self._emitter.thin()
        if self._lane.queue != self._admitted.lane.queue and self._thinning is None:
            self._thinning = asyncio.get_running_loop().create_task(self._thin_lane())

    async def _thin_lane(self) -> None:
        # If the queue is gone, nothing waits there.
        with contextlib.suppress(RuntimeUnavailableError):
            await self._queues[self._lane.queue].thin(self._lane.lane)

    async def settle(self) -> None:
        """Return when the parent's lane has accepted everything."""
        await self._emitter.flush()
        if self._lane.queue != self._admitted.lane.queue:
            await self._queues[self._lane.queue].settled(self._lane.lane)

    # Accounting

    async def begin(self) -> str | None:
        """Tell the supervisor that the run begins; returns the reason if it is cancelled already."""
        return await self._supervisor.begin(self.stamp.run_id, self.stamp.attempt)

    def next_number(self) -> int:
        """See `Accounting`."""
        return next(self._numbers)

    async def reserve(self, request: ReserveRequest) -> ReserveReply:
        """See `Accounting`."""
        return await self._supervisor.reserve(request)

    async def slot(self, request: SlotRequest) -> ReserveReply:
        """See `Accounting`."""
        return await self._supervisor.slot(request)

    async def throttle(self, report: ThrottleReport) -> None:
        """See `Accounting`."""
        await self._supervisor.throttle(report)

    async def budget(self) -> Budget:
        """See `Accounting`."""
        return await self._supervisor.budget(self.stamp.run_id)

    @property
    def limited_models(self) -> set[str]:
        """See `Accounting`."""
        return self._limited_models

    @property
    def pauses(self) -> Pauses:
        """See `Accounting`."""
        return self._pauses

    async def report(self, usage: Usage, cost: Cost, settled: Mapping[int, int]) -> Totals:
        """See `Accounting`."""
        return await self._supervisor.report(RunReport(**self.report_fields(usage, cost), settled=dict(settled)))

    def report_fields(self, usage: Usage, cost: Cost) -> dict[str, Any]:
        """Return the next numbered snapshot of the accounts."""
        return {**self._numbered(), "usage": usage, "cost": cost}

    # Spawning

    async def admit(self, children: Sequence[ChildRequest]) -> Sequence[AdmitAnswer]:
        """See `Spawning`. The first one gives the run a lane of its own, through which its items go from then on."""
        self._call_ids.update({child.run_id: child.call_id for child in children})
        async with self._admitting:
            reply = await self._supervisor.admit(
                AdmitRequest(
                    driver_id=self._job.tree.driver_id,
                    parent_run_id=self.stamp.run_id,
                    attempt=self.stamp.attempt,
                    number=next(self._numbers),
                    children=tuple(children),
                )
            )
            if reply.own_lane is not None and reply.own_lane != self._lane:
                queue = self._queues[reply.own_lane.queue]
                await queue.open(
                    reply.own_lane.lane, self.stamp.root_run_id, self._job.tree.bounds, self._admitted.lane
                )
                await self._emitter.switch(queue, reply.own_lane.lane)
                self._lane = reply.own_lane
        return reply.admissions

    async def run_child(self, admitted: Admitted, agent_key: str, value: Any) -> RunResult:
        """See `Spawning`."""
        job = RunJob(
            tree=self._job.tree,
            admitted=admitted,
            agent_key=agent_key,
            value=pack(value),
            call_id=self._call_ids.pop(admitted.stamp.run_id, None),
        )
        if self.agents is None:
            raise InternalError("a run started a child before its agents were loaded")
        agent = self.agents.agent(agent_key)
        with anyio.CancelScope(shield=True):
            return await self._caller.run(job, self.keys, agent.resources, agent.unrepeatable)
        raise InternalError("a shielding scope ended an exception")

    async def cancel_reason(self) -> str | None:
        """See `Spawning`."""
        # Without an answer the order itself will tell.
        with contextlib.suppress(RuntimeUnavailableError):
            return await self._supervisor.stopped(self.stamp.run_id, self.stamp.attempt)
        return None

    async def cancel_run(self, run_id: str, reason: str, grace: float | None = None) -> None:
        """See `Spawning`."""
        request = CancelRequest(run_id=run_id, reason=reason, caller_run_id=self.stamp.run_id)
        if grace is not None:
            request = request.model_copy(update={"grace": grace})
        await self._supervisor.cancel(request)

    async def aclose(self) -> None:
        """Free what the host holds."""
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
        if self._thinning is not None:
            self._thinning.cancel()
        await self._emitter.aclose()

    def _numbered(self) -> dict[str, Any]:
        return {"run_id": self.stamp.run_id, "attempt": self.stamp.attempt, "number": next(self._numbers)}

    def _thin_at_deadline(self) -> asyncio.TimerHandle | None:
        if self.deadline is None:
            return None
        return asyncio.get_running_loop().call_later(max(0.0, self.deadline - time.time()), self.thin)
