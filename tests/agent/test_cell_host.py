"""Cells in a run: their calls are the run's own, with its hooks, bounds, accounts and lineage."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import BaseModel

from runtree.actors.agent import Agent, Middleware, tool
from runtree.actors.agent.agent import OUTPUT_TOOL
from runtree.actors.agent.cell_host import RunCells
from runtree.actors.agent.toolbox import Toolbox
from runtree.actors.repl.session import ReplSession
from runtree.messages import ReplLimitError, ReplPolicy, ReplStoppedError
from runtree.messages.failure import Failure
from runtree.messages.limits import Limits
from runtree.messages.model import Failed, ModelRequest, ModelResponse
from runtree.providers.fallback import chain_of
from runtree.providers.scripted import Hang, ScriptedModel, tool_call
from tests.kit.eventually import eventually
from tests.kit.host import MemoryTree


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def sub(*turn: Any, **fields: Any) -> Agent:
    return Agent("sub", ScriptedModel([list(turn)], loop=True), **fields)


class Within:
    """A run with a session, outside its loop."""

    def __init__(self, tree: MemoryTree) -> None:
        self.tree = tree
        self.run = tree.run()
        self.state = self.run._state
        model: Any = self.state.agent.model
        self.cells = RunCells(self.state, Toolbox(self.state, native_output=False), chain_of(model))

    @asynccontextmanager
    async def session(self, policy: ReplPolicy | None = None) -> AsyncIterator[ReplSession]:
        async with ReplSession(self.cells, policy=policy, cancelled=self.state.flag) as session:
            yield session
            await self.cells.settle()
        await self.state.close_background()


def within(*turns: Any, limits: Limits | None = None, **fields: Any) -> Within:
    model = ScriptedModel(list(turns) or [["yes"]], loop=True)
    return Within(MemoryTree(Agent("lead", model, **fields), limits=limits))


async def value(session: ReplSession, code: str) -> Any:
    result = await session.eval_cell(code)
    assert result.error is None, result.error.traceback
    return result.value


async def test_e2_a_model_query_goes_through_hooks_and_accounts() -> None:
    class Seen(Middleware):
        async def before_model(self, ctx: Any, request: ModelRequest) -> ModelRequest:
            return request.model_copy(update={"instructions": request.instructions + "!"})

        async def after_model(self, ctx: Any, response: ModelResponse) -> ModelResponse:
            message = response.message
            block = message.content[0].model_copy(update={"text": message.text.upper()})
            return response.model_copy(update={"message": message.model_copy(update={"content": (block,)})})

    run = within(["yes"], middleware=[Seen()])
    async with run.session() as session:
        assert await value(session, "await model_query('q', 'short')") == "YES"
    model: Any = run.state.agent.model
    (request,) = model.requests
    assert (request.instructions, request.run_id) == ("short!", run.state.context.run_id)
    assert len(run.state.accounts.model_calls) == 1
    assert [item.phase for item in run.tree.of("repl_call")] == ["started", "completed"]
    assert len(run.tree.of("usage_updated")) == 1
    assert not run.tree.of("model_delta")
    assert not run.state.messages


async def test_e2_a_failed_query_is_retried_as_the_run_does() -> None:
    failure = Failure(code="overloaded", message="busy", retryable=True, retry_after=0.01)
    run = within([Failed(error=failure)], ["yes"])
    async with run.session() as session:
        assert await value(session, "await model_query('q')") == "yes"
    assert [record.failure for record in run.state.accounts.model_calls] == ["overloaded", None]


async def test_e2_tools_are_called_as_the_model_would() -> None:
    run = within(tools=[add])
    async with run.session() as session:
        assert await value(session, "await tool_call('add', a=1, b=2) + 1") == 4
        batch = await value(session, "await tool_call_batched('add', [{'a': 1, 'b': 1}, {'a': 'x'}])")
        assert batch[0] == {"ok": True, "value": 2}
        assert "Invalid arguments" in batch[1]["error"]
        error = (await session.eval_cell("await tool_call('sub', input='x')")).error
        assert error is not None
        assert "Tools: add" in error.message
    assert sorted(item.outcome for item in run.tree.of("tool_call_completed")) == ["invalid", "ok", "ok"]
    assert run.state.accounts.usage.tool_calls == 2


async def test_e2_an_agent_query_is_a_child_run() -> None:
    run = within(agents=[sub("found")])
    async with run.session() as session:
        found = await value(session, "await agent_query_batched('sub', ['a', 'b'])")
        assert found == [{"ok": True, "value": "found"}] * 2
    started = run.tree.of("run_started")
    root = run.state.context.run_id
    assert {(item.parent_run_id, item.root_run_id, item.depth) for item in started} == {(root, root, 1)}
    assert {item.call_id for item in started} == {item.call_id for item in run.tree.of("tool_call_started")}
    assert [len(batch) for batch in run.tree.admissions] == [2]
    completed = [item for item in run.tree.items if item.kind in ("run_completed", "tool_call_completed", "repl_call")]
    assert [item.kind for item in completed][-1] == "repl_call"


async def test_e2_structured_output_comes_as_data() -> None:
    run = within(agents=[sub(tool_call(OUTPUT_TOOL, {"value": [1, 2]}), output_type=list[int])])
    async with run.session() as session:
        assert await value(session, "sum(await agent_query('sub', 'a'))") == 3


class Broken(Middleware):
    async def after_model(self, ctx: Any, response: ModelResponse) -> ModelResponse:
        raise ValueError("broken")

    async def wrap_tool(self, ctx: Any, call: Any, call_next: Any) -> Any:
        raise ValueError("broken")


@pytest.mark.parametrize("code", ["await model_query('q')", "await tool_call_batched('add', [{'a': 1, 'b': 2}])"])
async def test_a_hook_that_raises_ends_the_cell_and_is_told(code: str) -> None:
    run = within(tools=[add], middleware=[Broken()])
    async with run.session() as session:
        with pytest.raises(ReplStoppedError, match="broken"):
            await session.eval_cell(f"try:\n  {code}\nexcept BaseException: answer('caught')")
    assert "broken" in str(run.cells.fatal)
    assert len(run.tree.of("tool_call_completed")) == len(run.tree.of("tool_call_started"))


async def test_calls_of_a_cell_keep_to_the_parallelism_of_the_agent() -> None:
    at_once: list[int] = []
    running = 0

    @tool
    async def busy() -> None:
        """Be busy for a moment."""
        nonlocal running
        running += 1
        at_once.append(running)
        await asyncio.sleep(0)
        running -= 1

    run = within(tools=[busy], max_parallel=2)
    async with run.session() as session:
        assert len(await value(session, "await tool_call_batched('busy', [{}] * 6)")) == 6
    assert max(at_once) == 2


@pytest.mark.parametrize(
    "limits, fields, code, limit",
    [
        (Limits(max_depth=0), {}, "await agent_query('sub', 'a')", "max_depth"),
        (Limits(max_runs=1), {}, "await agent_query_batched('sub', ['a'])", "max_runs"),
        (Limits(max_model_calls=1), {}, "await model_query('a')\n  await model_query('a')", "max_model_calls"),
        (Limits(max_tool_calls=1), {}, "for i in range(2): await tool_call('add', a=1, b=2)", "max_tool_calls"),
        (None, {"max_tool_calls": 1}, "for i in range(2): await tool_call('add', a=1, b=2)", "max_tool_calls"),
    ],
)
async def test_e04_limits_of_the_run_can_not_be_caught(
    limits: Limits | None, fields: dict[str, Any], code: str, limit: str
) -> None:
    run = within(limits=limits, tools=[add], agents=[sub("x")], **fields)
    async with run.session() as session:
        with pytest.raises(ReplLimitError) as caught:
            await session.eval_cell(f"try:\n  {code}\nexcept BaseException: answer('caught')\nanswer('after')")
        assert caught.value.limit == limit
        assert not caught.value.result.answered
        assert await value(session, "1") == 1
    assert run.state.stop is None


async def test_e3_a_dropped_call_ends_its_child_and_not_the_run() -> None:
    run = within(agents=[sub(Hang())])
    async with run.session(ReplPolicy(wait_time=0.2)) as session:
        with pytest.raises(ReplLimitError):
            await session.eval_cell("await agent_query('sub', 'a')")
        await run.cells.settle()
        assert run.state.stop is None
        assert [item.kind for item in run.tree.items[-2:]] == ["run_cancelled", "tool_call_completed"]
        assert await value(session, "1") == 1
    (done,) = run.tree.of("tool_call_completed")
    assert (done.outcome, "its cell has ended" in done.message) == ("cancelled", True)


async def test_e3_a_cancelled_run_stops_its_cell_and_what_is_below() -> None:
    run = within(agents=[sub(Hang())])
    async with run.session() as session:
        cell = asyncio.ensure_future(session.eval_cell("await agent_query('sub', 'a')"))
        await eventually(lambda: run.tree.of("turn_started"))
        run.tree.cancel(run.state.context.run_id, "enough")
        with pytest.raises(ReplStoppedError, match="enough"):
            await cell
        await run.cells.settle()
    assert len(run.tree.of("run_cancelled")) == 1


async def test_s12_calls_that_wait_for_sub_agents_leave_them_the_slot() -> None:
    run = within(limits=Limits(max_parallel=1), agents=[sub("x")])
    async with run.session() as session:
        code = "import asyncio\nawait asyncio.gather(agent_query('sub', 'a'), agent_query('sub', 'b'))"
        assert await asyncio.wait_for(value(session, code), 20) == ["x", "x"]


async def test_an_input_that_is_no_object_is_refused_with_the_fields() -> None:
    class Place(BaseModel):
        """A place."""

        town: str

    run = within(agents=[sub("x", input_type=Place)])
    async with run.session() as session:
        assert await value(session, "await agent_query('sub', {'town': 'Bonn'})") == "x"
        result = await session.eval_cell("await agent_query('sub', 'Bonn')")
        assert result.error is not None
        assert "a str is no object with the fields town" in result.error.message
    assert [item.outcome for item in run.tree.of("repl_call") if item.phase == "completed"] == ["ok", "invalid"]
