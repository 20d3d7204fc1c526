"""Queue actors that are killed while trees run: they come back, producers send again, what was lost is marked, and every end still comes."""

import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from runtree import Agent, Runtime
from runtree.actors.remote import kill_by_name
from tests.kit import ray_state
from tests.kit.agents import Pouring, die, hold, lead, leaf, user
from tests.kit.eventually import eventually
from tests.kit.gates import Gates
from tests.kit.stream_check import check_ledger, check_stream, dropped, ends_of, lost, text_of

PIECES = 3000


def pouring(gates: Gates, mark: int = 900) -> Agent:
    return Agent("pouring", Pouring(PIECES, gates.folder / "poured-count", mark))


async def queues_of(run: Any) -> list[str]:
    """The queue actors of a run's driver, its own first."""
    own: str = run._session.home.queue
    return [own, *sorted(ray_state.named_actors(own.rpartition(":")[0]) - {own})]


async def kill_queue(queue: str) -> None:
    """Ends the process of a queue actor; returns when Ray has noticed."""
    pid = await eventually(lambda: ray_state.pid_of(queue))
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: ray_state.pid_of(queue) != pid)


@pytest.fixture(scope="module")
async def spread(cluster: None) -> AsyncIterator[Runtime]:
    """Streams that are full after a few items, and lanes in two queues."""
    async with Runtime(warm=4, buffer_items=64, queue_actors=2, spread_lanes=True) as runtime:
        await runtime.warmed()
        yield runtime


async def check_whole(runtime: Runtime, run: Any, items: list[Any]) -> None:
    """Asserts what holds after a loss: the rules, one end for every run of the ledger, the right totals, and nothing that lives."""
    check_stream(items)
    result = await run.outcome()
    check_ledger(items, result)
    assert set(ends_of(items)) == {record.run_id for record in result.runs}
    assert not [info for info in await runtime.runs() if info.root_run_id == run.run_id]
    assert result.total_usage.model_calls == sum(record.usage.model_calls or 0 for record in result.runs)


async def run_of(run: Any, agent: str) -> str:
    [found] = [record.run_id for record in (await run.outcome()).runs if record.agent == agent]
    return str(found)


async def test_d4_tree_goes_on_without_what_its_queue_held(narrow: Runtime, gates: Gates) -> None:
    """The queue dies, full, with a producer that waits for room and a sibling that says nothing meanwhile; and dies again."""
    run = await narrow.start(lead(pouring(gates), user("holder", hold)), "go", deps=gates)
    await gates.passed("hold")
    await gates.passed("poured")
    [queue] = await queues_of(run)
    await kill_queue(queue)
    await kill_queue(queue)
    gates.open("go")
    items = [item async for item in run]
    await check_whole(narrow, run, items)
    assert (await run.result()).output == "done"
    assert lost(items) > 0
    assert dropped(items) == lost(items), "of what was sent again, nothing is missing"
    assert text_of(items, await run_of(run, "pouring")).endswith(f"{PIECES - 1} ")


@pytest.mark.long
@pytest.mark.parametrize("own", [True, False], ids=["driver's lane", "lane below"])
async def test_d4_one_of_two_queues_is_lost(spread: Runtime, gates: Gates, own: bool) -> None:
    tree = lead(lead(pouring(gates), user("holder", hold), name="inner"), user("victim", die), name="lead")
    run = await spread.start(tree, "go", deps=gates)
    await gates.passed("poured")
    await gates.passed("hold")
    mine, other = await queues_of(run)
    await kill_queue(mine if own else other)
    gates.open("go")
    items = [item async for item in run]
    await check_whole(spread, run, items)
    assert (await run.result()).output == "done"
    assert text_of(items, await run_of(run, "pouring")).endswith(f"{PIECES - 1} ")


async def test_d4_queue_is_lost_after_the_end_and_before_anybody_read(narrow: Runtime) -> None:
    run = await narrow.start(lead(leaf("a"), leaf("b")), "go")
    assert (await run.result()).output == "done"
    [queue] = await queues_of(run)
    await kill_queue(queue)
    items = [item async for item in run]
    await check_whole(narrow, run, items)
    assert ends_of(items)[run.run_id].output == "done"
    assert lost(items) > 0


async def test_c06_tree_is_cancelled_while_its_queue_is_lost(narrow: Runtime, gates: Gates) -> None:
    run = await narrow.start(lead(pouring(gates), user("holder", hold)), "go", deps=gates)
    await gates.passed("hold")
    await gates.passed("poured")
    [queue] = await queues_of(run)
    await kill_queue(queue)
    report = await run.cancel(grace=8)
    assert not report.unreachable
    items = [item async for item in run]
    await check_whole(narrow, run, items)
    assert {end.kind for end in ends_of(items).values()} == {"run_cancelled"}


async def test_d4_every_end_comes_also_without_a_queue(cluster: None, gates: Gates) -> None:
    """Somebody ended the queue actor for good: the driver makes the ends by the ledger."""
    async with Runtime(warm=0) as runtime:
        run = await runtime.start(lead(user("holder", hold)), "go", deps=gates)
        await gates.passed("hold")
        [queue] = await queues_of(run)
        await kill_by_name(queue, "runtree")
        gates.open("go")
        items = [item async for item in run]
        await check_whole(runtime, run, items)
