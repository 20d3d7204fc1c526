"""ScriptedModel, and the way from events to responses and back."""

import pickle

import anyio
import pytest

from runtree.messages.content import TextBlock, ThinkingBlock, ToolCallBlock
from runtree.messages.failure import Failure
from runtree.messages.model import Completed, Failed, ModelEvent, ModelRequest, ModelResponse, TextDelta, UsageDelta
from runtree.messages.transcript import AssistantMessage, UserMessage
from runtree.messages.usage import Usage
from runtree.providers.fold import Fold
from runtree.providers.protocol import Model
from runtree.providers.scripted import Delay, Hang, ScriptedModel, Turn, reasoning, text, tool_call
from runtree.providers.unfold import unfold

REQUEST = ModelRequest(messages=(UserMessage.of("twelve bytes"),))


async def play(model: ScriptedModel, request: ModelRequest = REQUEST) -> list[ModelEvent]:
    return [event async for event in model.stream(request)]


async def response_of(model: ScriptedModel) -> ModelResponse:
    last = (await play(model))[-1]
    assert isinstance(last, Completed)
    return last.response


async def test_a_turn_is_played_and_folded() -> None:
    model = ScriptedModel([[reasoning("hm"), "a", Delay(0), text("b"), "", tool_call("get", {"x": 1}, "c1")]])
    events = await play(model)
    kinds = ["started", "reasoning_delta", "text_delta", "text_delta", "tool_call_delta", "completed"]
    assert [event.kind for event in events] == kinds
    last = events[-1]
    assert isinstance(last, Completed)
    assert last.response.finish_reason == "tool_calls"
    assert [block.kind for block in last.response.message.content] == ["thinking", "text", "tool_call"]
    assert last.response.message.text == "ab"
    assert isinstance(model, Model)


async def test_turns_of_every_kind() -> None:
    whole = ModelResponse(message=AssistantMessage(content=(TextBlock(text="whole"),)), model="other")
    model = ScriptedModel(["plain", whole, lambda request: [f"{len(request.messages)} message"], []])
    assert (await response_of(model)).message.text == "plain"
    assert await response_of(model) == whole
    assert (await response_of(model)).message.text == "1 message"
    assert (await response_of(model)).message.content == ()
    model.assert_exhausted()


async def test_a_script_is_strict() -> None:
    model = ScriptedModel(["one"])
    with pytest.raises(AssertionError, match="1 of 1"):
        model.assert_exhausted()
    await play(model)
    (last,) = await play(model)
    assert isinstance(last, Failed)
    assert not last.error.retryable
    assert "1 turns" in last.error.message
    assert [len(request.messages) for request in model.requests] == [1, 1]


async def test_a_script_may_begin_anew() -> None:
    model = ScriptedModel([[tool_call("get")], "b"], loop=True)
    answers = [(await response_of(model)).message for _ in range(4)]
    assert [answer.text for answer in answers] == ["", "b", "", "b"]
    assert answers[0].tool_calls[0].call_id != answers[2].tool_calls[0].call_id


async def test_usage_is_said_or_estimated() -> None:
    usage = Usage(input_tokens=7, output_tokens=3)
    model = ScriptedModel(["abcde", ["a", UsageDelta(usage=usage)]])
    estimate = (await response_of(model)).usage
    assert (estimate.input_tokens, estimate.output_tokens, estimate.precision) == (3, 2, "estimated")
    assert (await response_of(model)).usage == usage


async def test_a_turn_may_fail_or_be_cut() -> None:
    failed = Failed(error=Failure(code="rate_limit", message="slow", retryable=True))
    model = ScriptedModel([["a", failed, "never"], Turn(["a"], complete=False)])
    assert [event.kind for event in await play(model)] == ["started", "text_delta", "failed"]
    assert [event.kind for event in await play(model)] == ["started", "text_delta"]


async def test_a_turn_may_hang_until_it_is_cancelled() -> None:
    model = ScriptedModel([["a", Hang(), "never"]])
    seen: list[ModelEvent] = []
    async with anyio.create_task_group() as tasks:

        async def read() -> None:
            async for event in model.stream(REQUEST):
                seen.append(event)
                if isinstance(event, TextDelta):
                    tasks.cancel_scope.cancel()

        tasks.start_soon(read)
    assert [event.kind for event in seen] == ["started", "text_delta"]


async def test_concurrent_calls_get_a_turn_each() -> None:
    model = ScriptedModel([[str(n), Delay(0), "!"] for n in range(30)])
    texts: set[str] = set()

    async def one() -> None:
        texts.add((await response_of(model)).message.text)

    async with anyio.create_task_group() as tasks:
        for _ in range(30):
            tasks.start_soon(one)
    assert texts == {f"{n}!" for n in range(30)}


async def test_a_pickled_copy_starts_at_the_first_turn() -> None:
    model = ScriptedModel(["a", "b"], model="s-1")
    await play(model)
    copy = pickle.loads(pickle.dumps(model))
    assert copy.requests == []
    assert (await response_of(copy)).message.text == "a"
    assert copy.profile == model.profile


def test_unfolding_and_folding_gives_the_message_again() -> None:
    content = (
        ThinkingBlock(text="hm", signature="s==", provider="p"),
        TextBlock(text="a"),
        ThinkingBlock(text="", signature="t==", provider="p"),
        ToolCallBlock(call_id="c1", tool_name="get", arguments_json='{"x": 1}', arguments={"x": 1}, provider="p"),
        TextBlock(text="b"),
    )
    message = AssistantMessage(content=content, model="m", provider="p", finish_reason="tool_calls")
    usage = Usage(input_tokens=1, output_tokens=2)
    response = ModelResponse(message=message, finish_reason="tool_calls", usage=usage, model="m")
    fold = Fold("p")
    for event in unfold(response):
        fold.add(event)
    assert fold.response() == response
