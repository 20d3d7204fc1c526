"""Cancels that meet something else: an admission, an end, another run on the same actor."""

import asyncio
import os
import signal
import time
from typing import Any

import pytest

from runtree import Agent, Runtime
from runtree.providers.scripted import ScriptedModel, tool_call
from tests.kit.agents import hold, lead, leaf, linger, user
from tests.kit.eventually import eventually
from tests.kit.gates import Gates
from tests.kit.stream_check import check_ledger, check_stream, ends_of


async def nothing_lives(runtime: Runtime, root_run_id: str) -> bool:
    return not [info for info in await runtime.runs() if info.root_run_id == root_run_id]


async def agree(runtime: Runtime, run: Any, items: list[Any]) -> None:
    """Stream, result and ledger tell the same, and nothing of the tree lives."""
    check_stream(items)
    check_ledger(items, await run.outcome())
    assert await nothing_lives(runtime, run.run_id)


@pytest.mark.parametrize("after", range(1, 24))
async def test_s1_c04_cancel_races_with_a_fan_out(runtime: Runtime, after: int) -> None:
    """The cancel comes after the n-th item: before, during and after the admission of the children, and around the end."""
    tree = lead(lead(leaf("x"), leaf("y"), name="inner"), leaf("z"))
    run = await runtime.start(tree, "go")
    items = []
    async for item in run:
        items.append(item)
        if len(items) == after:
            report = await run.cancel(grace=5)
            assert not report.unreachable
            assert not report.killed
            assert await nothing_lives(runtime, run.run_id), "a run lives that the cancel did not reach"
    await agree(runtime, run, items)


@pytest.mark.long
async def test_c04_cancel_races_with_the_end(runtime: Runtime) -> None:
    for _ in range(15):
        run = await runtime.start(Agent("quick", ScriptedModel([["x"]])), "go")
        items = []
        async for item in run:
            items.append(item)
            if item.kind == "assistant_message":
                report = await run.cancel(grace=0)
                assert not report.unreachable
        await agree(runtime, run, items)


@pytest.mark.long
async def test_c12_a_kill_never_hits_the_next_run(cluster: None, gates: Gates) -> None:
    """The grace ends when the run does; the actor is leased again at once. As many tries as fit."""
    grace = 0.05
    slow = Agent(
        "slow", ScriptedModel([[tool_call("linger", {"seconds": grace})], ["done"]], loop=True), tools=[linger]
    )
    quick = Agent("quick", ScriptedModel([["x"]], loop=True))
    async with Runtime(warm=2) as runtime:
        await runtime.warmed()
        deadline = time.monotonic() + 8
        tries = 0
        while time.monotonic() < deadline or not tries:
            tries += 1
            run = await runtime.start(slow, "go", deps=Gates(gates.folder))
            await gates.passed(f"linger-{run.run_id}")
            cancelling = asyncio.create_task(run.cancel(grace=grace))
            ended = asyncio.create_task(run.outcome())
            await asyncio.wait({cancelling, ended}, return_when=asyncio.FIRST_COMPLETED)
            assert (await runtime.run(quick, "go")).output == "x"
            report = await cancelling
            assert not report.unreachable
            await agree(runtime, run, [item async for item in run])


async def test_s1_cancelled_start_leaves_no_run(runtime: Runtime) -> None:
    """Whoever awaits `start` may be cancelled at any moment of it."""
    before = {info.run_id for info in await runtime.runs()}
    for rounds in range(0, 60, 3):
        starting = asyncio.ensure_future(runtime.start(leaf("early"), "go"))
        for _ in range(rounds):
            await asyncio.sleep(0.0005)
            if starting.done():
                break
        starting.cancel()
        await asyncio.wait({starting})
        if not starting.cancelled():
            await starting.result().result()

    async def none() -> bool:
        return {info.run_id for info in await runtime.runs()} <= before

    await eventually(none)


async def test_x10_kill_races_with_a_cancel(runtime: Runtime, gates: Gates) -> None:
    for _ in range(3):
        run = await runtime.start(lead(user("holder", hold)), "go", deps=gates)
        pid = int(await gates.passed("hold"))
        (gates.folder / "hold").unlink()
        cancelling = asyncio.create_task(run.cancel(grace=5))
        os.kill(pid, signal.SIGKILL)
        report = await cancelling
        assert not report.unreachable
        items = [item async for item in run]
        check_stream(items)
        assert ends_of(items)[run.run_id].kind == "run_cancelled"


async def test_run_is_cancelled_with_its_caller(runtime: Runtime, gates: Gates) -> None:
    running = asyncio.create_task(runtime.run(user("holder", hold), "go", deps=gates))
    await gates.passed("hold")
    [run_id] = [info.run_id for info in await runtime.runs()]
    running.cancel()
    await asyncio.wait({running})
    assert running.cancelled()
    assert await nothing_lives(runtime, run_id)
    assert [info.status for info in await runtime.runs(all=True) if info.run_id == run_id] == ["cancelled"]
