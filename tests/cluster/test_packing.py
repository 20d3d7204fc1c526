"""Runs that share a process, and processes that are unfit for others or gone (rules N, S11, Y02)."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import ray

from runtree import Runtime
from runtree.actors.jobs import ProcessInfo
from runtree.actors.observer import Observer
from tests.kit import ray_state
from tests.kit.agents import add, first_swallows, hold, lead, litter, tell_id, user
from tests.kit.eventually import eventually
from tests.kit.gates import Gates
from tests.kit.stream_check import check_ledger, check_stream, ends_of

_ray: Any = ray


def lives(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


def process_of(gates: Gates, tool_name: str) -> int:
    return int(gates.content(tool_name))


async def test_n_twenty_runs_share_a_process(runtime: Runtime, gates: Gates) -> None:
    worker = user("worker", tell_id, runs_per_actor=20, reuse=False)
    run = await runtime.start(lead(worker, times=20), "go", deps=gates)
    names = await eventually(lambda: [name for name in gates.names("tell_id-") if len(gates.names("tell_id-")) == 20])
    assert len({gates.content(name) for name in names}) == 1
    gates.open("go")
    items: list[Any] = [item async for item in run]
    check_stream(items)
    check_ledger(items, await run.result())
    told = [(item.run_id, item.data) for item in items if item.kind == "custom"]
    assert len(told) == 20
    assert all(run_id == data for run_id, data in told)
    assert f"tell_id-{told[0][0]}" in names
    # The driver gives its last caller time to read the answer before it ends it.
    await eventually(lambda: not ray_state.named_actors("run:worker"))


@pytest.mark.parametrize("in_time", [True, False])
async def test_n_a_packed_run_that_will_not_end_is_killed(runtime: Runtime, gates: Gates, in_time: bool) -> None:
    """Those beside it end within the grace that they get, or are started again, which counts as nobody's fault."""
    worker = user("worker", first_swallows, runs_per_actor=3, max_attempts=1)
    run = await runtime.start(lead(worker, times=3), "go", deps=gates)
    victim = await gates.passed("swallows")
    await eventually(lambda: len(gates.names("first_swallows-")) == 3)
    if in_time:
        gates.open("go")
    report = await runtime.cancel(victim, grace=1.0 if in_time else 0.2)
    assert report.killed == (victim,)
    gates.open("go")
    items: list[Any] = [item async for item in run]
    check_stream(items)
    result = await run.result()
    check_ledger(items, result)
    ends = ends_of(items)
    assert ends[victim].forced
    assert sorted(item.kind for item in ends.values()) == ["run_cancelled", *["run_completed"] * 3]
    attempts = sorted(item.attempt for item in ends.values())
    assert attempts == ([1, 1, 1, 1] if in_time else [1, 1, 2, 2])


@pytest.mark.parametrize("what", ["nothing", "environment", "folder", "child", "thread"])
async def test_s11_a_process_that_was_changed_takes_no_other_run(runtime: Runtime, gates: Gates, what: str) -> None:
    await runtime.warmed()
    await runtime.run(user("litterer", litter, arguments={"litter": {"what": what}}), "go", deps=gates)
    process = process_of(gates, "litter")
    if what == "nothing":
        assert lives(process)
        return
    await eventually(lambda: not lives(process))
    if what == "child":
        await eventually(lambda: not lives(int(gates.content("child"))))


async def test_s11_an_idle_process_that_died_is_replaced(cluster: None) -> None:
    async with Runtime(warm=1, namespace="idle") as runtime:
        await runtime.warmed()
        [name] = ray_state.named_actors("run:warm:", "idle")
        info: ProcessInfo = await _ray.get_actor(name, "idle").info.remote()
        os.kill(info.pid, signal.SIGKILL)
        replaced = await eventually(lambda: ray_state.named_actors("run:warm:", "idle") - {name})
        assert len(replaced) == 1
        await runtime.warmed()
        assert name not in ray_state.named_actors("run:warm:", "idle")
        assert (await runtime.run(user("worker", add, arguments={"add": {"a": 1, "b": 2}}), "go")).output == "done"
        async with Observer(namespace="idle") as observer:
            assert await observer.down()


async def test_y02_what_the_waiting_parent_holds_is_refused(cluster: None, gates: Gates) -> None:
    everything = {"num_cpus": _ray.cluster_resources()["CPU"]}
    tree = lead(user("child", hold, resources=everything), resources=everything)
    async with Runtime(warm=0, schedule_timeout=4.0) as runtime:
        run = await runtime.start(tree, "go", deps=gates)
        items: list[Any] = [item async for item in run]
        result = await run.result()
    assert result.status == "completed"
    [completed] = [item for item in items if item.kind == "tool_call_completed"]
    assert completed.outcome == "error"
    assert f"num_cpus={everything['num_cpus']:g}" in completed.message
