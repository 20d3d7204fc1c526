"""The supervisor's process is killed while runs are under way (S6, Y07)."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from runtree import Agent, Runtime
from runtree.actors.supervisor_client import SupervisorClient
from runtree.providers.scripted import ScriptedModel, tool_call
from tests.kit import ray_state
from tests.kit.agents import leaf, linger, user
from tests.kit.gates import Gates
from tests.kit.stream_check import check_ledger, check_stream

TURNS, WIDTH, KILLS = 12, 4, 10
PART = "a secret part"


def store_file() -> Path:
    return ray_state.session_folder() / "runtree" / "runtree.db"


async def kill_supervisor(supervisor: SupervisorClient) -> None:
    """Kill its process, and return when another one answers."""
    pid = (await supervisor.describe()).pid
    os.kill(pid, signal.SIGKILL)
    while (await supervisor.describe()).pid == pid:
        pass


@pytest.mark.long
async def test_y07_supervisor_killed_ten_times_during_a_tree_of_fifty_runs(runtime: Runtime) -> None:
    turns = [[tool_call("leaf", {"input": PART}) for _ in range(WIDTH)] for _ in range(TURNS)]
    last = [tool_call("leaf", {"input": PART})]
    lead = Agent("lead", ScriptedModel([*turns, last, ["done"]]), agents=[leaf()])
    undisturbed = await runtime.run(leaf(), PART)
    supervisor = await SupervisorClient.join("runtree")

    run = await runtime.start(lead, "go")
    items = []
    progress = asyncio.Event()

    async def kill() -> None:
        for _ in range(KILLS):
            progress.clear()
            await progress.wait()
            await kill_supervisor(supervisor)

    killing = asyncio.create_task(kill())
    async for item in run:
        items.append(item)
        if item.kind == "run_completed":
            progress.set()
    await killing
    result = await run.result()

    check_stream(items)
    check_ledger(items, result)
    assert len(result.runs) == TURNS * WIDTH + 2
    assert {record.status for record in result.runs} == {"completed"}
    assert {record.attempt for record in result.runs} == {1}
    leaves = [record for record in result.runs if record.agent == "leaf"]
    assert all(record.usage == undisturbed.usage for record in leaves)
    root = next(record for record in result.runs if record.agent == "lead")
    assert result.total_usage.tokens == root.usage.tokens + len(leaves) * undisturbed.usage.tokens
    assert not [info for info in await supervisor.runs(ended=False) if info.root_run_id == result.run_id]
    kept = b"".join(path.read_bytes() for path in store_file().parent.iterdir())
    assert result.run_id.encode() in kept
    assert PART.encode() not in kept


async def test_s6_a_cancel_that_waits_is_answered_by_the_restarted_supervisor(runtime: Runtime, gates: Gates) -> None:
    agent = user("worker", linger, arguments={"linger": {"seconds": 3.0}})
    supervisor = await SupervisorClient.join("runtree")
    run = await runtime.start(agent, "go", deps=gates)
    await gates.passed("linger")
    cancelling = asyncio.create_task(run.cancel(grace=20.0))
    while not any(info.run_id == run.run_id and info.cancelling for info in await supervisor.runs(ended=False)):
        pass
    await kill_supervisor(supervisor)
    report = await cancelling
    assert report.was_live
    assert report.cancelled == (run.run_id,)
    assert not report.killed
