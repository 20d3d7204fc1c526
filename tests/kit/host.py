"""A tree of runs in one process, below the real registry: what a supervisor and its actors do, in memory, for tests of the agent loop."""

import asyncio
import itertools
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import anyio
import anyio.lowlevel

from runtree.actors.agent import Agent, AgentRun, AgentSet, Pauses
from runtree.actors.supervision.mailboxes import Mailboxes
from runtree.actors.supervision.registry import Registry
from runtree.messages.control import (
    AdmissionOrder,
    AdmitAnswer,
    AdmitRequest,
    Admitted,
    CancelOrder,
    ChildRequest,
    DriverHello,
    EndReport,
    GrantOrder,
    LimitOrder,
    Order,
    PauseOrder,
    RunReport,
)
from runtree.messages.ids import new_run_id
from runtree.messages.items import ITEM_TYPES, TERMINAL_KINDS, Item, Stamp
from runtree.messages.limits import Limits, ModelLimit
from runtree.messages.reservations import Budget, ReserveReply, ReserveRequest, SlotRequest, ThrottleReport
from runtree.messages.result import RunResult
from runtree.messages.transcript import Message
from runtree.messages.usage import Cost, Totals, Usage

_DRIVER = "driver"
_GRACE = 60.0


class MemorySupervisor:
    """The registry of a namespace, and the processes that it gives orders to: each run is one."""

    def __init__(self, model_limits: Mapping[str, ModelLimit] | None = None) -> None:
        self._mailboxes = Mailboxes(on_put=self._wake)
        self._hosts: dict[str, MemoryHost] = {}
        self._seen: dict[str, int] = {}
        self._passed = 0.0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.held: set[str] = set()
        """Runs whose orders stay on their way."""
        self.registry = Registry("memory", self._mailboxes)
        self.orders: list[Order] = []
        hello = DriverHello(
            driver_id=_DRIVER,
            host="memory",
            pid=1,
            version="1",
            wire_version=1,
            queues=("memory",),
            model_limits=dict(model_limits or {}),
        )
        self.registry.join(hello, time.time())

    def join(self, driver_id: str, model_limits: Mapping[str, ModelLimit]) -> None:
        """Have another driver join, with bounds of its own."""
        hello = DriverHello(
            driver_id=driver_id, host="memory", pid=2, version="1", wire_version=1, model_limits=dict(model_limits)
        )
        self.registry.join(hello, self.now())

    def employ(self, host: "MemoryHost") -> None:
        """Take up the process of a run."""
        self._hosts[host.admitted.actor_name] = host

    def deliver(self) -> None:
        """Hand out all orders now."""
        for process in tuple(self._hosts):
            self._deliver(process)

    def now(self) -> float:
        """Return the time of the registry: ours, and what was let pass."""
        return time.time() + self._passed

    def let_pass(self, seconds: float) -> None:
        """Let time pass, for the registry only, and have it decide what only time decides."""
        self._passed += seconds
        self.registry.advance(self.now())

    def arm(self) -> None:
        """Have decided in time what only time decides."""
        due, now = self.registry.next_time(self.now()), self.now()
        if due is not None and (self._timer is None or self._timer.cancelled() or due < self._due):
            if self._timer is not None:
                self._timer.cancel()
            self._due = due
            self._timer = asyncio.get_running_loop().call_later(max(0.0, due - now), self._advance)

    def _advance(self) -> None:
        self._timer = None
        self.registry.advance(self.now())
        self.arm()

    def _wake(self, process: str) -> None:
        # As in a process of its own: not before whoever caused the order goes on.
        asyncio.get_running_loop().call_soon(self._deliver, process)

    def _deliver(self, process: str) -> None:
        host = self._hosts.get(process)
        if host is None or host.stamp.run_id in self.held:
            return
        reply = self._mailboxes.collect(process, self._seen.get(process, 0))
        self._seen[process] = reply.version
        for order in reply.orders:
            self.orders.append(order)
            host.obey(order)


class MemoryTree:
    """A tree: its items in the order of their emission, its runs, its bounds.

    Args:
        root: The root agent.
        limits: Bounds of the tree.
        deps: Handed to all runs.
        variables: What the cells of all runs find.
        step: Called before everything a run asks of its host, with the host and the name of the call.
        supervisor: Shared with other trees; by default one of its own.
    """

    def __init__(
        self,
        root: Agent,
        *,
        limits: Limits | None = None,
        deps: Any = None,
        variables: Mapping[str, Any] | None = None,
        step: Callable[["MemoryHost", str], None] | None = None,
        supervisor: MemorySupervisor | None = None,
    ) -> None:
        self.agents = AgentSet.of(root)
        self.limits = (limits or Limits()).narrow(root.limits)
        self.deps = deps
        self.variables = variables
        self.step = step
        self.supervisor = supervisor or MemorySupervisor()
        self.registry = self.supervisor.registry
        self.pauses = Pauses()
        self.items: list[Any] = []
        self.hosts: dict[str, MemoryHost] = {}
        self.admissions: list[tuple[ChildRequest, ...]] = []
        self.cancels: list[tuple[str, str]] = []
        request = ChildRequest(run_id=new_run_id(), agent=root.name, limits=self.limits)
        reply = self.registry.admit(AdmitRequest(driver_id=_DRIVER, children=(request,)), self.supervisor.now())
        (admitted,) = reply.admissions
        assert isinstance(admitted, Admitted)
        self.root = MemoryHost(self, admitted)

    def run(
        self,
        value: Any = "go",
        *,
        messages: Sequence[Message] = (),
        tags: Mapping[str, str] | None = None,
    ) -> AgentRun:
        """Make the root's run."""
        key = self.agents.root_key
        run = AgentRun(
            self.agents.agent(key),
            self.root,
            agents=self.agents,
            key=key,
            value=value,
            messages=messages,
            deps=self.deps,
            variables=self.variables,
            tags=tags,
        )
        self.root.run = run
        self.root.begin(run)
        return run

    async def execute(self, value: Any = "go", **options: Any) -> RunResult:
        """Run the root to its end and check what holds for every stream."""
        run = self.run(value, **options)
        with anyio.fail_after(20):
            result = await run.execute()
        self.root.end(result)
        self.check()
        return result

    def cancel(self, run_id: str, reason: str, *, untold: Collection[str] = ()) -> None:
        """Set the flags of a run and all below it; the orders to the runs in `untold` stay on their way."""
        self.cancels.append((run_id, reason))
        self.supervisor.held.update(untold)
        self.registry.cancel(run_id, reason, _GRACE, self.supervisor.now())
        self.supervisor.deliver()

    def of(self, kind: str, run_id: str | None = None) -> list[Any]:
        """Return the items of a kind, of one run or of all."""
        return [item for item in self.items if item.kind == kind and run_id in (None, item.run_id)]

    def kinds(self, run_id: str | None = None) -> list[str]:
        """Return the kinds of a run's items, by default the root's."""
        wanted = run_id or self.root.stamp.run_id
        return [item.kind for item in self.items if item.run_id == wanted]

    def text(self, run_id: str | None = None) -> str:
        """Return what readers see of a run's text."""
        wanted = run_id or self.root.stamp.run_id
        return "".join(item.text for item in self.of("model_delta", wanted))

    def check(self) -> None:
        """Check the rules D1 and D4, and D3 for the order of parent and child."""
        for run_id in self.hosts:
            items = [item for item in self.items if item.run_id == run_id]
            if items:
                _check_run(items)
        for done in self.of("tool_call_completed"):
            if done.child_run_id is not None:
                last = max(i for i, item in enumerate(self.items) if item.run_id == done.child_run_id)
                assert self.items[last].kind in TERMINAL_KINDS
                assert last < self.items.index(done), "a call was completed before its child's terminal item"
        if self.items:
            assert self.items[-1].kind in TERMINAL_KINDS
            assert self.items[-1].run_id == self.root.stamp.run_id


class MemoryHost:
    """The ports of one run."""

    def __init__(self, tree: MemoryTree, admitted: Admitted) -> None:
        self._tree = tree
        self.admitted = admitted
        self._limited = set(admitted.limited_models)
        self._seq = 0
        self._numbers = itertools.count(1)
        self._requests: dict[str, ChildRequest] = {}
        self.run: AgentRun | None = None
        tree.hosts[self.stamp.run_id] = self
        tree.supervisor.employ(self)
        for model, until in admitted.paused_models.items():
            tree.pauses.put(model, until)

    @property
    def stamp(self) -> Stamp:
        return self.admitted.stamp

    @property
    def limits(self) -> Limits:
        return self.admitted.limits

    @property
    def deadline(self) -> float | None:
        return self.admitted.deadline

    @property
    def limited_models(self) -> set[str]:
        return self._limited

    @property
    def pauses(self) -> Pauses:
        return self._tree.pauses

    @property
    def next_seq(self) -> int:
        return self._seq

    @property
    def usage(self) -> Usage:
        return self._tree.registry.get(self.stamp.run_id).usage

    def begin(self, run: AgentRun) -> None:
        """Tell the registry that the run begins."""
        flag = self._tree.registry.begin(self.stamp.run_id, self.stamp.attempt)
        if flag is not None:
            run.cancel(flag.reason)

    def end(self, result: RunResult) -> None:
        """Tell the registry how the run ended."""
        report = EndReport(
            **self._numbered(), usage=result.usage, cost=result.cost, status=result.status, error=result.error
        )
        self._tree.registry.end(report, self._tree.supervisor.now())

    def obey(self, order: Order) -> None:
        """Carry out an order."""
        if isinstance(order, PauseOrder):
            self.pauses.put(order.model, order.until)
        elif isinstance(order, LimitOrder):
            self._limited.update(order.models)
        elif self.run is not None and isinstance(order, CancelOrder):
            self.run.cancel(order.reason)
        elif self.run is not None and isinstance(order, GrantOrder | AdmissionOrder):
            self.run.deliver(order)

    # Emitting

    def emit(self, item_type: type[Item], **fields: Any) -> None:
        self._step(item_type.__name__)
        self._tree.items.append(item_type(**dict(self.stamp), seq=self._seq, time=time.time(), **fields))
        self._seq += 1

    def emit_delta(self, kind: str, **fields: Any) -> None:
        self.emit(ITEM_TYPES[kind], **fields)

    async def ready(self) -> None:
        self._step("ready")
        await anyio.lowlevel.checkpoint()

    async def delivered(self) -> bool:
        self._step("delivered")
        await anyio.lowlevel.checkpoint()
        return True

    # Accounting

    def next_number(self) -> int:
        return next(self._numbers)

    async def reserve(self, request: ReserveRequest) -> ReserveReply:
        await self._call("reserve")
        reply = self._tree.registry.reserve(request, self._tree.supervisor.now())
        self._tree.supervisor.arm()
        return reply

    async def slot(self, request: SlotRequest) -> ReserveReply:
        await self._call("slot")
        return self._tree.registry.slot(request, self._tree.supervisor.now())

    async def throttle(self, report: ThrottleReport) -> None:
        await self._call("throttle")
        self._tree.registry.throttle(report, self._tree.supervisor.now())

    async def budget(self) -> Budget:
        await self._call("budget")
        return self._tree.registry.budget(self.stamp.run_id)

    async def report(self, usage: Usage, cost: Cost, settled: Mapping[int, int]) -> Totals:
        await self._call("report")
        report = RunReport(**self._numbered(), usage=usage, cost=cost, settled=dict(settled))
        return self._tree.registry.report(report, self._tree.supervisor.now())

    # Spawning

    async def admit(self, children: Sequence[ChildRequest]) -> Sequence[AdmitAnswer]:
        await self._call("admit")
        self._tree.admissions.append(tuple(children))
        self._requests.update({child.run_id: child for child in children})
        request = AdmitRequest(
            driver_id=_DRIVER,
            parent_run_id=self.stamp.run_id,
            attempt=self.stamp.attempt,
            number=self.next_number(),
            children=tuple(children),
        )
        return self._tree.registry.admit(request, self._tree.supervisor.now()).admissions

    async def run_child(self, admitted: Admitted, agent_key: str, value: Any) -> RunResult:
        self._step("run_child")
        tree = self._tree
        host = MemoryHost(tree, admitted)
        run = host.run = AgentRun(
            tree.agents.agent(agent_key),
            host,
            agents=tree.agents,
            key=agent_key,
            value=value,
            deps=tree.deps,
            variables=tree.variables,
            call_id=self._requests[admitted.stamp.run_id].call_id,
        )
        host.begin(run)
        # A task of its own, as another process would be.
        result = await asyncio.shield(asyncio.ensure_future(run.execute()))
        host.end(result)
        return result

    async def cancel_reason(self) -> str | None:
        await self._call("cancel_reason")
        return self._tree.registry.stopped(self.stamp.run_id, self.stamp.attempt)

    async def cancel_run(self, run_id: str, reason: str, grace: float | None = None) -> None:
        await self._call("cancel_run")
        self._tree.cancel(run_id, reason)

    async def _call(self, name: str) -> None:
        """Take the time of a call to another process; not at once, and cancelled like one."""
        self._step(name)
        await anyio.lowlevel.checkpoint()

    def _step(self, name: str) -> None:
        if self._tree.step is not None:
            self._tree.step(self, name)

    def _numbered(self) -> dict[str, Any]:
        return {"run_id": self.stamp.run_id, "attempt": self.stamp.attempt, "number": self.next_number()}


def _check_run(items: list[Any]) -> None:
    assert [item.seq for item in items] == list(range(len(items))), "numbers are not dense"
    assert items[0].kind == "run_started"
    assert [item.kind for item in items if item.kind in TERMINAL_KINDS] == [items[-1].kind]
    open_calls: set[str] = set()
    for item in items:
        if item.kind == "tool_call_started":
            assert item.call_id not in open_calls
            open_calls.add(item.call_id)
        elif item.kind == "tool_call_completed":
            open_calls.remove(item.call_id)
        elif item.kind in ("tool_call_args_delta", "tool_progress"):
            assert item.call_id in open_calls
    assert not open_calls, "calls without completion"
