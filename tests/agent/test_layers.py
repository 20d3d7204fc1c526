"""Layers around a model call: each is closed when the call has its end, and hooks see all that readers see."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from runtree.actors.agent import Agent, Middleware, Retry, RunContext, tool
from runtree.messages.content import TextBlock, ThinkingBlock, ToolCallBlock
from runtree.messages.failure import Failure
from runtree.messages.limits import Limits
from runtree.messages.model import (
    Completed,
    Failed,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    SignatureDelta,
    ToolCallDelta,
)
from runtree.messages.transcript import AssistantMessage
from runtree.providers.retry import RetryPolicy
from runtree.providers.scripted import Hang, ScriptedModel, reasoning, tool_call
from tests.agent.test_loop import assert_valid
from tests.kit.eventually import eventually
from tests.kit.host import MemoryTree
from tests.kit.leftovers import nothing_left

BUSY = Failed(error=Failure(code="overloaded", message="busy", retryable=True))
QUICK = Retry(RetryPolicy(initial=0.001))


@tool
async def echo(word: str) -> str:
    """Say it again."""
    return word


class Passing(Middleware):
    """A layer as anybody writes it: without care for how it is left."""

    def __init__(self) -> None:
        self.closed = 0

    async def wrap_model(self, ctx: RunContext, request: ModelRequest, call_next: Any) -> AsyncIterator[ModelEvent]:
        try:
            async for event in call_next(request):
                yield event
        finally:
            self.closed += 1


@pytest.mark.parametrize("timeout", [None, 30.0])
@pytest.mark.parametrize("layers", [0, 1, 2])
async def test_every_layer_is_closed_when_the_call_has_its_end(layers: int, timeout: float | None) -> None:
    hooks = [Passing() for _ in range(layers)]
    model = ScriptedModel([["ha", BUSY], ["fine", tool_call("echo", {"word": "x"})], ["done"]])
    agent = Agent("lead", model, tools=[echo], middleware=[*hooks, QUICK])
    tree = MemoryTree(agent, limits=Limits(model_call_timeout=timeout))
    with nothing_left():
        assert (await tree.execute()).output == "done"
    assert [hook.closed for hook in hooks] == [2] * layers


async def test_l04_a_layer_that_is_no_generator_and_raises_is_named() -> None:
    class Raising(Middleware):
        def wrap_model(self, ctx: RunContext, request: ModelRequest, call_next: Any) -> AsyncIterator[ModelEvent]:
            raise ValueError("broken")

    for hooks in ([Raising()], [Passing(), Raising()]):
        result = await MemoryTree(Agent("lead", ScriptedModel([["x"]]), middleware=hooks)).execute()
        assert result.error is not None
        assert result.error.message == "hook Raising.wrap_model raised ValueError: broken"


class Hiding(Middleware):
    """Hides calls from readers."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def on_model_delta(self, ctx: RunContext, event: Any) -> Any:
        if not isinstance(event, ToolCallDelta):
            return event
        self.seen.append(event.arguments)
        return None


CALL = ToolCallBlock(call_id="c", tool_name="echo", arguments={"word": "x"}, arguments_json='{"word":"x"}')
WHOLE = ModelResponse(message=AssistantMessage(content=(CALL,)), finish_reason="tool_calls")


@pytest.mark.parametrize(
    "turn, seen",
    [
        ([tool_call("echo", '{"word"', "c"), tool_call("echo", ':"x"}', "c")], ['{"word"', ':"x"}']),
        ([Completed(response=WHOLE)], ['{"word":"x"}']),
        ([tool_call("echo", "", "c"), Completed(response=WHOLE)], ["", '{"word":"x"}']),
    ],
)
async def test_l5_arguments_that_a_hook_hides_are_not_shown_at_the_end_either(turn: list[Any], seen: list[str]) -> None:
    """Streamed or not, a hook sees them once. That there was a call is told: it has an end."""
    hook = Hiding()
    tree = MemoryTree(Agent("lead", ScriptedModel([turn, ["done"]]), tools=[echo], middleware=[hook]))
    await tree.execute()
    assert hook.seen == seen
    assert not tree.of("tool_call_args_delta")
    assert [item.outcome for item in tree.of("tool_call_completed")] == ["ok"]


@pytest.mark.parametrize(
    "hook", ["before_model", "on_model_delta", "wrap_model", "after_model", "on_error", "after_run"]
)
async def test_l04_a_hook_that_waits_for_something_that_is_cancelled_has_failed(hook: str) -> None:
    """Nobody cancelled the run, and nothing goes down around it."""

    async def wait(*_: Any) -> None:
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lost.cancel()
        await lost

    async def wrap(*_: Any) -> AsyncIterator[ModelEvent]:
        await wait()
        yield BUSY

    waiting = type("Waiting", (Middleware,), {hook: wrap if hook == "wrap_model" else wait})
    script: list[Any] = [["x", Failed(error=Failure(code="quota", message="none"))]] if hook == "on_error" else [["x"]]
    result = await MemoryTree(Agent("lead", ScriptedModel(script), middleware=[waiting()])).execute()
    assert result.error is not None
    expected = "none" if hook == "on_error" else f"hook Waiting.{hook} raised CancelledError"
    assert (result.status, result.error.message) == ("failed", expected)


async def test_hooks_cant_mix_up_calls() -> None:
    """L5: which call a piece is of stays; a call that a hook adds gets an id of its own."""

    class Mixing(Middleware):
        async def on_model_delta(self, ctx: RunContext, event: Any) -> Any:
            return event.model_copy(update={"call_id": "same"}) if isinstance(event, ToolCallDelta) else event

        async def after_model(self, ctx: RunContext, response: ModelResponse) -> ModelResponse:
            if ctx.turn > 2:
                return response
            content = (*response.message.content, CALL)
            return response.model_copy(update={"message": response.message.model_copy(update={"content": content})})

    turns: list[Any] = [[tool_call("echo", {"word": "a"}, "a")], [tool_call("echo", {"word": "b"}, "b")], ["done"]]
    tree = MemoryTree(Agent("lead", ScriptedModel(turns), tools=[echo], middleware=[Mixing()]))
    result = await tree.execute()
    assert_valid(result)
    started = [item.call_id for item in tree.of("tool_call_started")]
    assert (started[:3], len(set(started))) == (["a", "c", "b"], 4)
    assert [item.outcome for item in tree.of("tool_call_completed")] == ["ok"] * 4


async def test_l04_what_a_layer_does_after_the_answer_is_part_of_the_call() -> None:
    class Late(Middleware):
        async def wrap_model(self, ctx: RunContext, request: ModelRequest, call_next: Any) -> AsyncIterator[ModelEvent]:
            async for event in call_next(request):
                yield event
            raise ValueError("could not be stored")

    result = await MemoryTree(Agent("lead", ScriptedModel([["fine"]]), middleware=[Late()])).execute()
    assert result.error is not None
    assert (result.status, "Late.wrap_model" in result.error.message) == ("failed", True)
    last = result.messages[-1]
    assert isinstance(last, AssistantMessage)
    assert last.text == "fine", "L07: the answer is kept"


class Waiting(Middleware):
    """Never lets an answer pass."""

    async def after_model(self, ctx: RunContext, response: ModelResponse) -> ModelResponse:
        await asyncio.Event().wait()
        return response


@pytest.mark.parametrize("whole", [True, False])
async def test_s4_a_cancelled_run_keeps_what_was_thought_and_said(whole: bool) -> None:
    """Of a whole answer with its signature, of one that was cut off what readers saw."""
    said: list[Any] = [reasoning("hm"), SignatureDelta(signature="proof"), "half"]
    model = ScriptedModel([said if whole else [*said[:1], *said[2:], Hang()]])
    tree = MemoryTree(Agent("lead", model, middleware=[Waiting()]))
    run = tree.run()
    ending = asyncio.create_task(run.execute())
    await eventually(lambda: [item for item in tree.of("model_delta") if item.text])
    run.cancel("user")
    result = await ending
    tree.check()
    last = result.messages[-1]
    assert isinstance(last, AssistantMessage)
    signature = "proof" if whole else None
    assert last.content == (ThinkingBlock(text="hm", signature=signature, provider="scripted"), TextBlock(text="half"))
