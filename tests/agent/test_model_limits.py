"""Bounds on models over all runs of a namespace (S10), and pauses that providers ask for, as runs see them."""

import time
from decimal import Decimal

import anyio
import pytest

from runtree import Runtime, SyncRuntime, tool
from runtree.actors.admission import check_limits
from runtree.actors.agent import Agent, AgentSet, Retry
from runtree.actors.model_limits import checked_model_limits
from runtree.messages.content import ToolCallBlock
from runtree.messages.errors import ConfigurationError
from runtree.messages.failure import Failure
from runtree.messages.limits import Limits, ModelLimit
from runtree.providers import FallbackModel, RetryPolicy
from runtree.providers.scripted import ScriptedModel
from tests.kit.eventually import eventually
from tests.kit.host import MemorySupervisor, MemoryTree
from tests.kit.metered import MeteredModel, profile

KEY = "acme:metered"
CALLS = (ToolCallBlock(call_id="c", tool_name="echo", arguments={}),)


def rate_limited(seconds: float | None) -> Failure:
    return Failure(code="rate_limit", message="slow down", retryable=True, retry_after=seconds)


async def test_two_trees_share_the_calls_of_a_model() -> None:
    gate = anyio.Event()
    model = MeteredModel(gate=gate)
    supervisor = MemorySupervisor({KEY: ModelLimit(concurrency=1)})
    trees = [MemoryTree(Agent("lead", model), supervisor=supervisor) for _ in range(3)]
    async with anyio.create_task_group() as group:
        for tree in trees:
            group.start_soon(tree.execute)
        await eventually(lambda: sum(len(tree.of("waiting")) for tree in trees) == 2)
        assert len(model.requests) == 1
        gate.set()
    assert (len(model.requests), model.most_at_once) == (3, 1)
    waits = [item for tree in trees for item in tree.of("waiting")]
    assert {(item.what, item.detail) for item in waits} == {("model_limit", KEY)}


async def test_s10_a_run_that_was_there_first_keeps_to_limits_that_come_later() -> None:
    """A second driver bounds a model that runs of the first are using: their next calls are counted."""
    gate = anyio.Event()
    first, second = MeteredModel(lambda number, _: "more" if number else CALLS), MeteredModel(gate=gate)
    supervisor = MemorySupervisor()
    held = anyio.Event()

    @tool
    async def echo() -> str:
        """Wait until the limits are there."""
        await held.wait()
        return "done"

    early = MemoryTree(Agent("lead", first, tools=[echo]), supervisor=supervisor)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(early.execute)
            await eventually(lambda: early.of("tool_call_started"))
            supervisor.join("two", {KEY: ModelLimit(concurrency=1)})
            late = MemoryTree(Agent("lead", second), supervisor=supervisor)
            group.start_soon(late.execute)
            await eventually(lambda: second.requests)
            held.set()
            await eventually(lambda: early.of("waiting"))
            assert len(first.requests) == 1
            gate.set()
    assert len(first.requests) == 2


async def test_another_model_is_not_asked_about() -> None:
    steps: list[str] = []
    supervisor = MemorySupervisor({KEY: ModelLimit(concurrency=1)})
    agent = Agent("lead", MeteredModel(profile=profile("other")))
    await MemoryTree(agent, supervisor=supervisor, step=lambda _, name: steps.append(name)).execute()
    assert "reserve" not in steps


@pytest.mark.parametrize("limit", [ModelLimit(requests_per_minute=1), ModelLimit(tokens_per_minute=300)])
async def test_s10_who_waits_for_a_minute_to_pass_goes_on_then(limit: ModelLimit) -> None:
    supervisor = MemorySupervisor({KEY: limit})
    model = MeteredModel()
    await MemoryTree(Agent("lead", model), supervisor=supervisor).execute()
    tree = MemoryTree(Agent("lead", model), supervisor=supervisor)
    async with anyio.create_task_group() as group:
        group.start_soon(tree.execute)
        await eventually(lambda: tree.of("waiting"))
        assert len(model.requests) == 1
        supervisor.let_pass(61)
    assert (tree.kinds()[-1], len(model.requests)) == ("run_completed", 2)


async def test_c02_a_cancel_ends_the_wait_for_a_rate_limit() -> None:
    supervisor = MemorySupervisor({KEY: ModelLimit(requests_per_minute=1)})
    model = MeteredModel()
    await MemoryTree(Agent("lead", model), supervisor=supervisor).execute()
    tree = MemoryTree(Agent("lead", model), supervisor=supervisor)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(tree.execute)
            await eventually(lambda: tree.of("waiting"))
            tree.cancel(tree.root.stamp.run_id, "user")
    assert (tree.kinds()[-1], len(model.requests)) == ("run_cancelled", 1)


async def test_s10_a_refused_run_makes_the_others_wait() -> None:
    """Whatever run asks next, and in whatever tree, waits as long as the provider asked for, without any limits of its own."""
    supervisor = MemorySupervisor()
    refusing = MeteredModel(lambda number, _: "fine" if number else rate_limited(0.6))
    first = MemoryTree(Agent("lead", refusing), supervisor=supervisor)
    second = MemoryTree(Agent("lead", MeteredModel()), supervisor=supervisor)
    began = time.monotonic()
    async with anyio.create_task_group() as group:
        group.start_soon(first.execute)
        await eventually(lambda: second.pauses.left(KEY) > 0)
        await second.execute()
    assert time.monotonic() - began >= 0.6
    assert [(item.what, item.detail) for item in second.of("waiting")] == [("pause", KEY)] * 2
    assert second.of("waiting")[-1].duration > 0.1
    assert len(first.of("attempt_discarded")) == 1
    late = MemoryTree(Agent("lead", MeteredModel()), supervisor=supervisor)
    await late.execute()
    assert not late.of("waiting")


async def test_s10_a_run_that_starts_in_a_pause_knows_it() -> None:
    supervisor = MemorySupervisor()
    refused = Agent(
        "lead", MeteredModel(lambda _, __: rate_limited(0.3)), middleware=[Retry(RetryPolicy(max_attempts=1))]
    )
    await MemoryTree(refused, supervisor=supervisor).execute()
    tree = MemoryTree(Agent("lead", MeteredModel()), supervisor=supervisor)
    assert 0 < tree.pauses.left(KEY) < 1


async def test_r01_the_retry_of_the_refused_run_does_not_wait_twice() -> None:
    model = MeteredModel(lambda number, _: "fine" if number else rate_limited(0.4))
    tree = MemoryTree(Agent("lead", model))
    began = time.monotonic()
    assert (await tree.execute()).output == "fine"
    assert 0.4 <= time.monotonic() - began < 0.75
    assert not tree.of("waiting")


async def test_c02_a_cancel_ends_a_pause() -> None:
    tree = MemoryTree(Agent("lead", MeteredModel()))
    tree.pauses.put_for(KEY, 600)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(tree.execute)
            await eventually(lambda: tree.of("waiting"))
            tree.cancel(tree.root.stamp.run_id, "user")
    assert tree.kinds()[-1] == "run_cancelled"


def test_pauses_are_as_long_as_the_retry_policy_allows() -> None:
    policy = RetryPolicy(initial=0.5, max_retry_after=60)
    assert policy.pause(rate_limited(5)) == 5
    assert policy.pause(rate_limited(5000)) == 60
    assert policy.pause(rate_limited(None)) == 0.5
    assert policy.pause(Failure(code="overloaded", message="", retry_after=3)) == 3
    assert policy.pause(Failure(code="overloaded", message="")) is None
    assert policy.pause(Failure(code="quota", message="", retry_after=3)) is None


def test_limits_of_models_go_by_the_key_of_the_model() -> None:
    limit = ModelLimit(concurrency=2)
    assert checked_model_limits({"openai:gpt-5": limit}) == {"openai:gpt-5": limit}
    assert checked_model_limits({"openai-chat:gpt-5": limit, "openai:gpt-5": ModelLimit(concurrency=1)}) == {
        "openai:gpt-5": ModelLimit(concurrency=1)
    }, "one model by two protocols"
    assert checked_model_limits({"acme:own": limit}) == {"acme:own": limit}
    assert checked_model_limits(None) == {}


@pytest.mark.parametrize("runtime", [Runtime, SyncRuntime])
@pytest.mark.parametrize(
    "given, said",
    [
        ({"gpt-5": ModelLimit(concurrency=1)}, "PROVIDER:MODEL"),
        ({":gpt-5": ModelLimit(concurrency=1)}, "PROVIDER:MODEL"),
        ({5: ModelLimit(concurrency=1)}, "PROVIDER:MODEL"),
        ({"openai:gpt-5": {"concurrency": 1}}, "not ModelLimit"),
        ({"openai:gpt-5": ModelLimit()}, "bounds nothing"),
    ],
)
def test_limits_of_models_that_can_not_be_meant_are_refused(runtime: type, given: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        runtime(model_limits=given)


def test_money_needs_prices() -> None:
    """S8: of every model that may be asked; the price list counts."""
    unknown = ScriptedModel([])
    bounded = Limits(max_cost=Decimal("1"))
    with pytest.raises(ConfigurationError, match="scripted:scripted"):
        check_limits(AgentSet.of(Agent("lead", FallbackModel("openai:gpt-5", unknown))), bounded)
    with pytest.raises(ConfigurationError, match=r"agent lead, limits\.max_cost"):
        check_limits(AgentSet.of(Agent("lead", unknown, limits=bounded)), None)
    check_limits(AgentSet.of(Agent("lead", "openai:gpt-5")), bounded)
    check_limits(AgentSet.of(Agent("lead", MeteredModel())), bounded)
    check_limits(AgentSet.of(Agent("lead", unknown)), Limits(max_cost=Decimal("1"), unpriced="ignore"))
    check_limits(AgentSet.of(Agent("lead", unknown, limits=bounded)), Limits(unpriced="ignore"))
    check_limits(AgentSet.of(Agent("lead", unknown)), Limits(max_parallel=2))
