"""The run's own ledger: sums that hold (U07), tries and cached answers (U06), estimates where nobody counted (U05)."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtree.actors.agent import Agent, AgentSet, Retry
from runtree.actors.agent.accounts import Accounts, usage_of_broken_call
from runtree.messages import NO_COST, NO_USAGE, Cost, FailureCode, ModelCallRecord, ModelRequest, RunResult, Usage
from runtree.messages.content import ImageBlock, TextBlock, ThinkingBlock, ToolCallBlock
from runtree.messages.failure import Failure
from runtree.messages.model import Failed, ToolDefinition
from runtree.messages.transcript import AssistantMessage, ToolMessage, ToolResult, UserMessage
from runtree.providers import ModelProfile, Price, RetryPolicy, ScriptedModel, pricing, set_price
from runtree.providers.estimate import tokens_of_request
from runtree.providers.scripted import tool_call
from tests.kit.host import MemoryTree
from tests.messages.test_arithmetic import costs, usages

ORDER = ("exact", "estimated", "unknown")
PROFILE = ModelProfile(provider="acme", model="a-1", price=Price(input=Decimal(2), output=Decimal(10)))
REQUEST = ModelRequest(messages=(UserMessage.of("x" * 400),))
REPORTED = Usage(input_tokens=1000, output_tokens=100, cache_read_tokens=10)

records = st.builds(
    ModelCallRecord,
    model=st.just("a-1"),
    provider=st.just("acme"),
    usage=usages,
    cost=costs,
    cached=st.booleans(),
)


@given(st.lists(records, max_size=5), st.integers(0, 9))
def test_u07_the_records_sum_up_to_the_run(calls: list[ModelCallRecord], tools: int) -> None:
    accounts = Accounts()
    accounts.add_tool_calls(tools)
    for call in calls:
        accounts.add_model_call(call)
    ledger = accounts.model_calls
    assert len(ledger) == len(calls)
    assert sum((call.usage for call in ledger), NO_USAGE) + Usage(
        input_tokens=0, output_tokens=0, tool_calls=tools
    ) == (accounts.usage)
    assert sum((call.cost for call in ledger), NO_COST) == accounts.cost
    assert accounts.usage.model_calls == sum(not call.cached for call in calls)
    paid = [call for call in calls if not call.cached]
    for total, parts in ((accounts.usage, [c.usage for c in paid]), (accounts.cost, [c.cost for c in paid])):
        assert total.precision == max((part.precision for part in parts), key=ORDER.index, default="exact")


@given(st.lists(st.lists(records, max_size=3), min_size=1, max_size=5), st.data())
def test_u07_the_runs_sum_up_to_the_tree(runs: list[list[ModelCallRecord]], data: st.DataObject) -> None:
    """A parent's own figures never hold its children's; each run is below one that comes before it."""
    tree = [Accounts() for _ in runs]
    for accounts, calls in zip(tree, runs, strict=True):
        for call in calls:
            accounts.add_model_call(call)
    own = [(accounts.usage, accounts.cost) for accounts in tree]
    for number in range(len(tree) - 1, 0, -1):
        parent = data.draw(st.integers(0, number - 1))
        totals = tree[number].local_totals()
        tree[parent].add_child(RunResult(run_id=str(number), status="completed", **dict(totals)))
    totals = tree[0].local_totals()
    assert totals.total_usage == sum((usage for usage, _ in own), NO_USAGE)
    assert totals.total_cost == sum((cost for _, cost in own), NO_COST)
    assert [(accounts.usage, accounts.cost) for accounts in tree] == own


def record(usage: Usage, **fields: Any) -> ModelCallRecord:
    return ModelCallRecord(model="a-1", provider="acme", usage=usage, cost=pricing.price(PROFILE, usage), **fields)


def test_u06_a_cached_answer_is_free_and_marked() -> None:
    accounts = Accounts()
    accounts.add_model_call(record(REPORTED, cached=True))
    (call,) = accounts.model_calls
    assert (call.cached, call.usage, call.cost) == (True, NO_USAGE, NO_COST)
    assert (accounts.usage, accounts.cost) == (NO_USAGE, NO_COST)


def test_u06_each_try_is_counted() -> None:
    accounts = Accounts()
    accounts.add_model_call(record(usage_of_broken_call(REQUEST, 40, None, "transport"), failure="transport"))
    accounts.add_model_call(record(REPORTED, attempt=2))
    first, second = accounts.model_calls
    assert first.usage == Usage(input_tokens=104, output_tokens=10, model_calls=1, precision="estimated")
    assert (first.cost.amount, first.cost.precision) == (Decimal("0.000308"), "estimated")
    assert (second.cost.amount, second.cost.precision) == (Decimal("0.003"), "exact")
    assert accounts.usage.model_calls == 2
    assert accounts.cost == Cost(amount=Decimal("0.003308"), precision="estimated")


async def test_u06_a_run_enters_each_try() -> None:
    failed = Failed(error=Failure(code="overloaded", message="busy", retryable=True))
    model = ScriptedModel([[failed], ["done"]], profile=PROFILE)
    agent = Agent("lead", model, middleware=[Retry(RetryPolicy(initial=0.001))])
    result = await MemoryTree(agent).execute()
    tried = [(call.attempt, call.failure, call.finish_reason, call.model, call.provider) for call in result.model_calls]
    assert tried == [(1, "overloaded", None, "a-1", "acme"), (2, None, "stop", "a-1", "acme")]
    assert result.model_calls[0].cost.amount == 0
    assert result.usage.model_calls == 2
    assert all(call.started > 0 and call.duration >= 0 for call in result.model_calls)


async def test_a_run_returns_its_ledger() -> None:
    """U07: in the result of the run, which can be written and read."""
    model = ScriptedModel([[tool_call("child", {"input": "x"})], ["done"]], profile=PROFILE)
    child = Agent("child", ScriptedModel([["yes"]], profile=PROFILE))
    result = await MemoryTree(Agent("lead", model, agents=[child])).execute()
    assert result.status == "completed"
    assert len(result.model_calls) == 2
    own = sum((call.usage for call in result.model_calls), NO_USAGE)
    assert (own.tokens, own.model_calls, own.precision) == (result.usage.tokens, 2, result.usage.precision)
    assert sum((call.cost for call in result.model_calls), NO_COST) == result.cost
    assert result.total_usage.model_calls == 3
    assert RunResult.from_json(result.to_json()) == result
    old = result.model_dump(mode="json", exclude={"model_calls"})
    assert RunResult.model_validate(old).model_calls == ()


def test_u04_prices_travel_with_the_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pricing, "_overrides", {})
    set_price("acme:a-1", Price(input=Decimal(0), output=Decimal(0)))
    sent = AgentSet.of(Agent("lead", ScriptedModel([]))).dump()
    pricing._overrides.clear()
    AgentSet.load(sent)
    cost = pricing.price(PROFILE, REPORTED)
    assert cost.priced is not None
    assert (cost.amount, cost.priced.source) == (Decimal(0), "override")


@pytest.mark.parametrize(
    "last, received, expected",
    [
        pytest.param(None, 0, (104, 0, "estimated"), id="nothing-known"),
        pytest.param(None, 41, (104, 11, "estimated"), id="something-came"),
        pytest.param(Usage(precision="unknown"), 40, (104, 10, "estimated"), id="reported-as-unknown"),
        pytest.param(REPORTED, 0, (1000, 100, "exact"), id="reported"),
        pytest.param(REPORTED, 400, (1000, 100, "exact"), id="reported-and-plausible"),
        pytest.param(
            Usage(input_tokens=1000, output_tokens=1), 400, (1000, 100, "estimated"), id="count-of-the-beginning"
        ),
        pytest.param(
            Usage(input_tokens=1000, output_tokens=3, precision="unknown"), 4, (1000, 3, "estimated"), id="first-count"
        ),
        pytest.param(Usage(input_tokens=1000, precision="unknown"), 40, (1000, 10, "estimated"), id="only-the-input"),
        pytest.param(Usage(output_tokens=7, precision="unknown"), 4, (104, 7, "estimated"), id="only-the-output"),
        pytest.param(Usage(input_tokens=1000), 0, (1000, 0, "estimated"), id="no-count-of-the-answer"),
    ],
)
@pytest.mark.parametrize("code", ["transport", "timeout", "protocol", None])
def test_u05_a_call_that_broke_off(
    last: Usage | None, received: int, expected: tuple[int, int, str], code: FailureCode | None
) -> None:
    """U01: what was reported is kept."""
    usage = usage_of_broken_call(REQUEST, received, last, code)
    assert (usage.input_tokens, usage.output_tokens, usage.precision) == expected
    assert usage.cache_read_tokens == (last.cache_read_tokens if last else None)


@pytest.mark.parametrize("code", ["authentication", "rate_limit", "invalid_request", "thinking_rejected", "quota"])
def test_what_was_refused_is_not_charged(code: FailureCode) -> None:
    assert usage_of_broken_call(REQUEST, 0, None, code) == NO_USAGE
    assert usage_of_broken_call(REQUEST, 0, REPORTED, code) == REPORTED
    assert usage_of_broken_call(REQUEST, 4, None, code).precision == "estimated"


def test_u05_images_count_by_the_profile_and_not_by_their_bytes() -> None:
    image = ImageBlock(data="A" * 4_000_000)
    result = ToolResult(call_id="c", tool_name="look", outcome="ok", content=(image,))
    request = ModelRequest(
        messages=(UserMessage(content=(TextBlock(text="what is it?"), image)), ToolMessage(results=(result,)))
    )
    assert 600 < (usage_of_broken_call(request, 0, None, None, image_tokens=300).input_tokens or 0) < 650
    assert 3200 < (usage_of_broken_call(request, 0, None, None).input_tokens or 0) < 3250


def test_u05_everything_that_is_sent_counts_by_its_bytes() -> None:
    message = AssistantMessage(
        content=(
            ThinkingBlock(text="t" * 400, signature="s" * 8000),
            TextBlock(text="語" * 400),
            ToolCallBlock(call_id="c", tool_name="find", arguments_json="a" * 400),
        )
    )
    request = ModelRequest(
        messages=(message,),
        instructions="i" * 400,
        tools=(ToolDefinition(name="find", description="d" * 400, parameters={"description": "p" * 400}),),
    )
    assert 800 < tokens_of_request(request) < 850
