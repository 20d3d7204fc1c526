"""The model calls in a run's own ledger: cases U06 and U07."""

from collections.abc import AsyncIterator
from typing import Any

from runtree.actors.agent import Agent, Middleware, Retry, RunContext
from runtree.messages.content import TextBlock, ThinkingBlock
from runtree.messages.failure import Failure
from runtree.messages.model import Completed, Discarded, Failed, ModelEvent, ModelRequest, ModelResponse, UsageDelta
from runtree.messages.transcript import AssistantMessage
from runtree.messages.usage import NO_COST, NO_USAGE, Usage
from runtree.providers import FallbackModel
from runtree.providers.profile import ModelProfile, Price
from runtree.providers.retry import RetryPolicy
from runtree.providers.scripted import ScriptedModel
from runtree.providers.unfold import unfold
from tests.kit.host import MemoryTree

USED = Usage(input_tokens=1_000_000, output_tokens=0)
BUSY = Failed(error=Failure(code="overloaded", message="busy", retryable=True), usage=USED)


def priced(name: str, price: int, *turns: Any) -> ScriptedModel:
    facts = ModelProfile(provider="scripted", model=name, price=Price(input=price, output=price))  # type: ignore[arg-type]
    return ScriptedModel(list(turns), profile=facts)


async def test_u06_u07_each_try_is_a_line_at_the_price_of_its_own_model() -> None:
    chain = FallbackModel(priced("dear", 5, [BUSY], [BUSY]), priced("cheap", 1, [BUSY], ["fine"]))
    retry = Retry(RetryPolicy(initial=0.001, max_attempts=2))
    result = await MemoryTree(Agent("lead", chain, middleware=[retry])).execute()
    lines = [(line.model, line.attempt, line.failure, line.finish_reason) for line in result.model_calls]
    assert lines == [
        ("dear", 1, "overloaded", None),
        ("dear", 2, "overloaded", None),
        ("cheap", 1, "overloaded", None),
        ("cheap", 2, None, "stop"),
    ]
    assert [line.cost.amount for line in result.model_calls[:3]] == [5, 5, 1]
    assert result.usage.model_calls == 4
    assert sum((line.usage for line in result.model_calls), NO_USAGE) == result.usage
    assert sum((line.cost for line in result.model_calls), NO_COST).amount == result.cost.amount
    assert all(line.started > 0 and line.duration >= 0 for line in result.model_calls)


class Kept(Middleware):
    """Answers from a store, as a cache does."""

    def __init__(self, response: ModelResponse) -> None:
        self._response = response.model_copy(update={"cached": True})

    async def wrap_model(self, ctx: RunContext, request: ModelRequest, call_next: Any) -> AsyncIterator[ModelEvent]:
        for event in unfold(self._response):
            yield event


async def test_u06_k07_a_kept_answer_is_free_and_marked_and_told_once() -> None:
    message = AssistantMessage(content=(ThinkingBlock(text="hm"), TextBlock(text="known")), provider="scripted")
    kept = ModelResponse(message=message, usage=USED, model="dear")
    tree = MemoryTree(Agent("lead", priced("dear", 5), middleware=[Kept(kept)]))
    result = await tree.execute()
    assert result.output == "known"
    assert (result.usage, result.cost) == (NO_USAGE, NO_COST)
    [line] = result.model_calls
    assert (line.cached, line.model, line.cost) == (True, "dear", NO_COST)
    assert [(item.reasoning, item.text) for item in tree.of("model_delta")] == [("hm", ""), ("", "known")]


async def test_u06_an_answer_that_the_model_itself_kept_is_entered_once_and_free() -> None:
    kept = ModelResponse(message=AssistantMessage(content=(TextBlock(text="known"),)), usage=USED, cached=True)
    result = await MemoryTree(Agent("lead", priced("dear", 5, [Completed(response=kept)]))).execute()
    [line] = result.model_calls
    assert (line.cached, line.model, line.provider, result.cost) == (True, "dear", "scripted", NO_COST)


async def test_u05_what_a_broken_call_reported_in_part_is_kept() -> None:
    partly = Usage(input_tokens=700, precision="unknown")
    broken = Failed(error=Failure(code="transport", message="cut"), usage=partly)
    result = await MemoryTree(Agent("lead", ScriptedModel([["some", broken]]))).execute()
    assert (result.usage.input_tokens, result.usage.precision) == (700, "estimated")


async def test_u06_a_model_that_asks_again_by_itself_is_charged_for_each_try() -> None:
    turn = ["ha", UsageDelta(usage=USED), Discarded(error=BUSY.error, usage=USED), "fine"]
    result = await MemoryTree(Agent("lead", priced("dear", 5, turn))).execute()
    assert [(line.attempt, line.failure) for line in result.model_calls] == [(1, "overloaded"), (2, None)]
    assert (result.output, result.model_calls[0].usage.input_tokens) == ("fine", 1_000_000)
    assert result.usage.model_calls == 2


class Other(Middleware):
    """Asks another model."""

    async def before_model(self, ctx: RunContext, request: ModelRequest) -> ModelRequest:
        return request.model_copy(update={"model": "other"})


async def test_l05_another_model_is_not_charged_at_the_price_of_the_profile() -> None:
    """U04: unknown, unless somebody knows the price of the other one."""
    result = await MemoryTree(Agent("lead", priced("dear", 5, ["fine"]), middleware=[Other()])).execute()
    [line] = result.model_calls
    assert (line.model, line.cost.amount, line.cost.precision) == ("other", None, "unknown")
