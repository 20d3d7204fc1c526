"""A tree of runs in one process: what a supervisor and its actors do, in memory, for tests of the agent loop."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import anyio
import anyio.lowlevel

from runtree.actors.agent import Agent, AgentRun, AgentSet
from runtree.messages.control import Admission, Admitted, ChargeReply, ChildRequest, LaneAddress, Refused
from runtree.messages.errors import LimitExceededError
from runtree.messages.failure import Failure
from runtree.messages.ids import new_run_id
from runtree.messages.items import ITEM_TYPES, TERMINAL_KINDS, Item, Stamp
from runtree.messages.limits import Limits
from runtree.messages.result import RunResult
from runtree.messages.transcript import Message
from runtree.messages.usage import NO_COST, NO_USAGE, Cost, Totals, Usage


class MemoryTree:
    """A tree: its items in the order of their emission, its runs, its bounds.

    Args:
        root: The root agent.
        limits: Bounds of the tree.
        deps: Handed to all runs.
        step: Called before everything a run asks of its host, with the host and the name of the call.
    """

    def __init__(
        self,
        root: Agent,
        *,
        limits: Limits | None = None,
        deps: Any = None,
        step: Callable[["MemoryHost", str], None] | None = None,
    ) -> None:
        self.agents = AgentSet.of(root)
        self.limits = (limits or Limits()).narrow(root.limits)
        self.deps = deps
        self.step = step
        self.items: list[Any] = []
        self.hosts: dict[str, MemoryHost] = {}
        self.admissions: list[tuple[ChildRequest, ...]] = []
        self.cancels: list[tuple[str, str]] = []
        self.model_calls = 0
        self.tool_calls = 0
        stamp = _root_stamp()
        self.root = MemoryHost(self, stamp, self.limits, _deadline(self.limits, None))

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
            tags=tags,
        )
        self.root.run = run
        return run

    async def execute(self, value: Any = "go", **options: Any) -> RunResult:
        """Run the root to its end and check what holds for every stream."""
        with anyio.fail_after(20):
            result = await self.run(value, **options).execute()
        self.check()
        return result

    def cancel(self, run_id: str, reason: str, *, untold: Collection[str] = ()) -> None:
        """Set the flags of a run and all below it; the orders to the runs in `untold` stay on their way."""
        self.cancels.append((run_id, reason))
        for host in list(self.hosts.values()):
            if host.is_below(run_id):
                host.cancelled = reason
                if host.run is not None and host.stamp.run_id not in untold:
                    host.run.cancel(reason)

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

    def __init__(self, tree: MemoryTree, stamp: Stamp, limits: Limits, deadline: float | None) -> None:
        self._tree = tree
        self._stamp = stamp
        self._limits = limits
        self._deadline = deadline
        self._seq = 0
        self._requests: dict[str, ChildRequest] = {}
        self.usage, self.cost = NO_USAGE, NO_COST
        self.run: AgentRun | None = None
        self.cancelled: str | None = None
        tree.hosts[stamp.run_id] = self

    @property
    def stamp(self) -> Stamp:
        return self._stamp

    @property
    def limits(self) -> Limits:
        return self._limits

    @property
    def deadline(self) -> float | None:
        return self._deadline

    @property
    def next_seq(self) -> int:
        return self._seq

    def is_below(self, run_id: str) -> bool:
        """Whether this is the run, or one below it."""
        stamp: Stamp | None = self._stamp
        while stamp is not None:
            if stamp.run_id == run_id:
                return True
            stamp = self._tree.hosts[stamp.parent_run_id].stamp if stamp.parent_run_id else None
        return False

    # Emitting

    def emit(self, item_type: type[Item], **fields: Any) -> None:
        self._step(item_type.__name__)
        self._tree.items.append(item_type(**dict(self._stamp), seq=self._seq, time=time.time(), **fields))
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

    async def charge(self, *, model_calls: int = 0, tool_calls: int = 0) -> ChargeReply:
        self._step("charge")
        await anyio.lowlevel.checkpoint()
        tree, limits = self._tree, self._limits
        models = _granted(model_calls, tree.model_calls, limits.max_model_calls)
        tools = _granted(tool_calls, tree.tool_calls, limits.max_tool_calls)
        tree.model_calls += models
        tree.tool_calls += tools
        error: Failure | None = None
        if models < model_calls:
            error = _limit("max_model_calls", limits.max_model_calls)
        if tools < tool_calls:
            error = _limit("max_tool_calls", limits.max_tool_calls)
        return ChargeReply(granted_model_calls=models, granted_tool_calls=tools, error=error)

    async def report(self, usage: Usage, cost: Cost) -> Totals:
        self._step("report")
        await anyio.lowlevel.checkpoint()
        self.usage, self.cost = usage, cost
        total_usage, total_cost = NO_USAGE, NO_COST
        for host in self._tree.hosts.values():
            if host.is_below(self._stamp.run_id):
                total_usage, total_cost = total_usage + host.usage, total_cost + host.cost
        return Totals(usage=usage, cost=cost, total_usage=total_usage, total_cost=total_cost)

    # Spawning

    async def admit(self, children: Sequence[ChildRequest]) -> Sequence[Admission]:
        self._step("admit")
        await anyio.lowlevel.checkpoint()
        self._tree.admissions.append(tuple(children))
        return [self._admit(child) for child in children]

    def _admit(self, child: ChildRequest) -> Admission:
        limits = self._limits.narrow(child.limits)
        depth = self._stamp.depth + 1
        if self.cancelled is not None:
            error = Failure(code="cancelled", message=f"the tree is cancelled: {self.cancelled}")
            return Refused(run_id=child.run_id, error=error)
        if self._limits.max_depth is not None and depth > self._limits.max_depth:
            return Refused(run_id=child.run_id, error=_limit("max_depth", self._limits.max_depth))
        if self._limits.max_runs is not None and len(self._tree.hosts) >= self._limits.max_runs:
            return Refused(run_id=child.run_id, error=_limit("max_runs", self._limits.max_runs))
        stamp = Stamp(
            run_id=child.run_id, parent_run_id=self._stamp.run_id, root_run_id=self._stamp.root_run_id, depth=depth
        )
        deadline = _deadline(limits, self._deadline)
        MemoryHost(self._tree, stamp, limits, deadline)
        self._requests[child.run_id] = child
        return Admitted(
            stamp=stamp,
            lane=LaneAddress(queue="memory", lane=self._stamp.run_id),
            limits=limits,
            deadline=deadline,
            actor_name=child.run_id,
        )

    async def run_child(self, admitted: Admitted, agent_key: str, value: Any) -> RunResult:
        self._step("run_child")
        tree = self._tree
        host = tree.hosts[admitted.stamp.run_id]
        call_id = self._requests[admitted.stamp.run_id].call_id
        host.run = AgentRun(
            tree.agents.agent(agent_key),
            host,
            agents=tree.agents,
            key=agent_key,
            value=value,
            deps=tree.deps,
            call_id=call_id,
        )
        if host.cancelled is not None:
            host.run.cancel(host.cancelled)
        # A task of its own, as another process would be.
        result = await asyncio.shield(asyncio.ensure_future(host.run.execute()))
        host.usage, host.cost = result.usage, result.cost  # what the report of an end does
        return result

    async def cancel_reason(self) -> str | None:
        self._step("cancel_reason")
        await anyio.lowlevel.checkpoint()
        return self.cancelled

    async def cancel_run(self, run_id: str, reason: str, grace: float | None = None) -> None:
        self._step("cancel_run")
        await anyio.lowlevel.checkpoint()
        self._tree.cancel(run_id, reason)

    def _step(self, name: str) -> None:
        if self._tree.step is not None:
            self._tree.step(self, name)


def _root_stamp() -> Stamp:
    run_id = new_run_id()
    return Stamp(run_id=run_id, parent_run_id=None, root_run_id=run_id)


def _deadline(limits: Limits, inherited: float | None) -> float | None:
    own = None if limits.deadline is None else time.time() + limits.deadline
    return min((each for each in (own, inherited) if each is not None), default=None)


def _granted(asked: int, used: int, allowed: int | None) -> int:
    return asked if allowed is None else max(0, min(asked, allowed - used))


def _limit(name: str, allowed: object) -> Failure:
    return LimitExceededError(name, str(allowed), "tree").failure()


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
