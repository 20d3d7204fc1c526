"""Hooks: their order, what they may change, and what happens when one raises."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from runtree.actors.agent import Agent, Middleware, RunContext, tool
from runtree.messages.content import TextBlock, ToolCallBlock
from runtree.messages.errors import LimitExceededError
from runtree.messages.failure import Failure
from runtree.messages.model import (
    Failed,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from runtree.messages.result import RunResult
from runtree.messages.transcript import AssistantMessage, ToolResult
from runtree.providers.scripted import Hang, ScriptedModel, reasoning, tool_call
from tests.agent.test_loop import assert_valid
from tests.kit.host import MemoryTree


@tool
async def echo(word: str) -> str:
    """Say it again."""
    await anyio.lowlevel.checkpoint()
    return word


class Recorder(Middleware):
    """Writes down every hook, and raises in one if told to."""

    def __init__(self, name: str, log: list[str], fails_in: str = "", error: Exception | None = None) -> None:
        self.name, self.log, self.fails_in = name, log, fails_in
        self.error = error or ValueError("broken")
        self.errors: list[BaseException] = []

    def note(self, hook: str) -> None:
        self.log.append(f"{self.name}.{hook}")
        if hook == self.fails_in:
            raise self.error

    async def before_run(self, ctx: RunContext) -> None:
        self.note("before_run")

    async def after_run(self, ctx: RunContext, result: RunResult) -> None:
        self.note("after_run")

    async def before_model(self, ctx: RunContext, request: ModelRequest) -> ModelRequest:
        self.note("before_model")
        return request

    async def after_model(self, ctx: RunContext, response: ModelResponse) -> ModelResponse:
        self.note("after_model")
        return response

    async def on_model_delta(self, ctx: RunContext, event: Any) -> Any:
        self.note("on_model_delta")
        return event

    async def wrap_model(self, ctx: RunContext, request: ModelRequest, call_next: Any) -> AsyncIterator[ModelEvent]:
        self.note("wrap_model")
        async for event in call_next(request):
            yield event
        self.log.append(f"{self.name}.wrapped_model")

    async def wrap_tool(self, ctx: RunContext, call: ToolCallBlock, call_next: Any) -> ToolResult:
        self.note("wrap_tool")
        result: ToolResult = await call_next(call)
        self.log.append(f"{self.name}.wrapped_tool")
        return result

    async def on_error(self, ctx: RunContext, error: BaseException) -> None:
        self.log.append(f"{self.name}.on_error")
        self.errors.append(error)


async def test_the_first_is_outermost() -> None:
    """L5."""
    log: list[str] = []
    hooks = [Recorder("a", log), Recorder("b", log)]
    model = ScriptedModel([[tool_call("echo", {"word": "x"})], []])
    await MemoryTree(Agent("lead", model, tools=[echo], middleware=hooks)).execute()
    turn = ["a.before_model", "b.before_model", "a.wrap_model", "b.wrap_model"]
    end = ["b.wrapped_model", "a.wrapped_model", "b.after_model", "a.after_model"]
    assert log == [
        *("a.before_run", "b.before_run", *turn, "b.on_model_delta", "a.on_model_delta", *end),
        *("a.wrap_tool", "b.wrap_tool", "b.wrapped_tool", "a.wrapped_tool"),
        *(*turn, *end, "b.after_run", "a.after_run"),
    ]


@pytest.mark.parametrize(
    "hook", ["before_run", "before_model", "wrap_model", "on_model_delta", "after_model", "wrap_tool", "after_run"]
)
async def test_a_hook_that_raises(hook: str) -> None:
    """L04: `on_error` once, the run fails with its partial transcript, everything opened is closed."""
    log: list[str] = []
    failing = Recorder("b", log, fails_in=hook)
    hooks = [Recorder("a", log), failing, Recorder("c", log)]
    model = ScriptedModel([["text", tool_call("echo", {"word": "x"}), tool_call("echo", {"word": "y"})], ["done"]])
    tree = MemoryTree(Agent("lead", model, tools=[echo], middleware=hooks))
    result = await tree.execute()
    assert_valid(result)
    assert result.error is not None
    assert (result.status, result.error.message) == ("failed", f"hook Recorder.{hook} raised ValueError: broken")
    assert [log.count(f"{name}.on_error") for name in "abc"] == [1, 1, 1]
    assert failing.errors == [failing.error]
    assert log.count("a.before_run") == log.count("a.after_run") == 1
    assert result.messages[0].kind == "user"


async def test_a_fatal_call_leaves_its_siblings_their_ends() -> None:
    """T02."""

    class Fatal(Middleware):
        async def wrap_tool(self, ctx: RunContext, call: ToolCallBlock, call_next: Any) -> ToolResult:
            if call.arguments == {"word": "bad"}:
                raise ValueError("fatal")
            result: ToolResult = await call_next(call)
            return result

    calls = [tool_call("echo", {"word": word}) for word in ("a", "bad", "b")]
    tree = MemoryTree(Agent("lead", ScriptedModel([calls]), tools=[echo], middleware=[Fatal()], max_parallel=2))
    result = await tree.execute()
    assert result.status == "failed"
    assert_valid(result)
    message = result.messages[-1]
    assert message.kind == "tool"
    assert [each.outcome for each in message.results] in (["ok", "error", "cancelled"], ["ok", "error", "ok"])


async def test_runtrees_own_errors_pass_as_they_are() -> None:
    error = LimitExceededError("max_cost", "1")
    hook = Recorder("a", [], fails_in="before_model", error=error)
    result = await MemoryTree(Agent("lead", ScriptedModel([]), middleware=[hook])).execute()
    assert result.error is not None
    assert result.error.limit == "max_cost"
    assert hook.errors == [error]


async def test_on_error_for_failures_of_the_model_and_none_for_a_cancel() -> None:
    log: list[str] = []
    broken = Failed(error=Failure(code="quota", message="empty"))
    await MemoryTree(Agent("lead", ScriptedModel([[broken]]), middleware=[Recorder("a", log)])).execute()
    assert log.count("a.on_error") == 1
    tree = MemoryTree(Agent("lead", ScriptedModel([[Hang()]]), middleware=[Recorder("b", log)]))
    run = tree.run()
    async with anyio.create_task_group() as group:
        group.start_soon(run.execute)
        await anyio.wait_all_tasks_blocked()
        run.cancel("user")
    tree.check()
    assert "b.on_error" not in log
    assert "b.after_run" in log


async def test_a_changed_model_is_called() -> None:
    """L05."""

    class Other(Middleware):
        async def before_model(self, ctx: RunContext, request: ModelRequest) -> ModelRequest:
            return request.model_copy(update={"model": "other-model"})

    model = ScriptedModel([["x"]])
    result = await MemoryTree(Agent("lead", model, middleware=[Other()])).execute()
    assert model.requests[0].model == "other-model"
    last = result.messages[-1]
    assert isinstance(last, AssistantMessage)
    assert last.model == "other-model"


async def test_deltas_are_seen_before_readers_see_them() -> None:
    """L5: text, reasoning and tool fragments; `None` hides one."""

    class Filter(Middleware):
        async def on_model_delta(self, ctx: RunContext, event: Any) -> Any:
            if isinstance(event, TextDelta):
                return event.model_copy(update={"text": event.text.upper()})
            return None if isinstance(event, ReasoningDelta) else event

    class See(Middleware):
        async def on_model_delta(self, ctx: RunContext, event: Any) -> Any:
            seen.append(type(event))
            return event

    seen: list[Any] = []
    model = ScriptedModel([[reasoning("hm"), "text", tool_call("echo", {"word": "x"})], []])
    tree = MemoryTree(Agent("lead", model, tools=[echo], middleware=[Filter(), See()]))
    await tree.execute()
    assert seen == [ReasoningDelta, TextDelta, ToolCallDelta]
    assert [(item.text, item.reasoning) for item in tree.of("model_delta")] == [("TEXT", "")]


async def test_a_changed_response_is_gone_on_with() -> None:
    class Censor(Middleware):
        async def after_model(self, ctx: RunContext, response: ModelResponse) -> ModelResponse:
            return response.model_copy(update={"message": AssistantMessage(content=(TextBlock(text="***"),))})

    result = await MemoryTree(Agent("lead", ScriptedModel([["secret"]]), middleware=[Censor()])).execute()
    assert result.output == "***"


async def test_a_layer_may_call_the_model_again() -> None:
    """U06: each try is counted."""

    class Again(Middleware):
        async def wrap_model(self, ctx: RunContext, request: ModelRequest, call_next: Any) -> AsyncIterator[ModelEvent]:
            async for event in call_next(request):
                if isinstance(event, Failed):
                    break
                yield event
            else:
                return
            async for event in call_next(request):
                yield event

    broken = Failed(error=Failure(code="overloaded", message="busy"))
    model = ScriptedModel([[broken], ["fine"]])
    result = await MemoryTree(Agent("lead", model, middleware=[Again()])).execute()
    assert (result.output, result.usage.model_calls) == ("fine", 2)


async def test_a_layer_may_answer_for_the_tool_or_change_the_call() -> None:
    class Gate(Middleware):
        async def wrap_tool(self, ctx: RunContext, call: ToolCallBlock, call_next: Any) -> ToolResult:
            word = (call.arguments or {})["word"]
            if word == "deny":
                return ToolResult(call_id=call.call_id, tool_name=call.tool_name, outcome="refused")
            changed = {"word": "other"} if word == "change" else {"wrong": 1}
            result: ToolResult = await call_next(call.model_copy(update={"arguments": changed}))
            return result

    calls = [tool_call("echo", {"word": word}) for word in ("deny", "change", "spoil")]
    tree = MemoryTree(Agent("lead", ScriptedModel([calls, ["done"]]), tools=[echo], middleware=[Gate()]))
    result = await tree.execute()
    message = result.messages[2]
    assert message.kind == "tool"
    assert [(each.outcome, each.text[:5]) for each in message.results] == [
        ("refused", ""),
        ("ok", "other"),
        ("invalid", "Inval"),
    ]


async def test_a_denied_sub_agent_is_never_admitted() -> None:
    class Deny(Middleware):
        async def wrap_tool(self, ctx: RunContext, call: ToolCallBlock, call_next: Any) -> ToolResult:
            return ToolResult(call_id=call.call_id, tool_name=call.tool_name, outcome="refused")

    sub = Agent("sub", ScriptedModel([]))
    model = ScriptedModel([[tool_call("sub", {"input": "x"})], ["done"]])
    tree = MemoryTree(Agent("lead", model, agents=[sub], middleware=[Deny()]))
    await tree.execute()
    assert tree.admissions == []


async def test_contexts_of_hooks() -> None:
    class Counting(Middleware):
        async def before_model(self, ctx: RunContext, request: ModelRequest) -> ModelRequest:
            ctx.state["turns"] = ctx.state.get("turns", 0) + 1
            ctx.emit("turn", {"turn": ctx.turn, "count": ctx.state["turns"], "deps": ctx.deps, "tags": dict(ctx.tags)})
            return request

    model = ScriptedModel([[tool_call("echo", {"word": "x"})], ["done"]])
    tree = MemoryTree(Agent("lead", model, tools=[echo], middleware=[Counting()]), deps="d")
    await tree.execute(tags={"k": "v"})
    assert [item.data for item in tree.of("custom")] == [
        {"turn": turn, "count": turn, "deps": "d", "tags": {"k": "v"}} for turn in (1, 2)
    ]
