"""Ids of calls are unique in a run, and go back to the provider as it gave them."""

from typing import Any

from runtree.actors.agent import Agent, Retry, tool
from runtree.messages.content import ToolCallBlock
from runtree.messages.failure import Failure
from runtree.messages.model import Failed, ModelResponse
from runtree.messages.transcript import AssistantMessage, ToolMessage
from runtree.providers.call_ids import CallIdRule, CallIds
from runtree.providers.retry import RetryPolicy
from runtree.providers.scripted import ScriptedModel, tool_call
from tests.agent.test_loop import assert_valid
from tests.kit.host import MemoryTree

BUSY = Failed(error=Failure(code="overloaded", message="busy", retryable=True))


@tool
async def echo(word: str) -> str:
    """Say it again."""
    return word


def calls_of(messages: Any) -> list[ToolCallBlock]:
    return [call for message in messages if isinstance(message, AssistantMessage) for call in message.tool_calls]


async def test_p10_ids_that_count_within_a_turn_are_told_apart() -> None:
    turns: list[Any] = [[tool_call("echo", {"word": word}, "echo:0")] for word in ("a", "b", "c")]
    tree = MemoryTree(Agent("lead", ScriptedModel([*turns, ["done"]]), tools=[echo]))
    result = await tree.execute()
    calls = calls_of(result.messages)
    assert len({call.call_id for call in calls}) == 3
    assert [call.provider_call_id for call in calls] == [None, "echo:0", "echo:0"]
    assert [item.call_id for item in tree.of("tool_call_started")] == [call.call_id for call in calls]
    assert [item.call_id for item in tree.of("tool_call_args_delta")] == [call.call_id for call in calls]
    results = [message.results[0] for message in result.messages if isinstance(message, ToolMessage)]
    assert [(each.call_id, each.text) for each in results] == list(
        zip((call.call_id for call in calls), "abc", strict=True)
    )
    assert_valid(result)


async def test_r03_a_repeated_try_may_repeat_its_ids() -> None:
    turns: list[Any] = [[tool_call("echo", '{"wo', "c"), BUSY], [tool_call("echo", {"word": "x"}, "c")], ["done"]]
    tree = MemoryTree(Agent("lead", ScriptedModel(turns), tools=[echo], middleware=[Retry(RetryPolicy(initial=0.001))]))
    await tree.execute()
    started = [item.call_id for item in tree.of("tool_call_started")]
    assert len(set(started)) == 2
    assert [(item.call_id, item.outcome) for item in tree.of("tool_call_completed")] == [
        (started[0], "truncated"),
        (started[1], "ok"),
    ]


async def test_l09_ids_of_a_continued_conversation_count() -> None:
    first = await MemoryTree(
        Agent("lead", ScriptedModel([[tool_call("echo", {"word": "a"}, "c")], ["done"]]), tools=[echo])
    ).execute()
    again = MemoryTree(Agent("lead", ScriptedModel([[tool_call("echo", {"word": "b"}, "c")], ["done"]]), tools=[echo]))
    result = await again.execute(messages=first.messages)
    assert len({call.call_id for call in calls_of(result.messages)}) == 2
    assert_valid(result)


async def test_l09_a_call_keeps_the_id_of_its_provider_when_it_is_renamed_again() -> None:
    """As a cache does that gives a kept answer twice."""
    call = ToolCallBlock(
        call_id="c", provider_call_id="echo:0", tool_name="echo", arguments={"word": "a"}, arguments_json='{"word":"a"}'
    )
    kept = ModelResponse(message=AssistantMessage(content=(call,)), finish_reason="tool_calls")
    result = await MemoryTree(Agent("lead", ScriptedModel([kept, kept, ["done"]]), tools=[echo])).execute()
    calls = calls_of(result.messages)
    assert len({call.call_id for call in calls}) == 2
    assert [call.provider_call_id for call in calls] == ["echo:0", "echo:0"]


def test_the_provider_gets_its_own_ids_back_and_another_one_gets_ours() -> None:
    call = ToolCallBlock(call_id="call_01", provider_call_id="echo:0", tool_name="echo", provider="kimi")
    for provider, expected in (("kimi", "echo:0"), ("openai", "call_01")):
        ids = CallIds(CallIdRule(characters="a-z0-9_:"), provider)
        ids.begin_turn([call])
        assert ids.sent("call_01") == expected
