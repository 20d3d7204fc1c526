"""The Runtime: where a driver starts trees, stops them, and sees what runs."""

import asyncio
import contextlib
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Literal, Self

import anyio
import cloudpickle
import ray

from ..messages.control import AdmitRequest, CancelRequest, ChildRequest, DriverHello, KillOrder, Order, RetireOrder
from ..messages.errors import (
    ConfigurationError,
    MissingSecretError,
    NotPicklableError,
    RuntimeClosedError,
)
from ..messages.ids import new_run_id
from ..messages.limits import Limits
from ..messages.result import CancelReport, RunInfo, RunResult
from ..messages.transcript import Message
from ..messages.version import VERSION, WIRE_VERSION
from ..providers import secrets
from .admission import admitted_or_raise, check_limits, checked_tags, packed_messages
from .agent import Agent, AgentSet
from .connection import connect
from .handle import RunHandle, started
from .jobs import Keys, RunJob, TreeContext
from .lane_client import QueueClients
from .pool import Pool
from .remote import MIB, ActorGoneError, Handle, answer, create, kill
from .run_actor import start_run_actor
from .run_call import RunCaller
from .session import Session
from .stream.lane_port import Flow
from .stream.lanes import Bounds
from .stream_queue import GROUPS, StreamQueue
from .supervisor_client import SupervisorClient

START_TIMEOUT: Final = 60.0
"""Seconds for a queue actor to start: it asks for nothing that could be used up."""

EXIT_GRACE: Final = 2.0
"""Seconds a live run gets when its Runtime is left."""


class Runtime:
    """A driver's connection to run trees; an async context manager.

    Leaving the block, also by an exception, cancels the runs that are still live; it never shuts down a Ray it did not start.
    """

    def __init__(
        self,
        address: str | None = None,
        namespace: str = "runtree",
        *,
        secrets: Mapping[str, str] | None = None,
        overflow: Literal["block", "drop_oldest"] = "block",
        buffer_items: int = 4096,
        buffer_bytes: int = 16 * MIB,
        warm: int = 2,
        on_reader_gone: Literal["continue", "cancel"] = "continue",
        queue_actors: int = 1,
        spread_lanes: bool = False,
        schedule_timeout: float = 60.0,
        start_ray: bool = True,
        ray_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Describe the connection; nothing happens before the block is entered.

        Args:
            address: Of the head (`host:port`), `"auto"`, `"local"`, or `None`: `RAY_ADDRESS`, else what runs here, else a new local Ray.
            namespace: Ray namespace; Runtimes of one namespace share a supervisor and see each other's runs.
            secrets: Keys by name, such as `{"OPENAI_API_KEY": ...}`; names that are missing are looked up in this process's environment.
            overflow: What a full stream does: `block` makes producers wait for the reader, `drop_oldest` drops the oldest deltas.
            buffer_items: Items a lane may hold.
            buffer_bytes: Bytes a lane may hold.
            warm: Processes that are kept ready.
            on_reader_gone: What happens to a run whose handle was closed or collected.
            queue_actors: Queue actors of this driver.
            spread_lanes: Give each parent's lane to the next queue actor in turn, instead of keeping a tree's lanes together.
            schedule_timeout: Seconds until a run that finds no room on any node is refused.
            start_ray: Whether a local Ray may be started.
            ray_options: Further arguments of `ray.init`.
        """
        _at_least("buffer_items", buffer_items, 1)
        _at_least("buffer_bytes", buffer_bytes, 1)
        _at_least("warm", warm, 0)
        _at_least("queue_actors", queue_actors, 1)
        _one_of("overflow", overflow, ("block", "drop_oldest"))
        _one_of("on_reader_gone", on_reader_gone, ("continue", "cancel"))
        self._address, self._namespace = address, namespace
        self._secrets = dict(secrets or {})
        self._flow: Flow = overflow
        self._bounds = Bounds(buffer_items, buffer_bytes, overflow)
        self._warm = warm
        self._on_reader_gone = on_reader_gone
        self._queue_actors, self._spread_lanes = queue_actors, spread_lanes
        self._schedule_timeout = schedule_timeout
        self._start_ray = start_ray
        self._ray_options = dict(ray_options or {})
        self._open: _OpenRuntime | None = None
        self._connected = False
        self._owns_ray = False

    def __repr__(self) -> str:
        return f"<Runtime {self._namespace!r} {'open' if self._open else 'closed'}>"

    def connect(self) -> None:
        """Join or start Ray. Entering the block does it; a caller with an event loop in another thread does it before, in its main thread."""
        if not self._connected:
            self._owns_ray = connect(self._address, self._namespace, self._ray_options, start=self._start_ray)
            self._connected = True

    async def __aenter__(self) -> Self:
        self.connect()
        try:
            with anyio.CancelScope(shield=True):
                self._open = await self._enter()
        except BaseException:
            self._disconnect()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        opened, self._open = self._open, None
        if opened is None:
            return
        try:
            with anyio.CancelScope(shield=True):
                await opened.aclose(interrupted=isinstance(error, asyncio.CancelledError | KeyboardInterrupt))
        finally:
            self._disconnect()

    async def start(
        self,
        agent: Agent,
        input: Any,  # noqa: A002 - the word users look for
        *,
        messages: Sequence[Message] = (),
        limits: Limits | None = None,
        deps: Any = None,
        tags: Mapping[str, str] | None = None,
    ) -> RunHandle:
        """Start a tree.

        Args:
            agent: Its root.
            input: Text, or a value of the agent's `input_type`.
            messages: A conversation to continue.
            limits: Bounds of the whole tree.
            deps: Anything picklable; reaches the tools of all agents through their context.
            tags: Shown in the root's `run_started` item.

        Raises:
            ConfigurationError: The agent, its model, its tools or an argument can't work; the text names the field and the fix.
            LimitExceededError: The root itself is refused.
        """
        opened = self._opened("start()")
        return await started(asyncio.ensure_future(opened.start(agent, input, messages, limits, deps, tags)))

    async def run(self, agent: Agent, input: Any, **options: Any) -> RunResult:  # noqa: A002 - the word users look for
        """Start a tree and wait for its end; arguments and errors are those of `start` and of `RunHandle.result`."""
        handle = await self.start(agent, input, **options)
        try:
            return await handle.result()
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):
                await handle.cancel(reason="the caller was cancelled", grace=EXIT_GRACE)
            raise

    async def cancel(self, run_id: str, reason: str = "user", grace: float = 2.0) -> CancelReport:
        """Cancel any run of the namespace and all below it; see `RunHandle.cancel`."""
        return await self._opened("cancel()").cancel(run_id, reason, grace)

    async def runs(self, *, all: bool = False) -> tuple[RunInfo, ...]:  # noqa: A002 - reads well at the call
        """Return the live runs of the namespace; with `all`, ended ones too, as far as they are remembered."""
        return await self._opened("runs()").supervisor.runs(ended=all)

    async def down(self) -> None:
        """End the namespace's supervisor; live runs of all its drivers are cancelled first."""
        opened = self._opened("down()")
        roots = [run.run_id for run in await opened.supervisor.runs(ended=False) if run.parent_run_id is None]
        await asyncio.gather(*(opened.cancel(run_id, "runtree down", EXIT_GRACE) for run_id in roots))
        await opened.supervisor.down()

    async def warmed(self) -> None:
        """Return when the warm processes are ready, or could not be had."""
        await self._opened("warmed()").pool.filled()

    def _opened(self, call: str) -> "_OpenRuntime":
        if self._open is None:
            raise RuntimeClosedError(f"Runtime.{call}")
        return self._open

    async def _enter(self) -> "_OpenRuntime":
        driver_id = new_run_id()
        supervisor = await SupervisorClient.start(self._namespace)
        queues = [await self._start_queue(f"queue:{driver_id}:{index}") for index in range(self._queue_actors)]
        hello = DriverHello(
            driver_id=driver_id,
            host=platform.node(),
            pid=os.getpid(),
            version=VERSION,
            wire_version=WIRE_VERSION,
            queues=tuple(f"queue:{driver_id}:{index}" for index in range(self._queue_actors)),
            spread_lanes=self._spread_lanes,
        )
        await supervisor.hello(hello)
        pool = Pool(supervisor, driver_id, self._warm, self._schedule_timeout)
        pool.fill()
        return _OpenRuntime(
            supervisor,
            dict(zip(hello.queues, queues, strict=True)),
            pool,
            driver_id,
            self._secrets,
            self._bounds,
            self._schedule_timeout,
            cancel_unread=self._on_reader_gone == "cancel",
        )

    async def _start_queue(self, name: str) -> Handle:
        handle = create(
            StreamQueue, name, self._namespace, groups=GROUPS, name=name, namespace=self._namespace, num_cpus=0
        )
        await answer(handle.start.remote(), "stream queue", START_TIMEOUT)
        return handle

    def _disconnect(self) -> None:
        if self._owns_ray:
            ray.shutdown()
        self._connected = self._owns_ray = False


class _OpenRuntime:
    """What an entered Runtime holds."""

    def __init__(
        self,
        supervisor: SupervisorClient,
        queues: dict[str, Handle],
        pool: Pool,
        driver_id: str,
        given_secrets: Mapping[str, str],
        bounds: Bounds,
        schedule_timeout: float,
        *,
        cancel_unread: bool,
    ) -> None:
        self.supervisor = supervisor
        self.pool = pool
        self._queues = queues
        self._driver_id = driver_id
        self._secrets = given_secrets
        self._bounds = bounds
        self._schedule_timeout = schedule_timeout
        self._cancel_unread = cancel_unread
        self._clients = QueueClients(supervisor.namespace)
        self._caller = RunCaller(supervisor, self._clients, start_run_actor)
        self._sessions: dict[str, Session] = {}
        self._poll = asyncio.create_task(supervisor.poll_for_ever(driver_id, self._obey))

    async def start(
        self,
        agent: Agent,
        value: Any,
        messages: Sequence[Message],
        limits: Limits | None,
        deps: Any,
        tags: Mapping[str, str] | None,
    ) -> RunHandle:
        agents = AgentSet.of(agent)
        check_limits(agents, limits)
        keys = self._keys(agents)
        tree = self._tree(agents, deps)
        packed_value, conversation, labels = _pickled("input", value), packed_messages(messages), checked_tags(tags)
        run_id = new_run_id()
        request = ChildRequest(
            run_id=run_id, agent=agent.name, limits=(limits or Limits()).narrow(agent.limits), poolable=_poolable(agent)
        )
        reply = await self.supervisor.admit(AdmitRequest(driver_id=self._driver_id, children=(request,)))
        admitted = admitted_or_raise(reply.admissions[0])
        queue = self._queues[admitted.lane.queue]
        await answer(queue.open.remote(admitted.lane.lane, run_id, self._bounds, None), "stream queue")
        job = RunJob(
            tree=tree,
            admitted=admitted,
            agent_key=agents.root_key,
            value=packed_value,
            messages=conversation,
            tags=labels,
        )
        call = asyncio.create_task(self._caller.run(job, keys, agent.resources))
        session = Session(
            admitted,
            list(self._queues.values()),
            self._clients,
            queue,
            self._bounds.flow,
            call,
            on_reader_gone=(lambda: self.cancel(run_id, "its reader is gone", EXIT_GRACE))
            if self._cancel_unread
            else None,
        )
        self._sessions[run_id] = session
        call.add_done_callback(lambda _: self._sessions.pop(run_id, None))
        return RunHandle(agent, session, self.supervisor, self.cancel)

    async def cancel(self, run_id: str, reason: str, grace: float) -> CancelReport:
        return await self.supervisor.cancel(CancelRequest(run_id=run_id, reason=reason, grace=grace))

    async def aclose(self, *, interrupted: bool) -> None:
        """Cancel what is live and free everything; prints what was spent if the user interrupted."""
        sessions = list(self._sessions.values())
        try:
            await asyncio.gather(*(self.cancel(each.run_id, "its Runtime was closed", EXIT_GRACE) for each in sessions))
            if sessions:
                await asyncio.wait({each.call for each in sessions}, timeout=2 * EXIT_GRACE)
            if interrupted:
                for each in sessions:
                    _print_spent(each.run_id, await self.supervisor.totals(each.run_id))
        finally:
            for each in sessions:
                each.call.cancel()
            self._poll.cancel()
            await self.pool.aclose()
            for queue in self._queues.values():
                kill(queue)
            with contextlib.suppress(ActorGoneError):  # somebody ended it for good
                await self.supervisor.leave(self._driver_id)

    async def _obey(self, order: Order) -> None:
        if isinstance(order, KillOrder):
            await self.pool.kill(order.actor)
            await self.supervisor.killed(order.run_id)
        elif isinstance(order, RetireOrder):
            self.pool.retire(order.actor)

    def _keys(self, agents: AgentSet) -> Keys:
        names = agents.secret_names()
        found = {**secrets.collect(names), **{name: self._secrets[name] for name in names if name in self._secrets}}
        for name, required in names.items():
            if required and name not in found:
                fix = f"Set {name} in the environment of the driver, or pass Runtime(secrets={{{name!r}: ...}})"
                raise MissingSecretError(f"secret {name}", "a model of the tree needs it and it is not set", fix)
        return Keys(found)

    def _tree(self, agents: AgentSet, deps: Any) -> TreeContext:
        return TreeContext(
            driver_id=self._driver_id,
            namespace=self.supervisor.namespace,
            version=VERSION,
            agents=agents.dump(),
            deps=_pickled("deps", deps),
            bounds=self._bounds,
            schedule_timeout=self._schedule_timeout,
        )


def _poolable(agent: Agent) -> bool:
    return agent.reuse and not agent.resources


def _pickled(field: str, value: Any) -> bytes:
    try:
        data: bytes = cloudpickle.dumps(value)
    except Exception as error:  # noqa: BLE001 - pickling runs any user code
        problem = f"can't be sent to an actor: {type(error).__name__}: {error}"
        raise NotPicklableError(field, problem, "Pass plain data, or make the object inside a tool") from None
    return data


def _print_spent(run_id: str, totals: Any) -> None:
    usage, cost = totals.total_usage, totals.total_cost
    money = "cost unknown" if cost.amount is None or cost.precision == "unknown" else f"${cost.amount}"
    sys.stderr.write(f"runtree: cancelled {run_id}: {usage.tokens} tokens ({usage.precision}), {money}\n")


def _at_least(field: str, value: int, least: int) -> None:
    if value < least:
        raise ConfigurationError(
            f"Runtime({field}={value!r})", f"it must be at least {least}", "Leave it out for the default"
        )


def _one_of(field: str, value: str, words: tuple[str, ...]) -> None:
    if value not in words:
        raise ConfigurationError(
            f"Runtime({field}={value!r})", f"it must be one of {', '.join(words)}", "Correct the word"
        )
