"""Cancel: at every point, in everything a run can wait for."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtree.actors.agent import Agent, CancelFlag, Middleware, RunContext, ToolContext, tool
from runtree.messages.errors import LimitExceededError
from runtree.messages.limits import Limits
from runtree.messages.model import ModelEvent, ModelRequest
from runtree.messages.result import RunResult
from runtree.providers.profile import ModelProfile
from runtree.providers.scripted import Delay, Hang, ScriptedModel, tool_call
from tests.agent.test_loop import assert_valid
from tests.kit.eventually import eventually
from tests.kit.host import MemoryTree


async def cancel_when_blocked(tree: MemoryTree, ready: Callable[[], Any] | None = None) -> RunResult:
    """Run the root, cancel it once nothing goes on any more, and return its end."""
    run = tree.run()
    results: list[RunResult] = []

    async def execute() -> None:
        results.append(await run.execute())

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(execute)
            await (eventually(ready) if ready is not None else anyio.wait_all_tasks_blocked())
            tree.cancel(tree.root.stamp.run_id, "user")
    tree.check()
    assert_valid(results[0])
    assert results[0].error is not None
    assert (results[0].status, results[0].error.message) == ("cancelled", "user")
    assert tree.items[-1].reason == "user"
    return results[0]


async def test_cancel_before_start() -> None:
    """C01."""
    model = ScriptedModel([["x"]])
    entered: list[str] = []

    class Hook(Middleware):
        async def before_run(self, ctx: RunContext) -> None:
            entered.append(ctx.run_id)

    tree = MemoryTree(Agent("lead", model, middleware=[Hook()]))
    run = tree.run()
    run.cancel("early")
    result = await run.execute()
    tree.check()
    assert (result.status, model.requests, entered) == ("cancelled", [], [])
    assert tree.kinds() == ["run_started", "run_cancelled"]
    assert result.usage.model_calls == 0


async def test_cancel_while_streaming_keeps_what_was_said() -> None:
    """C02, C08, U05."""
    tree = MemoryTree(Agent("lead", ScriptedModel([["some", " text", tool_call("nope", '{"a'), Hang()]])))
    result = await cancel_when_blocked(tree)
    last = result.messages[-1]
    assert last.kind == "assistant"
    assert last.text == "some text"
    assert (result.usage.precision, result.usage.model_calls) == ("estimated", 1)
    assert result.usage.output_tokens
    assert tree.of("tool_call_completed")[0].outcome == "cancelled"


async def test_cancel_closes_the_stream() -> None:
    """C02: the provider's connection is freed."""
    closed: list[bool] = []

    class Model:
        profile = ModelProfile(provider="x")

        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            try:
                await anyio.sleep_forever()
                yield  # type: ignore[misc]
            finally:
                closed.append(True)

    await cancel_when_blocked(MemoryTree(Agent("lead", Model())))
    assert closed == [True]


@tool
async def hang(ctx: ToolContext) -> None:
    """Hang for ever."""
    await anyio.sleep_forever()


async def test_cancel_of_async_tools() -> None:
    """C02, C08: finished calls keep their results, the others get one; waiting ones are never begun."""

    @tool
    async def quick() -> str:
        return "quick"

    calls = [tool_call("quick"), tool_call("hang"), tool_call("hang"), tool_call("quick")]
    tree = MemoryTree(Agent("lead", ScriptedModel([calls]), tools=[quick, hang], max_parallel=2))
    result = await cancel_when_blocked(tree)
    message = result.messages[-1]
    assert message.kind == "tool"
    assert [each.outcome for each in message.results] == ["ok", "cancelled", "cancelled", "cancelled"]
    assert "user" in message.results[1].text
    assert result.usage.tool_calls == 3


@pytest.mark.parametrize("looping", [False, True])
async def test_cancel_of_sync_tools(looping: bool) -> None:
    """C02: the run ends while the thread goes on; the thread can see the flag."""
    started, release = threading.Event(), threading.Event()

    @tool
    def busy(ctx: ToolContext) -> None:
        started.set()
        if looping:
            while not ctx.cancelled.is_cancelled():
                release.wait(0.001)
        release.wait(10)

    tree = MemoryTree(Agent("lead", ScriptedModel([[tool_call("busy")]]), tools=[busy]))
    await cancel_when_blocked(tree, started.is_set)
    run = tree.root.run
    assert run is not None
    assert run.left_threads
    release.set()
    await eventually(lambda: not run.left_threads)


async def test_cancel_reaches_children() -> None:
    """C02, D3, U07."""
    leaf = Agent("leaf", ScriptedModel([["word", Hang()]], loop=True))
    sub = Agent("sub", ScriptedModel([[tool_call("leaf", {"input": "x"})]], loop=True), agents=[leaf])
    lead = Agent("lead", ScriptedModel([[tool_call("sub", {"input": "x"})] * 2]), agents=[sub])
    tree = MemoryTree(lead)
    result = await cancel_when_blocked(tree)
    assert len(tree.of("run_cancelled")) == 5
    assert {item.outcome for item in tree.of("tool_call_completed")} == {"cancelled"}
    assert result.total_usage.model_calls == 5
    assert tree.cancels == [(tree.root.stamp.run_id, "user")], "who cancelled has told the children already"


async def test_cancel_by_a_tool_of_the_tree() -> None:
    """C11: no wait for itself."""
    done: list[str] = []

    @tool
    async def stop(ctx: ToolContext) -> None:
        await ctx.cancel(ctx.root_run_id, reason="enough")
        done.append("returned")
        await anyio.sleep_forever()

    @tool(name="stop")
    def stop_in_thread(ctx: ToolContext) -> None:
        ctx.blocking.cancel(reason="enough")
        done.append("returned")

    for each in (stop, stop_in_thread):
        sub = Agent("sub", ScriptedModel([[tool_call("stop")], ["never"]]), tools=[each])
        tree = MemoryTree(Agent("lead", ScriptedModel([[tool_call("sub", {"input": "x"})], ["done"]]), agents=[sub]))
        result = await tree.execute()
        assert result.status == ("cancelled" if each is stop else "completed")
        assert tree.of("run_cancelled")[0].reason == "enough"


async def test_hanging_hooks() -> None:
    """C02."""

    class Hook(Middleware):
        def __init__(self, name: str) -> None:
            async def hanging(*_: Any) -> Any:
                await anyio.sleep_forever()

            self.name = name
            self.hanging = hanging

        async def before_run(self, ctx: RunContext) -> None:
            if self.name == "before_run":
                await self.hanging()

        async def before_model(self, ctx: RunContext, request: ModelRequest) -> ModelRequest:
            if self.name == "before_model":
                await self.hanging()
            return request

        async def wrap_tool(self, ctx: RunContext, call: Any, call_next: Any) -> Any:
            if self.name == "wrap_tool":
                await self.hanging()
            return await call_next(call)

    for name in ("before_run", "before_model", "wrap_tool"):
        model = ScriptedModel([[tool_call("hang")]])
        await cancel_when_blocked(MemoryTree(Agent("lead", model, tools=[hang], middleware=[Hook(name)])))


async def test_the_tasks_own_cancellation_is_given_back() -> None:
    """The surroundings go down: the stream still gets its end, the exception goes on."""
    tree = MemoryTree(Agent("lead", ScriptedModel([[tool_call("hang")]]), tools=[hang]))
    run = tree.run()
    with anyio.move_on_after(0.05) as scope:
        await run.execute()
    assert scope.cancelled_caught
    tree.check()
    assert tree.items[-1].kind == "run_cancelled"


async def test_c04_a_tool_that_sees_the_flag_first_finds_the_run_stopped() -> None:
    """C04: the flag is set from another thread, and the tool it wakes has ended before that thread goes on."""
    ended = threading.Event()
    waits = anyio.Event()

    @tool
    async def wait(ctx: ToolContext) -> str:
        """Wait for the flag."""
        waits.set()
        try:
            await ctx.cancelled.wait()
        finally:
            asyncio.get_running_loop().call_soon(ended.set)
        return "seen"

    model = ScriptedModel([[tool_call("wait")], ["too late"]])
    tree = MemoryTree(Agent("lead", model, tools=[wait]))
    run = tree.run()
    loop = asyncio.get_running_loop()
    results: list[RunResult] = []

    async def execute() -> None:
        results.append(await run.execute())

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(execute)
            await waits.wait()
            # Registered last, so called last: when it returns, whatever the flag sets going on the loop has come to its end.
            run.flag.on_cancel(lambda: threading.current_thread() is threading.main_thread() or ended.wait(5))
            await anyio.to_thread.run_sync(run.cancel_threadsafe, "user", loop)
    tree.check()
    assert (results[0].status, len(model.requests)) == ("cancelled", 1)


async def test_c04_s2_a_parent_does_not_go_on_when_its_child_hears_of_their_cancel_first() -> None:
    """C04, S2: whichever of the orders is the last to arrive, the flags were set together."""
    sub = Agent("sub", ScriptedModel([["word", Hang()]]))
    model = ScriptedModel([[tool_call("sub", {"input": "x"})], ["too late"]])
    tree = MemoryTree(Agent("lead", model, agents=[sub]))
    results: list[RunResult] = []

    async def execute() -> None:
        results.append(await tree.run().execute())

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(execute)
            await anyio.wait_all_tasks_blocked()
            tree.cancel(tree.root.stamp.run_id, "user", untold={tree.root.stamp.run_id})
    tree.check()
    assert_valid(results[0])
    assert (results[0].status, len(model.requests)) == ("cancelled", 1)


async def test_interrupt_ends_what_is_below_too() -> None:
    sub = Agent("sub", ScriptedModel([["word", Hang()]]))
    tree = MemoryTree(Agent("lead", ScriptedModel([[tool_call("sub", {"input": "x"})]]), agents=[sub]))
    run = tree.run()
    results: list[RunResult] = []

    async def execute() -> None:
        results.append(await run.execute())

    async with anyio.create_task_group() as group:
        group.start_soon(execute)
        await anyio.wait_all_tasks_blocked()
        run.interrupt(LimitExceededError("max_cost", "1", "tree"))
        run.cancel("too late")
    tree.check()
    assert results[0].error is not None
    assert (results[0].status, results[0].error.limit) == ("failed", "max_cost")
    assert len(tree.of("run_cancelled")) == 1


def _agents() -> Agent:
    @tool
    async def work(ctx: ToolContext) -> str:
        await ctx.progress("half")
        await anyio.lowlevel.checkpoint()
        return "worked"

    @tool
    async def ask(ctx: ToolContext) -> str:
        return str((await ctx.spawn("sub", "x")).status)

    sub = Agent("sub", ScriptedModel([["a", tool_call("work"), "b"], ["c"]], loop=True), tools=[work])
    calls = [tool_call("work"), tool_call("sub", {"input": "x"}), tool_call("ask"), tool_call("nope")]
    model = ScriptedModel([["hi", *calls], [Delay(0), "done"]])
    return Agent("lead", model, tools=[work, ask], agents=[sub], max_parallel=3)


LIMITS = Limits(max_tool_calls=50, max_model_calls=50)


@given(st.integers(0, 110), st.booleans())
async def test_cancel_at_any_point(point: int, whole: bool) -> None:
    """C04, C08, D3, D4: wherever the cancel falls, in the root or in the run that is at work just then."""
    steps = 0

    def step(host: Any, _: str) -> None:
        nonlocal steps
        steps += 1
        if steps == point:
            tree.cancel(tree.root.stamp.run_id if whole else host.stamp.run_id, "at any point")

    tree = MemoryTree(_agents(), limits=LIMITS, step=step)
    result = await tree.execute()
    assert_valid(result)
    assert result.status in ("completed", "cancelled")
    assert tree.items[-1].kind == f"run_{result.status}"
    live = [host for host in tree.hosts.values() if host.run is not None and host.run.left_threads]
    assert not live


async def test_the_points_cover_the_whole_run() -> None:
    names: list[str] = []
    await MemoryTree(_agents(), limits=LIMITS, step=lambda _, name: names.append(name)).execute()
    assert 60 < len(names) <= 110


async def test_flags() -> None:
    flag = CancelFlag()
    child, untie = flag.child()
    seen: list[str] = []
    remove = flag.on_cancel(lambda: seen.append("removed"))
    flag.on_cancel(lambda: seen.append("called"))
    remove()
    assert (flag.is_cancelled(), flag.reason) == (False, None)
    async with anyio.create_task_group() as group:
        group.start_soon(child.wait)
        await anyio.wait_all_tasks_blocked()
        await anyio.to_thread.run_sync(flag.cancel, "first")
    flag.cancel("second")
    assert (flag.reason, child.reason, seen) == ("first", "first", ["called"])
    flag.on_cancel(lambda: seen.append("at once"))
    assert seen[-1] == "at once"
    await flag.wait()
    untie()


async def test_an_untied_flag_stays() -> None:
    flag = CancelFlag()
    child, untie = flag.child()
    untie()
    flag.cancel()
    assert not child.is_cancelled()
