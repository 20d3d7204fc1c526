"""Many random operations with a fixed seed, after which nothing is left and nothing has grown (C05).

`RUNTREE_SOAK=1000` makes it a thousand; without it there are as many as a usual run of the tests has time for.
"""

import asyncio
import gc
import os
import random
import signal
import tempfile
import threading
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from runtree import Agent, Runtime
from tests.kit import ray_state
from tests.kit.agents import lead, leaf
from tests.kit.eventually import eventually
from tests.kit.stream_check import check_ledger, check_stream, runs_of

OPERATIONS = int(os.environ.get("RUNTREE_SOAK", "15"))
AT_ONCE = 3
TREE_BYTES = 48 * 1024
"""What the supervisor may keep of an ended tree: it remembers the last thousand."""


class Sizes(NamedTuple):
    """What must not grow."""

    actors: int
    processes: int
    threads: int
    tasks: int
    descriptors: int
    files: int


def sizes() -> Sizes:
    gc.collect()
    return Sizes(
        len(ray_state.named_actors()),
        len(ray_state.actor_processes()),
        threading.active_count(),
        len(asyncio.all_tasks()),
        len(os.listdir("/proc/self/fd")),
        len(list(Path(tempfile.gettempdir()).iterdir())),
    )


def resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def trees() -> list[Agent]:
    words = ["word "] * 40
    return [
        lead(leaf("packed", *words, runs_per_actor=4), times=4),
        lead(lead(leaf("x", *words), name="inner"), leaf("y")),
        leaf("alone", *words),
    ]


async def operate(runtime: Runtime, dice: random.Random, tree: Agent) -> None:
    """One tree to its end: left alone, cancelled in part or whole, or with one of the run actors killed, at any moment."""
    fate = dice.choices(("alone", "cancel", "part", "kill"), (4, 3, 2, 1))[0]
    left = dice.randrange(60)
    run = await runtime.start(tree, "go")
    items: list[Any] = []
    async for item in run:
        items.append(item)
        if len(items) != left:
            continue
        if fate == "cancel":
            assert not (await run.cancel(grace=5)).unreachable
        elif fate == "part":
            below = [run_id for name in ("inner", "packed") for run_id in runs_of(items, name)]
            if below:
                await runtime.cancel(dice.choice(below), grace=5)
        elif fate == "kill":
            victims = sorted(ray_state.named_actors("run:", "soak"))
            pid = ray_state.pid_of(dice.choice(victims)) if victims else 0
            if pid:
                os.kill(pid, signal.SIGKILL)
    check_stream(items)
    check_ledger(items, await run.outcome())


async def play(runtime: Runtime, dice: random.Random, count: int) -> None:
    agents = trees()
    for _ in range(count // AT_ONCE):
        await asyncio.gather(*(operate(runtime, dice, dice.choice(agents)) for _ in range(AT_ONCE)))


@pytest.mark.timeout(60 + 3 * OPERATIONS)
async def test_c05_nothing_grows_over_random_operations(cluster: None) -> None:
    dice = random.Random(11)
    async with Runtime(warm=4, namespace="soak") as runtime:
        await runtime.warmed()
        await play(runtime, dice, max(AT_ONCE, OPERATIONS // 10))
        await runtime.warmed()
        before = sizes()
        supervisor = ray_state.pid_of("supervisor", "soak")
        memory = resident(supervisor)
        await play(runtime, dice, OPERATIONS)
        await runtime.warmed()
        slack = Sizes(actors=0, processes=0, threads=1, tasks=1, descriptors=2, files=2)
        limits = Sizes(*(was + more for was, more in zip(before, slack, strict=True)))
        await eventually(lambda: all(now <= limit for now, limit in zip(sizes(), limits, strict=True)))
        assert not await runtime.runs()
        assert ray_state.pid_of("supervisor", "soak") == supervisor
        grown = resident(supervisor) - memory
        assert grown <= OPERATIONS * TREE_BYTES + 8 * 2**20, f"the supervisor grew by {grown} bytes"
    ray_state.end_supervisor("soak")
