"""Retries, fallback and repair as a run shows them: cases K09, R02, R03, U06, C02."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from runtree.actors.agent import Agent, Retry, tool
from runtree.messages.content import TextBlock, ThinkingBlock
from runtree.messages.failure import Failure
from runtree.messages.limits import Limits
from runtree.messages.model import Completed, Failed, ModelEvent, ModelRequest, ModelResponse, TextDelta
from runtree.messages.transcript import AssistantMessage
from runtree.messages.usage import Usage
from runtree.providers import FallbackModel
from runtree.providers.profile import ModelProfile
from runtree.providers.retry import NO_RETRIES, RetryPolicy
from runtree.providers.scripted import Hang, ScriptedModel, Turn, reasoning, tool_call
from tests.agent.test_loop import assert_valid
from tests.kit.eventually import eventually
from tests.kit.host import MemoryTree

QUICK = Retry(RetryPolicy(initial=0.001))
BUSY = Failed(error=Failure(code="overloaded", message="busy", retryable=True))
REJECTED = Failed(error=Failure(code="thinking_rejected", message="Invalid `signature` in `thinking` block"))


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def shown(tree: MemoryTree) -> str:
    """The text a reader keeps who obeys `attempt_discarded`."""
    texts = {item.seq: item.text for item in tree.of("model_delta")}
    for item in tree.of("attempt_discarded"):
        texts = {seq: text for seq, text in texts.items() if not item.first_seq <= seq <= item.last_seq}
    return "".join(texts.values())


async def test_r02_readers_never_see_two_tries_as_one_text() -> None:
    model = ScriptedModel([["ha", "lf", BUSY], ["oth", BUSY], ["whole"]])
    tree = MemoryTree(Agent("lead", model, middleware=[QUICK]))
    result = await tree.execute()
    assert (result.output, shown(tree)) == ("whole", "whole")
    first, second = tree.of("attempt_discarded")
    assert (first.scope, first.discarded_attempt, second.discarded_attempt) == ("model_call", 1, 2)
    assert first.last_seq < second.first_seq
    assert "overloaded: busy" in first.reason
    assert first.delay >= 0.001
    last = result.messages[-1]
    assert isinstance(last, AssistantMessage)
    assert last.text == "whole", "nothing of the others is in the history"


async def test_r03_failure_while_arguments_stream_runs_nothing() -> None:
    """Every call that was started is completed, as discarded, before it is said again."""
    model = ScriptedModel([[tool_call("add", '{"a":1', "c"), BUSY], [tool_call("add", {"a": 1, "b": 2}, "d")], ["3"]])
    tree = MemoryTree(Agent("lead", model, tools=[add], middleware=[QUICK]))
    result = await tree.execute()
    assert [(item.call_id, item.outcome) for item in tree.of("tool_call_completed")] == [
        ("c", "truncated"),
        ("d", "ok"),
    ]
    [discarded] = tree.of("attempt_discarded")
    completed = tree.of("tool_call_completed")[0]
    assert discarded.first_seq <= completed.seq <= discarded.last_seq
    assert result.usage.tool_calls == 1
    assert_valid(result)


async def test_a_try_that_showed_nothing_is_told_with_an_empty_range() -> None:
    tree = MemoryTree(Agent("lead", ScriptedModel([[BUSY], ["fine"]]), middleware=[QUICK]))
    await tree.execute()
    [discarded] = tree.of("attempt_discarded")
    assert discarded.last_seq == discarded.first_seq - 1


async def test_every_agent_retries_unless_it_says_otherwise() -> None:
    assert (await MemoryTree(Agent("lead", ScriptedModel([[BUSY], ["fine"]]))).execute()).output == "fine"
    never = Agent("lead", ScriptedModel([[BUSY]]), middleware=[Retry(NO_RETRIES)])
    assert (await MemoryTree(never).execute()).status == "failed"


async def test_u06_each_try_is_counted_and_bounded() -> None:
    used = Usage(input_tokens=10, output_tokens=1)
    model = ScriptedModel([[Failed(error=BUSY.error, usage=used)], [Failed(error=BUSY.error, usage=used)], ["fine"]])
    result = await MemoryTree(Agent("lead", model, middleware=[QUICK])).execute()
    assert result.usage.model_calls == 3
    assert (result.usage.input_tokens or 0) >= 20
    bounded = Agent("lead", ScriptedModel([[BUSY], [BUSY], ["fine"]]), middleware=[QUICK])
    result = await MemoryTree(bounded, limits=Limits(max_model_calls=2)).execute()
    assert result.error is not None
    assert (result.error.code, result.usage.model_calls) == ("limit_exceeded", 2)


async def test_c02_a_cancel_ends_the_wait_for_the_next_try() -> None:
    tree = MemoryTree(Agent("lead", ScriptedModel([["ha", BUSY]]), middleware=[Retry(RetryPolicy(initial=3000))]))
    run = tree.run()
    async with anyio.create_task_group() as group:
        group.start_soon(run.execute)
        await eventually(lambda: tree.of("attempt_discarded"))
        run.cancel("user")
    tree.check()
    assert tree.kinds()[-1] == "run_cancelled"


async def test_model_call_timeout_is_for_each_try() -> None:
    """P18: also where the model itself keeps no time."""
    agent = Agent("lead", ScriptedModel([["ha", Hang()], [Hang()], ["fine"]]), middleware=[QUICK])
    tree = MemoryTree(agent, limits=Limits(model_call_timeout=0.3))
    assert (await tree.execute()).output == "fine"
    assert ["model_call_timeout" in item.reason for item in tree.of("attempt_discarded")] == [True, True]
    assert shown(tree) == "fine"


async def test_fallback_is_the_outermost_layer_and_each_model_is_charged_as_itself() -> None:
    """R04, L7: retried first, then the next; each visited once."""
    first = ScriptedModel([["ha", BUSY]] * 3, profile=ModelProfile(provider="scripted", model="first"))
    second = ScriptedModel([["fine"]], profile=ModelProfile(provider="scripted", model="second"))
    tree = MemoryTree(Agent("lead", FallbackModel(first, second, first), middleware=[QUICK]))
    result = await tree.execute()
    assert (result.output, result.usage.model_calls, shown(tree)) == ("fine", 4, "fine")
    assert [item.delay is None for item in tree.of("attempt_discarded")] == [False, False, True]
    assert "Next: second" in tree.of("attempt_discarded")[-1].reason
    last = result.messages[-1]
    assert isinstance(last, AssistantMessage)
    assert last.model == "second"


async def test_a_chain_that_runs_out_fails_with_the_last_failure() -> None:
    chain = FallbackModel(ScriptedModel([[BUSY]]), ScriptedModel([["half", BUSY]]))
    tree = MemoryTree(Agent("lead", chain, middleware=[Retry(NO_RETRIES)]))
    result = await tree.execute()
    assert (result.status, result.error and result.error.code) == ("failed", "overloaded")
    last = result.messages[-1]
    assert isinstance(last, AssistantMessage)
    assert last.text == "half", "L07: what there is stays"


HISTORY = (
    AssistantMessage(content=(ThinkingBlock(text="hm", signature="old", provider="scripted"), TextBlock(text="a"))),
)


async def test_k09_refused_thinking_is_left_out_once_and_for_the_rest_of_the_run() -> None:
    turns: list[Any] = [[REJECTED], [reasoning("new"), tool_call("add", {"a": 1, "b": 2})], ["3"]]
    model = ScriptedModel(turns)
    tree = MemoryTree(Agent("lead", model, tools=[add]))
    result = await tree.execute(messages=HISTORY)
    assert result.output == "3"
    assert [request.thinking_from for request in model.requests] == [0, 2, 2]
    [discarded] = tree.of("attempt_discarded")
    assert "thinking_rejected" in discarded.reason
    assert result.messages[0] == HISTORY[0], "the transcript is untouched"
    assert result.usage.model_calls == 3


async def test_k09_one_repair_a_call() -> None:
    tree = MemoryTree(Agent("lead", ScriptedModel([[REJECTED], [REJECTED]])))
    result = await tree.execute(messages=HISTORY)
    assert (result.status, result.error and result.error.code) == ("failed", "thinking_rejected")
    assert len(tree.of("attempt_discarded")) == 1


async def test_k09_nothing_to_leave_out_is_no_second_try() -> None:
    tree = MemoryTree(Agent("lead", ScriptedModel([[REJECTED]])))
    assert (await tree.execute()).status == "failed"
    assert not tree.of("attempt_discarded")


@pytest.mark.parametrize("streamed", [False, True])
async def test_k07_t4_reasoning_and_text_are_told_exactly_once(streamed: bool) -> None:
    """An answer that comes whole, as from a cache, is told after the fact; one that was streamed is not told again."""
    message = AssistantMessage(content=(ThinkingBlock(text="hm"), TextBlock(text="done")))
    turn: list[Any] = [reasoning("hm"), "do", "ne"] if streamed else []
    turn.append(Completed(response=ModelResponse(message=message)))
    tree = MemoryTree(Agent("lead", ScriptedModel([turn])))
    await tree.execute()
    items = tree.of("model_delta")
    assert ("".join(item.reasoning for item in items), "".join(item.text for item in items)) == ("hm", "done")


async def test_a_stream_cut_before_its_terminal_event_is_retried() -> None:
    """P05, L3."""
    model = ScriptedModel([Turn(("some",), complete=False), ["whole"]])
    tree = MemoryTree(Agent("lead", model, middleware=[QUICK]))
    assert ((await tree.execute()).output, shown(tree)) == ("whole", "whole")


class Withdrawn:
    """A model that waits for something that is cancelled."""

    profile = ModelProfile(provider="acme", model="withdrawn")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TextDelta(text="some")
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lost.cancel()
        await lost


async def test_a_model_that_cancels_itself_has_failed_and_the_run_goes_on() -> None:
    chain = FallbackModel(Withdrawn(), ScriptedModel([["fine"]]))
    tree = MemoryTree(Agent("lead", chain, middleware=[QUICK]))
    result = await tree.execute()
    assert (result.output, shown(tree)) == ("fine", "fine")
    assert [line.failure for line in result.model_calls] == ["provider"] * 3 + [None]
