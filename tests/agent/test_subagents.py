"""Sub-agents as tools: one run each, bounded from outside the model's reach."""

import asyncio
from datetime import date
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from runtree.actors.agent import Agent, ToolContext, tool
from runtree.messages.errors import AgentDefinitionError
from runtree.messages.failure import Failure
from runtree.messages.limits import Limits
from runtree.messages.model import Failed
from runtree.messages.transcript import ToolMessage, ToolResult
from runtree.providers.scripted import Hang, ScriptedModel, tool_call
from tests.kit.host import MemoryTree


def says(*words: str, name: str = "sub", **fields: Any) -> Agent:
    return Agent(name, ScriptedModel([list(words)], loop=True), **fields)


def calls(*arguments: dict[str, Any], name: str = "sub") -> ScriptedModel:
    return ScriptedModel([[tool_call(name, each, f"c{number}") for number, each in enumerate(arguments)], ["done"]])


def results_of(result: Any) -> tuple[ToolResult, ...]:
    return next(message for message in result.messages if isinstance(message, ToolMessage)).results


async def test_two_children_of_one_agent_side_by_side() -> None:
    """X01, X02: two runs, two ids, everything attributable; admitted by one call."""
    tree = MemoryTree(Agent("lead", calls({"input": "a"}, {"input": "b"}), agents=[says("x", "y")]))
    result = await tree.execute()
    assert result.output == "done"
    first, second = results_of(result)
    assert first.run_id != second.run_id
    assert [len(batch) for batch in tree.admissions] == [2]
    root = tree.root.stamp.run_id
    for answer in (first, second):
        assert answer.text == tree.text(answer.run_id) == "xy"
        started = tree.of("run_started", answer.run_id)[0]
        assert (started.parent_run_id, started.root_run_id, started.depth) == (root, root, 1)
        assert started.call_id == answer.call_id
    done = tree.of("tool_call_completed")
    assert {(item.call_id, item.child_run_id) for item in done} == {
        (each.call_id, each.run_id) for each in results_of(result)
    }


async def test_admission_follows_max_parallel() -> None:
    tree = MemoryTree(Agent("lead", calls(*[{"input": "a"}] * 5), agents=[says("x")], max_parallel=3))
    await tree.execute()
    assert len(tree.admissions[0]) == 3
    assert sum(map(len, tree.admissions)) == 5


@pytest.mark.parametrize(
    "limits, name",
    [(Limits(max_depth=0), "max_depth"), (Limits(max_runs=1), "max_runs")],
)
async def test_refused_children(limits: Limits, name: str) -> None:
    """X03: the model learns which bound it hit, and goes on."""
    tree = MemoryTree(Agent("lead", calls({"input": "a"}), agents=[says("x")]), limits=limits)
    result = await tree.execute()
    answer = results_of(result)[0]
    assert (result.output, answer.outcome, name in answer.text) == ("done", "refused", True)
    assert result.usage.tool_calls == 0


@pytest.mark.parametrize(
    "arguments",
    [{}, {"input": ""}, {"input": "  "}, {"input": 3}, {"input": None}, {"prompt": "x"}, {"input": "x", "depth": 0}],
)
async def test_wrong_input(arguments: dict[str, Any]) -> None:
    """X04, X08: never an empty prompt, and nothing the model could add."""
    tree = MemoryTree(Agent("lead", calls(arguments), agents=[says("x")]))
    result = await tree.execute()
    assert (results_of(result)[0].outcome, tree.admissions) == ("invalid", [])


class Job(BaseModel):
    topic: str
    due: date


@pytest.mark.parametrize(
    "input_type, arguments, text",
    [
        pytest.param(Job, {"topic": "a", "due": "2024-01-02"}, '{"topic":"a","due":"2024-01-02"}', id="model"),
        pytest.param(list[int], {"input": [1, 2]}, "[1,2]", id="list"),
    ],
)
async def test_typed_input(input_type: Any, arguments: dict[str, Any], text: str) -> None:
    """X04."""
    seen: list[str] = []

    def answer(request: Any) -> list[Any]:
        seen.append(request.messages[-1].content[0].text)
        return ["x"]

    sub = Agent("sub", ScriptedModel([answer]), input_type=input_type)
    model = ScriptedModel([[tool_call("sub", arguments), tool_call("sub", {"input": "text"})], ["done"]])
    result = await MemoryTree(Agent("lead", model, agents=[sub])).execute()
    assert [each.outcome for each in results_of(result)] == ["ok", "invalid"]
    assert seen == [text]


async def test_child_fails() -> None:
    """X05."""
    failing = Agent("sub", ScriptedModel([[Failed(error=Failure(code="quota", message="no money left"))]]))
    tree = MemoryTree(Agent("lead", calls({"input": "a"}), agents=[failing]))
    result = await tree.execute()
    answer = results_of(result)[0]
    assert (result.output, answer.outcome, "no money left" in answer.text) == ("done", "error", True)
    assert len(tree.of("run_failed")) == 1


async def test_three_deep() -> None:
    """X06, U07."""
    deep = says("leaf", name="deep")
    middle = Agent("middle", calls({"input": "x"}, name="deep"), agents=[deep])
    sub = Agent("sub", calls({"input": "x"}, name="middle"), agents=[middle])
    tree = MemoryTree(Agent("lead", calls({"input": "x"}), agents=[sub]))
    result = await tree.execute()
    assert [item.depth for item in tree.of("run_started")] == [0, 1, 2, 3]
    parents = [item.parent_run_id for item in tree.of("run_started")]
    assert parents == [None, *(item.run_id for item in tree.of("run_started")[:3])]
    assert result.usage.model_calls == 2
    assert result.total_usage.model_calls == sum(host.usage.model_calls for host in tree.hosts.values()) == 7


async def test_recursion() -> None:
    """X09: up to max_depth."""

    def fresh(request: Any) -> list[Any]:
        return ["done"] if request.messages[-1].kind == "tool" else [tool_call("lead", {"input": "x"})]

    lead = Agent("lead", ScriptedModel([fresh], loop=True), agents=["lead"])
    tree = MemoryTree(lead, limits=Limits(max_depth=4))
    result = await tree.execute()
    assert result.output == "done"
    assert [item.depth for item in tree.of("run_started")] == [0, 1, 2, 3, 4]
    assert [item.outcome for item in tree.of("tool_call_completed")] == ["refused", "ok", "ok", "ok", "ok"]


async def test_child_times_out() -> None:
    """X03, X12: told through the supervisor, and nothing of it comes after the parent's completion."""
    hanging = Agent("sub", ScriptedModel([["word", Hang()]]))
    tree = MemoryTree(Agent("lead", calls({"input": "a"}), agents=[hanging]), limits=Limits(tool_timeout=0.3))
    result = await tree.execute()
    answer = results_of(result)[0]
    assert (result.output, answer.outcome, "tool_timeout" in answer.text) == ("done", "timeout", True)
    assert tree.cancels == [(answer.run_id, "timeout")]
    assert [item.run_id for item in tree.of("run_cancelled")] == [answer.run_id]


async def test_cancel_of_a_sub_tree() -> None:
    """C03: its parent goes on and is told."""
    tree: MemoryTree

    def cancel_it(request: Any) -> list[Any]:
        child = tree.of("run_started")[-1].run_id
        tree.cancel(child, "by hand")
        return ["never"]

    sub = Agent("sub", ScriptedModel([cancel_it]))
    tree = MemoryTree(Agent("lead", calls({"input": "a"}), agents=[sub]))
    result = await tree.execute()
    answer = results_of(result)[0]
    assert (result.output, answer.outcome) == ("done", "cancelled")
    assert "by hand" in answer.text


async def test_supervisor_that_does_not_answer() -> None:
    def break_admission(_: Any, name: str) -> None:
        if name == "admit":
            raise ConnectionError("gone")

    tree = MemoryTree(Agent("lead", calls({"input": "a"}, {"input": "b"}), agents=[says("x")]), step=break_admission)
    result = await tree.execute()
    assert [each.outcome for each in results_of(result)] == ["error", "error"]


async def test_spawn_from_tools() -> None:
    """T08: a run outside of the model's choice, from async and from sync tools."""
    sub = says("child")

    @tool
    async def ask(ctx: ToolContext) -> str:
        result = await ctx.spawn(sub, "x")
        return f"{result.status}:{result.output}"

    @tool
    def ask_in_thread(ctx: ToolContext) -> str:
        return str(ctx.blocking.spawn("sub", "x").output)

    @tool
    async def ask_stranger(ctx: ToolContext) -> None:
        with pytest.raises(AgentDefinitionError):
            await ctx.spawn("stranger", "x")

    tools = [ask, ask_in_thread, ask_stranger]
    model = ScriptedModel([[tool_call(each.name) for each in tools], ["done"]])
    tree = MemoryTree(Agent("lead", model, tools=tools, agents=[sub]))
    result = await tree.execute()
    assert [each.text for each in results_of(result)] == ["completed:child", "child", "null"]
    assert len(tree.of("run_completed")) == 3


async def test_spawn_that_is_refused() -> None:
    ends: list[Any] = []

    @tool
    async def ask(ctx: ToolContext) -> None:
        ends.append(await ctx.spawn("sub", "x"))

    model = ScriptedModel([[tool_call("ask")], ["done"]])
    await MemoryTree(Agent("lead", model, tools=[ask], agents=[says("x")]), limits=Limits(max_depth=0)).execute()
    assert (ends[0].status, ends[0].error.limit) == ("failed", "max_depth")


@pytest.mark.parametrize("sync", [False, True])
async def test_a_tool_that_times_out_takes_its_child_along(sync: bool) -> None:
    """X12 for runs that a tool has started."""

    @tool(timeout=0.5)
    async def ask(ctx: ToolContext) -> None:
        await ctx.spawn("sub", "x")

    @tool(name="ask", timeout=0.5)
    def ask_in_thread(ctx: ToolContext) -> None:
        ctx.blocking.spawn("sub", "x")

    hanging = Agent("sub", ScriptedModel([["word", Hang()]]))
    model = ScriptedModel([[tool_call("ask")], ["done"]])
    tree = MemoryTree(Agent("lead", model, tools=[ask_in_thread if sync else ask], agents=[hanging]))
    result = await tree.execute()
    assert (result.output, results_of(result)[0].outcome) == ("done", "timeout")
    kinds = [item.kind for item in tree.items]
    assert kinds.index("run_cancelled") < kinds.index("tool_call_completed")


async def test_a_child_left_behind_by_its_tool_is_cancelled() -> None:
    started = anyio.Event()

    def begin(request: Any) -> list[Any]:
        started.set()
        return [Hang()]

    @tool
    async def forget(ctx: ToolContext) -> str:
        tasks.append(asyncio.ensure_future(ctx.spawn("sub", "x")))
        await started.wait()
        return "left"

    tasks: list[Any] = []
    model = ScriptedModel([[tool_call("forget")], ["done"]])
    tree = MemoryTree(Agent("lead", model, tools=[forget], agents=[Agent("sub", ScriptedModel([begin]))]))
    result = await tree.execute()
    assert results_of(result)[0].text == "left"
    assert (await tasks[0]).status == "cancelled"


async def test_limits_of_a_child_only_narrow() -> None:
    """X08."""
    leaf = says("x", name="leaf")
    sub = Agent("sub", calls({"input": "x"}, name="leaf"), agents=[leaf], limits=Limits(max_depth=0, tool_timeout=9))
    tree = MemoryTree(Agent("lead", calls({"input": "x"}), agents=[sub]), limits=Limits(tool_timeout=5))
    await tree.execute()
    child = next(host for host in tree.hosts.values() if host.stamp.depth == 1)
    assert (child.limits.max_depth, child.limits.tool_timeout) == (0, 5)
    assert [item.outcome for item in tree.of("tool_call_completed")] == ["refused", "ok"]
