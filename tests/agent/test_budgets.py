"""Budgets by reservation, as a run sees them (S8): asked for before a call, lowered, waited for, settled, and never exceeded."""

from collections.abc import AsyncGenerator, AsyncIterator
from decimal import Decimal
from typing import Any

import anyio
import pytest

from runtree.actors.agent import Agent, Middleware, Retry, RunContext, ToolContext, tool
from runtree.actors.agent.middleware import ModelNext
from runtree.messages.content import TextBlock, ToolCallBlock
from runtree.messages.control import GrantOrder
from runtree.messages.failure import Failure
from runtree.messages.limits import Limits
from runtree.messages.model import Completed, ModelEvent, ModelRequest, ModelResponse, ModelSettings
from runtree.messages.transcript import AssistantMessage, ToolMessage
from runtree.providers import FallbackModel, RetryPolicy
from runtree.providers.prompt_bound import most_tokens
from runtree.providers.scripted import Hang, ScriptedModel, tool_call
from tests.kit.eventually import eventually
from tests.kit.host import MemoryTree
from tests.kit.metered import FREE, MeteredModel, profile

BUSY = Failure(code="overloaded", message="busy", retryable=True)
QUICK = Retry(RetryPolicy(initial=0.001, maximum=0.001))


def fan_out(count: int, child: Agent, **fields: Any) -> Agent:
    """Return an agent that calls another so many times at once, by a model that costs nothing."""
    calls = [tool_call(child.name, {"input": "x"}) for _ in range(count)]
    free = profile("free", FREE)
    return Agent("lead", ScriptedModel([calls, ["done"]], profile=free), agents=[child], **fields)


def reserved(tree: MemoryTree) -> dict[str, Decimal]:
    """Return what is under reservation still."""
    return {line.limit: line.reserved for line in tree.registry.budget(tree.root.stamp.run_id).lines if line.reserved}


def outcomes(tree: MemoryTree) -> list[str]:
    return [item.outcome for item in tree.of("tool_call_completed", tree.root.stamp.run_id)]


@pytest.mark.parametrize(
    "limits, field",
    [
        (Limits(max_cost=Decimal("3")), "max_cost"),
        (Limits(max_tokens=700), "max_tokens"),
        (Limits(max_model_calls=5), "max_model_calls"),
    ],
)
async def test_u08_eight_parallel_children_never_exceed_a_limit(limits: Limits, field: str) -> None:
    """X03 too: who finds nothing left fails naming the limit, and the parent is told."""
    child = Agent("sub", MeteredModel(), middleware=[QUICK])
    tree = MemoryTree(fan_out(8, child), limits=limits)
    result = await tree.execute()
    spent = {
        "max_cost": result.total_cost.amount or 0,
        "max_tokens": result.total_usage.tokens,
        "max_model_calls": result.total_usage.model_calls,
    }
    assert 0 < spent[field] <= getattr(limits, field)
    assert not reserved(tree)
    failed = [item.error.limit for item in tree.of("run_failed")]
    assert field in failed
    assert set(failed) == {field}


async def test_u08_a_limit_of_nine_tool_calls() -> None:
    done: list[str] = []

    @tool
    async def work() -> str:
        done.append("x")
        return "ok"

    calls = [tool_call("work"), tool_call("work")]
    child = Agent("sub", ScriptedModel([calls, ["fine"]] * 4, loop=True), tools=[work])
    tree = MemoryTree(fan_out(4, child), limits=Limits(max_tool_calls=9))
    result = await tree.execute()
    assert len(done) == 5, "four of the nine are the calls of the sub-agents"
    assert result.total_usage.tool_calls == 9
    refused = [item.message for item in tree.of("tool_call_completed") if item.outcome == "refused"]
    assert len(refused) == 3
    assert all("max_tool_calls" in message for message in refused)


async def test_the_granted_length_is_always_sent() -> None:
    """S8: also where it is what was asked for; without a bound nothing is changed."""
    for limits, sent in ((None, None), (Limits(max_cost=Decimal("100")), 100), (Limits(max_tokens=10_000), 100)):
        model = MeteredModel(output=5)
        await MemoryTree(Agent("lead", model), limits=limits).execute()
        assert [request.settings.max_output_tokens for request in model.requests] == [sent]


async def test_an_answer_is_lowered_to_what_is_left() -> None:
    model = MeteredModel(output=5)
    agent = Agent("lead", model, model_settings=ModelSettings(max_output_tokens=5000))
    tree = MemoryTree(agent, limits=Limits(max_tokens=1000))
    assert (await tree.execute()).status == "completed"
    [request] = model.requests
    assert request.settings.max_output_tokens == 1000 - most_tokens(request, model.profile)


async def test_an_answer_that_the_budget_has_cut_is_a_failure() -> None:
    """L7, S8: what there is of it stays."""
    model = MeteredModel(lambda _, __: "half a", output=900)
    agent = Agent("lead", model, model_settings=ModelSettings(max_output_tokens=1000))
    tree = MemoryTree(agent, limits=Limits(max_tokens=700))
    result = await tree.execute()
    assert result.error is not None
    assert (result.status, result.error.code, result.error.limit) == ("failed", "limit_exceeded", "max_tokens")
    assert isinstance(result.messages[-1], AssistantMessage)
    assert result.messages[-1].text == "half a"
    assert result.usage.tokens <= 700


async def test_a_refusal_ends_the_run_with_what_it_has() -> None:
    """L07: named, not repeated, and no other model is asked."""
    first = MeteredModel(lambda _, __: [ToolCallBlock(call_id="c", tool_name="add", arguments={})], output=50)
    second = MeteredModel()

    @tool
    async def add() -> int:
        return 1

    agent = Agent("lead", FallbackModel(first, second), tools=[add], middleware=[QUICK])
    tree = MemoryTree(agent, limits=Limits(max_model_calls=1))
    result = await tree.execute()
    assert result.error is not None
    assert (result.status, result.error.limit) == ("failed", "max_model_calls")
    assert (len(first.requests), len(second.requests)) == (1, 0)
    assert isinstance(result.messages[-1], ToolMessage)


async def test_u06_each_try_and_each_fallback_is_reserved_anew() -> None:
    first = MeteredModel(lambda _, __: BUSY, output=1, profile=profile("first"))
    second = MeteredModel(output=1, profile=profile("second"))
    steps: list[str] = []
    agent = Agent("lead", FallbackModel(first, second), middleware=[QUICK])
    tree = MemoryTree(agent, limits=Limits(max_cost=Decimal("100")), step=lambda _, name: steps.append(name))
    result = await tree.execute()
    assert (result.status, steps.count("reserve")) == ("completed", 4)
    assert not reserved(tree)
    assert result.cost.amount == tree.registry.get(tree.root.stamp.run_id).totals().total_cost.amount


async def test_u09_what_fails_or_is_answered_by_a_layer_reserves_nothing_in_the_end() -> None:
    class Kept(Middleware):
        """Answers by itself."""

        async def wrap_model(
            self, ctx: RunContext, request: ModelRequest, call_next: ModelNext
        ) -> AsyncIterator[ModelEvent]:
            message = AssistantMessage(content=(TextBlock(text="kept"),))
            yield Completed(response=ModelResponse(message=message, cached=True))

    steps: list[str] = []
    model = MeteredModel()
    tree = MemoryTree(
        Agent("lead", model, middleware=[Kept()]),
        limits=Limits(max_cost=Decimal("100")),
        step=lambda _, name: steps.append(name),
    )
    assert (await tree.execute()).output == "kept"
    assert "reserve" not in steps
    assert not reserved(tree)
    broken = MemoryTree(
        Agent("lead", MeteredModel(lambda _, __: BUSY), middleware=[QUICK]), limits=Limits(max_cost=Decimal("9"))
    )
    assert (await broken.execute()).status == "failed"
    assert not reserved(broken)


async def test_u05_u09_a_cancelled_call_is_settled_at_the_estimate() -> None:
    """The call hangs; what was reserved for its answer is free for others, and what came is paid."""
    hanging = ScriptedModel([["some words of an answer", Hang()]], profile=profile("hang"))
    tree = MemoryTree(Agent("lead", hanging), limits=Limits(max_cost=Decimal("50")))
    run = tree.run()
    results: list[Any] = []

    async def execute() -> None:
        results.append(await run.execute())

    async with anyio.create_task_group() as group:
        group.start_soon(execute)
        await eventually(lambda: tree.of("model_delta"))
        assert reserved(tree)
        tree.cancel(tree.root.stamp.run_id, "user")
    tree.root.end(results[0])
    assert not reserved(tree)
    assert results[0].usage.precision == "estimated"
    assert 0 < results[0].cost.amount < 1


async def test_a_wait_for_what_others_have_reserved_is_seen_and_ends_with_their_calls() -> None:
    """S8: settled before the next turn of whoever used it."""
    gate = anyio.Event()
    model = MeteredModel(output=1, gate=gate)
    tree = MemoryTree(fan_out(2, Agent("sub", model)), limits=Limits(max_cost=Decimal("1.9")))
    async with anyio.create_task_group() as group:
        group.start_soon(tree.execute)
        await eventually(lambda: tree.of("waiting"))
        assert len(model.requests) == 1
        gate.set()
    assert len(model.requests) == 2
    begin, end = tree.of("waiting")
    assert (begin.what, begin.duration, begin.detail) == ("budget", None, "acme:metered")
    assert end.duration is not None
    assert outcomes(tree) == ["ok", "ok"]
    assert not reserved(tree)


async def test_c02_a_cancel_ends_the_wait_for_a_budget() -> None:
    model = MeteredModel(gate=anyio.Event())
    tree = MemoryTree(fan_out(2, Agent("sub", model)), limits=Limits(max_cost=Decimal("1.9")))
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(tree.execute)
            await eventually(lambda: tree.of("waiting"))
            waiting = tree.of("waiting")[0].run_id
            tree.cancel(waiting, "user")
            await eventually(lambda: tree.of("run_cancelled", waiting))
            assert len(model.requests) == 1, "the other call goes on"
            tree.cancel(tree.root.stamp.run_id, "user")
    assert not reserved(tree)


async def test_the_deadline_ends_the_wait_for_a_budget() -> None:
    model = MeteredModel(gate=anyio.Event())
    child = Agent("sub", model, limits=Limits(deadline=0.3))
    tree = MemoryTree(fan_out(2, child), limits=Limits(max_cost=Decimal("1.9")))
    await tree.execute()
    assert [item.error.limit for item in tree.of("run_failed")] == ["deadline", "deadline"]
    assert not reserved(tree)


async def test_a_decision_that_was_lost_is_asked_for_again() -> None:
    """S6: as after a restart of the supervisor."""
    gate = anyio.Event()
    tree = MemoryTree(
        fan_out(2, Agent("sub", MeteredModel(output=1, gate=gate))), limits=Limits(max_cost=Decimal("1.9"))
    )
    async with anyio.create_task_group() as group:
        group.start_soon(tree.execute)
        await eventually(lambda: tree.of("waiting"))
        waiting = tree.hosts[tree.of("waiting")[0].run_id]
        tree.supervisor.held.add(waiting.stamp.run_id)
        gate.set()
        await eventually(lambda: len(tree.of("run_completed")) == 1)
        assert waiting.run is not None
        waiting.run.ask_again()
    assert not [order for order in tree.supervisor.orders if isinstance(order, GrantOrder)]
    assert outcomes(tree) == ["ok", "ok"]


async def test_a_prompt_that_was_counted_once_is_known() -> None:
    """Only what is new is bound by its bytes: the second call would not fit under a bound of all."""
    prompt, counted, limit = "word " * 4000, 5000, 12_000

    class Counting(MeteredModel):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
            async for event in super().stream(request):
                if isinstance(event, Completed):
                    usage = event.response.usage.model_copy(update={"input_tokens": counted})
                    event = Completed(response=event.response.model_copy(update={"usage": usage}))
                yield event

    @tool
    async def add() -> int:
        return 1

    call = ToolCallBlock(call_id="c", tool_name="add", arguments={})
    model = Counting(lambda number, _: "fine" if number else [call], output=10)
    result = await MemoryTree(Agent("lead", model, tools=[add]), limits=Limits(max_tokens=limit)).execute(prompt)
    assert (result.status, len(model.requests)) == ("completed", 2)
    assert counted + 10 + most_tokens(model.requests[1], model.profile) > limit


async def test_budget_left_is_read_by_tools_and_hooks() -> None:
    seen: list[Decimal | None] = []

    class Hook(Middleware):
        async def before_model(self, ctx: RunContext, request: ModelRequest) -> ModelRequest:
            seen.append((await ctx.budget_left()).left("max_model_calls"))
            return request

    @tool
    async def look(context: ToolContext) -> str:
        seen.append((await context.budget_left()).left("max_tool_calls"))
        return "ok"

    @tool
    def look_sync(context: ToolContext) -> str:
        seen.append(context.blocking.budget_left().left("max_runs"))
        return "ok"

    model = ScriptedModel([[tool_call("look")], [tool_call("look_sync")], ["done"]])
    agent = Agent("lead", model, tools=[look, look_sync], middleware=[Hook()])
    tree = MemoryTree(agent, limits=Limits(max_model_calls=5, max_tool_calls=4, max_runs=3))
    assert (await tree.execute()).status == "completed"
    assert seen == [5, 3, 4, 2, 3]
