"""Parallel slots (S12), as runs see them: who only waits for its children holds none."""

import asyncio
from typing import Any

import anyio
import pytest

from runtree.actors.agent import Agent, ToolContext, tool
from runtree.messages.limits import Limits
from runtree.messages.model import ModelRequest
from runtree.providers.scripted import ScriptedModel, tool_call
from tests.kit.eventually import eventually
from tests.kit.host import MemoryTree
from tests.kit.metered import MeteredModel


def chain(depth: int, leaf: Agent) -> Agent:
    """Return agents of which each calls the next."""
    agent = leaf
    for number in range(depth):
        model = ScriptedModel([["asking", tool_call(agent.name, {"input": "x"})], [f"level {number}"]], loop=True)
        agent = Agent(f"level{number}", model, agents=[agent])
    return agent


def fan_out(count: int, child: Agent, **fields: Any) -> Agent:
    calls = [tool_call(child.name, {"input": "x"}) for _ in range(count)]
    return Agent("lead", ScriptedModel([calls, ["done"]]), agents=[child], **fields)


def outcomes(tree: MemoryTree) -> list[str]:
    return [item.outcome for item in tree.of("tool_call_completed", tree.root.stamp.run_id)]


async def test_x13_a_chain_of_depth_eight_with_one_slot_ends() -> None:
    tree = MemoryTree(chain(8, Agent("leaf", ScriptedModel([["bottom"]]))), limits=Limits(max_parallel=1))
    result = await tree.execute()
    assert (result.status, len(tree.hosts)) == ("completed", 9)


async def test_x13_fifty_waiting_parents_with_four_slots_end() -> None:
    leaf = MeteredModel()
    tree = MemoryTree(fan_out(50, chain(1, Agent("leaf", leaf))), limits=Limits(max_parallel=4))
    result = await tree.execute()
    assert (result.status, outcomes(tree)) == ("completed", ["ok"] * 50)
    assert len(leaf.requests) == 50
    assert leaf.most_at_once <= 4


async def test_x13_a_fan_out_starts_as_many_as_there_are_slots() -> None:
    """Those that can start do so at once; the others follow one by one."""
    gate = anyio.Event()
    model = MeteredModel(gate=gate)
    tree = MemoryTree(fan_out(50, Agent("sub", model)), limits=Limits(max_parallel=4))
    async with anyio.create_task_group() as group:
        group.start_soon(tree.execute)
        await eventually(lambda: len(model.requests) == 4)
        await anyio.wait_all_tasks_blocked()
        assert model.at_once == 4
        assert [item.what for item in tree.of("waiting")] == ["parallel"]
        gate.set()
    assert (len(model.requests), model.most_at_once) == (50, 4)
    assert outcomes(tree) == ["ok"] * 50
    waits = tree.of("waiting", tree.root.stamp.run_id)
    assert [item.duration is None for item in waits] == [True, False] * (len(waits) // 2)


async def test_a_tool_at_work_holds_the_slot() -> None:
    """Only when every call waits is the slot free: with one slot the child comes after the tool."""
    order: list[str] = []
    gate = anyio.Event()

    @tool
    async def work() -> None:
        order.append("work")
        await gate.wait()
        order.append("worked")

    def answer(_: ModelRequest) -> list[str]:
        order.append("child")
        return ["ok"]

    child = Agent("sub", ScriptedModel([answer]))
    model = ScriptedModel([[tool_call("sub", {"input": "x"}), tool_call("work")], ["done"]])
    tree = MemoryTree(Agent("lead", model, tools=[work], agents=[child]), limits=Limits(max_parallel=1))
    async with anyio.create_task_group() as group:
        group.start_soon(tree.execute)
        await eventually(lambda: "work" in order)
        await anyio.wait_all_tasks_blocked()
        gate.set()
    assert order == ["work", "worked", "child"]


@pytest.mark.parametrize("sync", [False, True])
async def test_x13_a_tool_that_awaits_runs_gives_the_slot_back(*, sync: bool) -> None:
    """Also where it awaits several at once; and it goes on with a slot."""

    @tool(name="ask")
    async def ask(ctx: ToolContext) -> str:
        first = await ctx.spawn("sub", "x")
        rest = await asyncio.gather(*(ctx.spawn("sub", "x") for _ in range(3)))
        return " ".join(each.status for each in (first, *rest))

    @tool(name="ask")
    def ask_in_thread(ctx: ToolContext) -> str:
        return " ".join(ctx.blocking.spawn("sub", "x").status for _ in range(4))

    model = MeteredModel()
    lead = ScriptedModel([[tool_call("ask"), tool_call("ask")], ["done"]])
    agent = Agent("lead", lead, tools=[ask_in_thread if sync else ask], agents=[Agent("sub", model)])
    tree = MemoryTree(agent, limits=Limits(max_parallel=1))
    result = await tree.execute()
    assert result.output == "done"
    assert len(model.requests) == 8
    assert model.most_at_once == 1
    assert outcomes(tree) == ["ok", "ok"]


async def test_c02_a_cancel_ends_an_admission_wait() -> None:
    model = MeteredModel(gate=anyio.Event())
    tree = MemoryTree(fan_out(6, Agent("sub", model)), limits=Limits(max_parallel=2))
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(tree.execute)
            await eventually(lambda: len(model.requests) == 2)
            tree.cancel(tree.root.stamp.run_id, "user")
    assert len(model.requests) == 2
    assert len(tree.of("run_started")) == 3
    assert len(outcomes(tree)) == 6


async def test_c02_a_timeout_of_the_call_ends_an_admission_wait() -> None:
    """X03: nobody starts a child that nobody waits for any more."""
    gate = anyio.Event()
    model = MeteredModel(gate=gate)
    tree = MemoryTree(fan_out(3, Agent("sub", model)), limits=Limits(max_parallel=1, tool_timeout=0.3))
    with anyio.fail_after(5):
        result = await tree.execute()
    assert result.output == "done"
    assert outcomes(tree) == ["timeout"] * 3
    assert len(model.requests) == 1


async def test_c02_a_cancel_ends_the_wait_to_go_on() -> None:
    """The sub-agent of `middle` is done, and others have come into its slot."""
    begun, go = anyio.Event(), anyio.Event()

    @tool
    async def later(ctx: ToolContext) -> None:
        await begun.wait()
        await asyncio.gather(ctx.spawn("slow", "x"), ctx.spawn("slow", "x"))

    @tool
    async def hold() -> str:
        begun.set()
        await go.wait()
        return "held"

    slow = Agent("slow", MeteredModel(gate=anyio.Event()))
    quick = Agent("quick", ScriptedModel([[tool_call("hold")], ["ok"]]), tools=[hold])
    middle = Agent("middle", ScriptedModel([[tool_call("quick", {"input": "x"})], ["ok"]]), agents=[quick])
    model = ScriptedModel([[tool_call("middle", {"input": "x"}), tool_call("later")], ["done"]])
    tree = MemoryTree(Agent("lead", model, tools=[later], agents=[middle, slow]), limits=Limits(max_parallel=2))
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(tree.execute)
            await eventually(lambda: [item.agent for item in tree.of("run_started")][3:] == ["slow"])
            go.set()
            await eventually(lambda: any(item.detail == "to go on" for item in tree.of("waiting")))
            waiting = next(item.run_id for item in tree.of("waiting") if item.detail == "to go on")
            tree.cancel(waiting, "user")
            await eventually(lambda: tree.of("run_cancelled", waiting))
            assert tree.of("run_started", waiting)[0].agent == "middle"
            tree.cancel(tree.root.stamp.run_id, "user")
    assert tree.items[-1].kind == "run_cancelled"


async def test_without_a_bound_no_slot_is_asked_for() -> None:
    steps: list[str] = []
    tree = MemoryTree(fan_out(3, Agent("sub", MeteredModel())), step=lambda _, name: steps.append(name))
    await tree.execute()
    assert "slot" not in steps
