"""The RunActor: one process that executes one run at a time, and another after it.

The default group has the run's event loop; `control` has one of its own, where the long-poll for flags is kept open, so that a flag is seen also
while the run's loop is blocked.
"""

import asyncio
import importlib
import importlib.util
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Final, cast

import anyio.lowlevel
from pydantic import TypeAdapter

from ..messages.control import AdmissionOrder, CancelOrder, EndReport, GrantOrder, LimitOrder, Order, PauseOrder
from ..messages.errors import RuntreeError, VersionMismatchError
from ..messages.failure import Failure
from ..messages.items import RunFailed
from ..messages.result import RunResult
from ..messages.transcript import Message
from ..messages.usage import NO_COST, NO_USAGE, Cost, Usage
from ..messages.value import build_values
from ..messages.version import VERSION
from ..providers import secrets
from .actor_start import ActorStarts
from .agent import AgentRun, AgentSet, Pauses
from .host import RunActorHost
from .jobs import JobSlip, Keys, ProcessInfo, RunEnd, RunJob, TreeContext
from .lane_client import QueueClients
from .packed_runs import Ends, PackedRuns
from .pickling import unpack
from .remote import Handle, create, in_group, node_id, placed
from .run_channels import RunChannels
from .stream_queue import poll_seconds
from .supervisor_client import SupervisorClient
from .wear import Wear

GROUPS: Final = {"control": 8}

_POLL_PAUSE: Final = 0.1
"""Seconds until a process that was told to cancel asks for more: a tree's processes are all busy with their ends then."""


_log = logging.getLogger(__name__)


def start_run_actor(name: str, namespace: str, resources: Mapping[str, float], node: str | None = None) -> Handle:
    """Start a RunActor; it belongs to the process that calls this, and dies with it.

    Args:
        name: Its name.
        namespace: Ray namespace of the name.
        resources: What it asks of its node.
        node: Node it had better be on; without one, actors are spread over all that have room.
    """
    asked = dict(resources)
    return create(
        RunActor,
        name,
        namespace,
        groups=GROUPS,
        name=name,
        namespace=namespace,
        num_cpus=asked.pop("num_cpus", 0),
        num_gpus=asked.pop("num_gpus", 0),
        memory=asked.pop("memory", None),
        resources=asked or None,
        scheduling_strategy=placed(node),
    )


_MESSAGES: TypeAdapter[tuple[Message, ...]] = TypeAdapter(tuple[Message, ...])


class RunActor:
    """The actor."""

    def __init__(self, name: str, namespace: str) -> None:
        self._name = name
        self._namespace = namespace
        self._supervisor: SupervisorClient | None = None
        self._queues = QueueClients(namespace)
        self._poll: asyncio.Task[None] | None = None
        self._live: dict[str, _LiveRun] = {}
        self._ready: asyncio.Task[ProcessInfo] | None = None
        self._wear: Wear | None = None
        self._worn: str | None = None
        self._packed = PackedRuns(self.run)
        self._channels = RunChannels()
        self._starts = ActorStarts(start_run_actor)
        self._pauses = Pauses()
        self._limited_models: set[str] = set()

    def __repr__(self) -> str:
        # Ray shows it in its dashboard and before each line the actor logs.
        return self._name

    @in_group("control")
    async def start(self, queues: Sequence[str] = ()) -> ProcessInfo:
        """Open the long-poll, and get ready what a first run would wait for; tells which process this is.

        Args:
            queues: Names of the queue actors that the runs will talk to; without any, only one run is to come, which loads what it needs.
        """
        if self._ready is None or (self._ready.done() and self._ready.exception() is not None):
            self._ready = asyncio.create_task(self._get_ready(queues))
        return await asyncio.shield(self._ready)

    async def _get_ready(self, queues: Sequence[str]) -> ProcessInfo:
        if queues:
            await asyncio.to_thread(_preload)
        await anyio.lowlevel.checkpoint()
        for queue in queues:
            await self._queues[queue].greet()
        supervisor = await SupervisorClient.known(self._namespace)
        self._poll = asyncio.create_task(supervisor.poll_for_ever(self._name, self._obey, _POLL_PAUSE, self._ask_again))
        self._wear = Wear()
        return self._info()

    @in_group("control")
    async def watch(self, seconds: float) -> None:
        """Answer after a while. Whoever asks learns at once when the process is gone."""
        await asyncio.sleep(seconds)

    @in_group("control")
    async def info(self) -> ProcessInfo:
        """Tell which process this is, and how it is."""
        await anyio.lowlevel.checkpoint()
        return self._info()

    def _info(self) -> ProcessInfo:
        return ProcessInfo(VERSION, os.getpid(), node_id(), tuple(self._live), self._worn)

    async def run(self, job: RunJob, keys: Keys) -> RunEnd:
        """Execute a run to its end.

        Returns only after its terminal item was accepted by its parent's lane.

        Raises:
            VersionMismatchError: The driver runs another version of runtree.
        """
        if job.tree.version != VERSION:
            fix = "Install the same version on every node"
            raise VersionMismatchError(f"node {os.uname().nodename}", job.tree.version, VERSION, fix)
        if self._supervisor is None:
            self._supervisor = await SupervisorClient.known(self._namespace)
        stamp = job.admitted.stamp
        host = RunActorHost(
            job,
            keys,
            self._supervisor,
            self._queues,
            self._starts,
            self._channels,
            self._pauses,
            self._limited_models,
        )
        live = self._live[stamp.run_id] = _LiveRun(host, asyncio.get_running_loop())
        try:
            result, left_threads = await self._execute(job, host, live)
            reusable = self._reusable(left_threads=left_threads)
            await host.settle()
            usage, cost = live.accounts
            await self._supervisor.end(
                EndReport(
                    **host.report_fields(usage, cost),
                    status=result.status,
                    error=result.error,
                    reusable=reusable,
                    last_seq=host.next_seq - 1,
                )
            )
        finally:
            del self._live[stamp.run_id]
            await host.aclose()
        return RunEnd(result.to_json(), reusable)

    async def start_runs(
        self, caller: str, tree_id: str, slips: Sequence[JobSlip], tree: TreeContext | None, keys: Keys | None
    ) -> bool:
        """Start packed runs; see `PackedRuns.start`."""
        return self._packed.start(caller, tree_id, slips, tree, keys)

    async def collect_ends(self, caller: str, tree_id: str, seen: int) -> Ends:
        """Wait for packed runs to end; see `PackedRuns.collect`."""
        # It has no group of its own: at most one waits for each process of the tree that has runs here.
        return await self._packed.collect(caller, tree_id, seen, poll_seconds())

    async def _execute(self, job: RunJob, host: RunActorHost, live: "_LiveRun") -> tuple[RunResult, bool]:
        stamp = job.admitted.stamp
        try:
            secrets.provide(host.keys.values)
            agents = host.agents = AgentSet.load(job.tree.agents)
            run = AgentRun(
                agents.agent(job.agent_key),
                host,
                agents=agents,
                key=job.agent_key,
                value=unpack(job.value),
                messages=_MESSAGES.validate_json(job.messages),
                deps=unpack(job.tree.deps),
                variables=job.tree.variables,
                call_id=job.call_id,
                tags=job.tags,
                spent=job.admitted.spent,
            )
        except Exception as error:  # noqa: BLE001 - unpickling runs any user code, and whatever it raises is the run's failure
            failure = _load_failure(error)
            spent = dict(job.admitted.spent)
            host.emit(RunFailed, error=failure, **spent)
            return RunResult(run_id=stamp.run_id, status="failed", error=failure, **spent), False
        live.start(run)
        reason = await host.begin()
        if reason is not None:
            live.cancel(reason)
        result = await run.execute()
        return result, run.left_threads

    def _reusable(self, *, left_threads: bool) -> bool:
        """Whether the process is as good as new for other runs; it stays unfit once it is."""
        if self._worn is None:
            if left_threads:
                self._worn = "a tool is still at work in its thread"
            elif self._wear is not None:
                self._worn = self._wear.reason(alone=len(self._live) == 1)
            if self._worn is not None:
                _log.warning("%s takes no more runs: %s", self._name, self._worn)
        return self._worn is None

    def _obey(self, order: Order) -> None:
        """Carry out an order; called on the control loop."""
        if isinstance(order, PauseOrder):
            self._pauses.put(order.model, order.until)
        elif isinstance(order, LimitOrder):
            self._limited_models.update(order.models)
        elif isinstance(order, CancelOrder | GrantOrder | AdmissionOrder):
            live = self._live.get(order.run_id)
            if live is None or live.host.stamp.attempt != order.attempt:
                return
            if isinstance(order, CancelOrder):
                live.cancel_from_outside(order.reason)
            else:
                live.deliver_from_outside(order)

    def _ask_again(self) -> None:
        """Have every run ask for what it waits for: the supervisor was away, and orders with it. Called on the control loop."""
        for live in tuple(self._live.values()):
            live.ask_again_from_outside()


def _preload() -> None:
    """Import and build what nearly every run needs, so that its first one does not pay for it."""
    for protocol in ("anthropic", "chat", "responses"):
        importlib.import_module(f"runtree.providers.{protocol}.model")
    importlib.import_module("httpcore")
    importlib.import_module("runtree.providers.clients").certificates()
    build_values("runtree.messages.", "runtree.providers.")
    if importlib.util.find_spec("sniffio") is None:
        # httpcore asks for it with every lock, and a search through all folders that finds nothing was a sixth of a small run's CPU.
        sys.modules.setdefault("sniffio", cast("ModuleType", None))


class _LiveRun:
    """A run and the loop it lives on."""

    def __init__(self, host: RunActorHost, loop: asyncio.AbstractEventLoop) -> None:
        self.host = host
        self._loop = loop
        self._run: AgentRun | None = None

    def start(self, run: AgentRun) -> None:
        self._run = run

    @property
    def accounts(self) -> tuple[Usage, Cost]:
        """What this attempt has used up."""
        return (NO_USAGE, NO_COST) if self._run is None else self._run.accounts

    def cancel(self, reason: str) -> None:
        """Cancel the run; on its own loop only."""
        self.host.thin()
        if self._run is not None:
            self._run.cancel(reason)

    def cancel_from_outside(self, reason: str) -> None:
        """Cancel the run from another loop."""
        self._loop.call_soon_threadsafe(self.host.thin)
        if self._run is not None:
            self._run.cancel_threadsafe(reason, self._loop)

    def deliver_from_outside(self, order: GrantOrder | AdmissionOrder) -> None:
        """Hand a decision to the run from another loop."""
        if self._run is not None:
            self._loop.call_soon_threadsafe(self._run.deliver, order)

    def ask_again_from_outside(self) -> None:
        """Have the run ask for its decisions, from another loop."""
        if self._run is not None:
            self._loop.call_soon_threadsafe(self._run.ask_again)


def _load_failure(error: Exception) -> Failure:
    if isinstance(error, RuntreeError):
        return error.failure()
    text = secrets.redact(f"{type(error).__name__}: {error}")
    return Failure(code="agent_error", message=f"the agent can't be loaded on node {os.uname().nodename}: {text}")
