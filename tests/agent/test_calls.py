"""The tool calls of a turn: side by side, bounded, and each with exactly one end."""

import asyncio
import threading
import time
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from runtree.actors.agent import Agent, ToolContext, tool
from runtree.messages.errors import ToolError
from runtree.messages.limits import Limits
from runtree.messages.transcript import ToolMessage, ToolResult
from runtree.providers import secrets
from runtree.providers.scripted import ScriptedModel, tool_call
from tests.kit.eventually import eventually
from tests.kit.host import MemoryTree


def results_of(tree_result: Any) -> tuple[ToolResult, ...]:
    message = next(message for message in tree_result.messages if isinstance(message, ToolMessage))
    return message.results


async def run(tools: list[Any], calls: list[Any], **options: Any) -> tuple[MemoryTree, tuple[ToolResult, ...]]:
    limits = options.pop("limits", None)
    tree = MemoryTree(Agent("lead", ScriptedModel([calls, ["done"]]), tools=tools, **options), limits=limits)
    result = await tree.execute()
    assert result.output == "done"
    return tree, results_of(result)


async def test_parallel_calls_complete_when_they_end() -> None:
    """T01, L4: completions in the order of ends, each with its own duration; results in the order of calls."""
    release = anyio.Event()

    @tool
    async def slow() -> str:
        await release.wait()
        return "slow"

    @tool
    async def fast() -> str:
        release.set()
        return "fast"

    tree, results = await run([slow, fast], [tool_call("slow", call_id="s"), tool_call("fast", call_id="f")])
    done = tree.of("tool_call_completed")
    assert [item.call_id for item in done] == ["f", "s"]
    assert [result.call_id for result in results] == ["s", "f"]
    assert 0 < done[0].duration < done[1].duration


async def test_unknown_tool() -> None:
    """T03."""
    tree, results = await run([], [tool_call("nope", {"a": 1}, "c")])
    assert tree.kinds()[2:4] == ["tool_call_started", "tool_call_args_delta"]
    assert (results[0].outcome, "There is no tool 'nope'" in results[0].text) == ("invalid", True)
    assert tree.of("tool_call_completed")[0].message == results[0].text


async def test_identical_arguments_run_twice() -> None:
    """T05."""
    seen: list[str] = []

    @tool
    async def note(word: str, ctx: ToolContext) -> str:
        seen.append(ctx.call_id)
        return word

    await run([note], [tool_call("note", {"word": "x"}, "a"), tool_call("note", {"word": "x"}, "b")])
    assert sorted(seen) == ["a", "b"]


@pytest.mark.parametrize("parallel", [1, 2, 5, None])
async def test_max_parallel(parallel: int | None) -> None:
    most, now = 0, 0

    @tool
    async def work() -> None:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        now -= 1

    await run([work], [tool_call("work") for _ in range(5)], max_parallel=parallel)
    assert most == (parallel or 5)


class OwnError(Exception):
    pass


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize(
    "error, words",
    [
        pytest.param(ToolError("no such page"), "no such page", id="tool-error"),
        pytest.param(OwnError("why"), "OwnError: why", id="exception"),
        pytest.param(SystemExit(3), "SystemExit: 3", id="exit"),
        pytest.param(StopIteration(), "StopIteration", id="stop"),
        pytest.param(ExceptionGroup("many", [ValueError("x")]), "ExceptionGroup: many", id="group"),
    ],
)
async def test_tools_that_raise(error: BaseException, words: str, sync: bool) -> None:
    """L6, T02: an error result, also for the siblings' sake never a dead run."""

    @tool
    async def fail() -> None:
        raise error

    @tool(name="fail")
    def fail_in_thread() -> None:
        raise error

    @tool
    async def fine() -> str:
        return "fine"

    _, results = await run([fail_in_thread if sync else fail, fine], [tool_call("fail"), tool_call("fine")])
    assert [result.outcome for result in results] == ["error", "ok"]
    assert words in results[0].text
    assert "Traceback" not in results[0].text


async def test_a_tool_that_raises_a_cancellation_of_its_own() -> None:
    @tool
    async def odd() -> None:
        raise asyncio.CancelledError

    _, results = await run([odd], [tool_call("odd")])
    assert results[0].outcome == "error"


async def test_secrets_stay_out_of_error_results() -> None:
    """P21."""
    secrets.provide({"TEST_KEY": "key-of-the-test"})

    @tool
    async def leak() -> None:
        raise ValueError("bad key-of-the-test")

    _, results = await run([leak], [tool_call("leak")])
    assert results[0].text == "ValueError: bad ***"


async def test_output_over_its_size_and_output_that_is_none() -> None:
    """T07, T09."""

    @tool(max_output=10)
    def long() -> str:
        return "ä" * 50

    @tool
    async def odd() -> object:
        return object()

    _, results = await run([long, odd], [tool_call("long"), tool_call("odd")])
    assert results[0].text.startswith("ä" * 5 + "\n[cut")
    assert results[1].outcome == "error"


@pytest.mark.parametrize("sync", [False, True])
async def test_own_timeout(sync: bool) -> None:
    """T06: recoverable, and the flag of the call is set."""
    release = threading.Event()
    flags: list[bool] = []

    # Long enough for a thread to begin on a busy machine.
    @tool(timeout=0.5)
    async def hang(ctx: ToolContext) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            flags.append(ctx.cancelled.is_cancelled())

    @tool(name="hang", timeout=0.5)
    def hang_in_thread(ctx: ToolContext) -> None:
        release.wait(10)
        flags.append(ctx.cancelled.is_cancelled())

    tree = MemoryTree(
        Agent("lead", ScriptedModel([[tool_call("hang")], ["done"]]), tools=[hang_in_thread if sync else hang])
    )
    agent_run = tree.run()
    result = await agent_run.execute()
    tree.check()
    assert (result.output, results_of(result)[0].outcome) == ("done", "timeout")
    assert "0.5 seconds" in results_of(result)[0].text
    assert agent_run.left_threads is sync, "S11: the process of a left-over thread takes no other run"
    release.set()
    await eventually(lambda: not agent_run.left_threads)
    assert flags == [True]


async def test_the_stricter_timeout_holds() -> None:
    @tool(timeout=60)
    async def hang() -> None:
        await anyio.sleep_forever()

    _, results = await run([hang], [tool_call("hang")], limits=Limits(tool_timeout=0.01))
    assert results[0].outcome == "timeout"


async def test_contexts() -> None:
    """T08: sync tools run off the event loop, async tools on it; both get a context."""
    loop_thread = threading.get_ident()
    contexts: dict[str, Any] = {}

    @tool
    def in_thread(ctx: ToolContext) -> str:
        assert threading.get_ident() != loop_thread
        ctx.blocking.progress("half", 0.5)
        ctx.emit("seen", {"x": 1})
        contexts["sync"] = ctx
        return "sync"

    @tool
    async def on_loop(ctx: ToolContext) -> str:
        assert threading.get_ident() == loop_thread
        await ctx.progress("all", 1.0)
        ctx.emit("seen", [2])
        contexts["async"] = ctx
        return "async"

    tree, results = await run(
        [in_thread, on_loop], [tool_call("in_thread", call_id="a"), tool_call("on_loop", call_id="b")]
    )
    assert [result.text for result in results] == ["sync", "async"]
    assert {(item.call_id, item.message, item.fraction) for item in tree.of("tool_progress")} == {
        ("a", "half", 0.5),
        ("b", "all", 1.0),
    }
    assert sorted(str(item.data) for item in tree.of("custom")) == ["[2]", "{'x': 1}"]
    ctx = contexts["sync"]
    stamp = tree.root.stamp
    assert (ctx.run_id, ctx.root_run_id, ctx.call_id, ctx.tool_name) == (stamp.run_id, stamp.run_id, "a", "in_thread")
    assert (ctx.attempt, ctx.limits, ctx.idempotency_key) == (1, tree.limits, f"{stamp.run_id}:1:{ctx.tool_name}:1")
    ctx.emit("late")
    await contexts["async"].progress("late")
    tree.check()


async def test_progress_that_json_cannot_hold() -> None:
    @tool
    async def odd(ctx: ToolContext) -> None:
        ctx.emit("seen", object())

    _, results = await run([odd], [tool_call("odd")])
    assert results[0].outcome == "error"


async def test_threads_run_side_by_side() -> None:
    """T08: one barrier for 50 sync tools."""
    barrier = threading.Barrier(50, timeout=10)

    @tool
    def meet() -> None:
        barrier.wait()

    _, results = await run([meet], [tool_call("meet") for _ in range(50)])
    assert {result.outcome for result in results} == {"ok"}


@pytest.mark.parametrize(
    "raw, outcome", [('{"a": ', "invalid"), ("[1]", "invalid"), ('"x"', "invalid"), ('{"word": 3}', "invalid")]
)
async def test_calls_that_are_never_run(raw: str, outcome: str) -> None:
    """L6, T04, P11: no guessed input; the raw text stays visible."""
    ran: list[str] = []

    @tool
    async def note(word: str = "default") -> None:
        ran.append(word)

    tree, results = await run([note], [tool_call("note", raw, "c")])
    assert (results[0].outcome, ran) == (outcome, [])
    assert tree.of("tool_call_args_delta")[0].delta == raw


async def test_a_slow_reader_slows_progress() -> None:
    """D5: progress waits for room like any other delta."""
    steps: list[str] = []

    @tool
    async def tick(ctx: ToolContext) -> None:
        steps.clear()
        await ctx.progress("x")
        steps.append("returned")

    tree = MemoryTree(
        Agent("lead", ScriptedModel([[tool_call("tick")], ["done"]]), tools=[tick]),
        step=lambda _, name: steps.append(name),
    )
    await tree.execute()
    assert steps[:3] == ["ToolProgress", "ready", "returned"]


async def test_time_is_measured_at_the_run() -> None:
    @tool
    def doze() -> None:
        time.sleep(0.01)

    tree, _ = await run([doze], [tool_call("doze")])
    assert tree.of("tool_call_completed")[0].duration >= 0.01
