"""Every kind of process killed once while one tree runs; and what Ray's errors for a process that is gone mean.

Single faults have tests of their own: runs in `test_retry`, queues in `test_queue_loss`, the supervisor in `test_supervisor_restart`, drivers in
`test_drivers`, nodes in `test_nodes`. What ends a process out of memory, the kernel or Ray's memory monitor, is a SIGKILL as well. The monitor looks at
the memory of the whole machine, so it can't be made to end the right process in a test; the errors it gives are checked instead.
"""

import os
import signal
from typing import Any

import pytest
from ray.exceptions import ActorDiedError, NodeDiedError, OutOfMemoryError, RayError, WorkerCrashedError

from runtree import Runtime
from runtree.actors.remote import ActorGoneError, translated
from tests.kit import ray_state
from tests.kit.agents import die_once_with_process, hold, lead, leaf, user
from tests.kit.driver import is_alive
from tests.kit.eventually import eventually
from tests.kit.gates import Gates
from tests.kit.stream_check import check_ledger, check_stream, ends_of, runs_of


async def kill_actor(name: str) -> None:
    pid = await eventually(lambda: ray_state.pid_of(name))
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: not is_alive(pid))


async def kill_run_of(agent: str, run: Any, runtime: Runtime) -> None:
    """Kills the process of a live run; returns when its caller has noticed."""
    [found] = [info for info in await runtime.runs() if info.root_run_id == run.run_id and info.agent == agent]
    [name] = [each for each in ray_state.named_actors("run:") if found.run_id in each]
    await kill_actor(name)


@pytest.mark.long
async def test_s5_s7_y14_every_kind_of_process_is_killed_once(cluster: None, gates: Gates) -> None:
    before = (ray_state.named_actors(), ray_state.actor_processes(), len(os.listdir("/proc/self/fd")))
    inner = lead(user("victim", die_once_with_process), user("holder", hold), name="inner", reuse=False)
    async with Runtime(warm=1, namespace="chaos") as runtime:
        run = await runtime.start(lead(inner, leaf("sibling", *["word "] * 200), reuse=False), "go", deps=gates)
        await gates.passed("hold")
        queue = run._session.home.queue
        await kill_actor(queue)
        ray_state.kill_supervisor("chaos")
        await kill_run_of("inner", run, runtime)

        async def holds_again() -> bool:
            return len(gates.names("hold-")) == 2

        await eventually(holds_again)
        await kill_run_of("lead", run, runtime)
        gates.open("go")
        items = [item async for item in run]
        check_stream(items)
        result = await run.outcome()
        check_ledger(items, result)
        assert result.output == "done"
        assert set(ends_of(items)) == {record.run_id for record in result.runs}
        assert {record.agent: record.attempt for record in result.runs if record.agent == "lead"} == {"lead": 2}
        assert result.total_usage.model_calls == sum(record.usage.model_calls or 0 for record in result.runs)
        assert len(runs_of(items, "sibling")) <= 2, "one for each attempt of the root"
        assert not [info for info in await runtime.runs() if info.root_run_id == run.run_id]
    children = [int(gates.content(name)) for name in gates.names("process-")]
    assert children
    await eventually(lambda: not any(is_alive(pid) for pid in children))
    ray_state.end_supervisor("chaos")
    await eventually(lambda: ray_state.named_actors() <= before[0])
    await eventually(lambda: ray_state.actor_processes() <= before[1])
    await eventually(lambda: len(os.listdir("/proc/self/fd")) <= before[2] + 2)


@pytest.mark.parametrize("kind", [OutOfMemoryError, NodeDiedError, WorkerCrashedError, ActorDiedError])
def test_s7_ways_of_ray_to_say_that_a_process_is_gone(kind: Any) -> None:
    """Without Ray: each is a loss, after which a run is started again."""
    error: RayError = kind("gone") if kind in (OutOfMemoryError, NodeDiedError) else kind()
    assert isinstance(translated(error, "run actor"), ActorGoneError)
