"""How items travel from actors to a driver that reads slowly, late, from elsewhere, or not at all."""

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from runtree import Agent, Retry, RetryPolicy, Runtime
from runtree.messages.failure import Failure
from runtree.messages.model import Failed
from runtree.providers.chat.model import OpenAIChat
from runtree.providers.scripted import ScriptedModel
from tests.kit.agents import Pouring, dying_inner, hold, lead, leaf, user
from tests.kit.eventually import eventually
from tests.kit.gates import Gates
from tests.kit.loopback import Answer, Loopback, send, wait
from tests.kit.stream_check import check_stream, dropped, runs_of, text_of
from tests.providers.answers import chunk, frame, stream

PIECES = 6000
HELD_AT_MOST = 8 + 1024 + 64
"""Items between the model and a reader that does not read: in the lane, in the emitter, in the reader's hand."""


def pouring(gates: Gates, pieces: int = PIECES, mark: int = 900) -> Agent:
    return Agent("pouring", Pouring(pieces, gates.folder / "poured-count", mark))


def poured(gates: Gates) -> int:
    return (gates.folder / "poured-count").stat().st_size


def counted(pieces: int = PIECES) -> str:
    return "".join(f"{number} " for number in range(pieces))


@pytest.fixture(scope="module")
async def dropping(cluster: None) -> AsyncIterator[Runtime]:
    async with Runtime(warm=1, buffer_items=64, overflow="drop_oldest") as runtime:
        await runtime.warmed()
        yield runtime


@pytest.fixture(scope="module")
async def spread(cluster: None) -> AsyncIterator[Runtime]:
    async with Runtime(warm=5, queue_actors=3, spread_lanes=True, buffer_items=64) as runtime:
        await runtime.warmed()
        yield runtime


async def test_d5_block_makes_the_model_wait_and_loses_nothing(narrow: Runtime, gates: Gates) -> None:
    run = await narrow.start(pouring(gates), "go")
    await gates.passed("poured")
    assert poured(gates) <= HELD_AT_MOST
    items = []
    async for item in run:
        items.append(item)
        # Every piece that was read makes room for one more; 4096 is what one fetch takes at most, and one is made ahead.
        assert poured(gates) <= len(items) + 2 * 2048 + HELD_AT_MOST
    check_stream(items)
    assert dropped(items) == 0
    assert text_of(items, run.run_id) == counted()


async def test_d5_drop_oldest_never_waits_and_marks_the_gap(dropping: Runtime, gates: Gates) -> None:
    run = await dropping.start(pouring(gates), "go")
    await eventually(lambda: run.status == "completed")
    assert poured(gates) == PIECES
    items = [item async for item in run]
    check_stream(items)
    assert dropped(items) > PIECES / 2
    left = text_of(items, run.run_id)
    assert left
    assert counted().endswith(left), "the newest were to be kept"


async def test_d6_result_without_a_reader(narrow: Runtime, gates: Gates) -> None:
    run = await narrow.start(pouring(gates), "go")
    result = await run.result()
    assert result.output == "all"
    items = [item async for item in run]
    check_stream(items)
    assert dropped(items) > 0


async def test_d6_l08_result_inside_the_iteration(narrow: Runtime, gates: Gates) -> None:
    run = await narrow.start(pouring(gates), "go")
    items, result = [], None
    async for item in run:
        items.append(item)
        if result is None and item.kind == "model_delta":
            result = await run.result()
    assert result is not None
    assert result.output == "all"
    check_stream(items)


async def test_d6_result_beside_a_reader_drops_nothing(narrow: Runtime, gates: Gates) -> None:
    run = await narrow.start(pouring(gates), "go")
    waiting = asyncio.create_task(run.result())
    items = [item async for item in run]
    assert (await waiting).output == "all"
    check_stream(items)
    assert text_of(items, run.run_id) == counted()


async def test_d6_closed_handle_lets_the_run_end(narrow: Runtime, gates: Gates) -> None:
    run = await narrow.start(pouring(gates), "go")
    await gates.passed("poured")
    run.close()
    assert (await run.result()).output == "all"
    assert [item async for item in run] == []


async def test_d6_collected_handle_lets_the_run_end(narrow: Runtime, gates: Gates) -> None:
    run = await narrow.start(pouring(gates), "go")
    run_id = run.run_id
    await gates.passed("poured")
    del run
    gc.collect()

    async def completed() -> bool:
        return [info.status for info in await narrow.runs(all=True) if info.run_id == run_id] == ["completed"]

    await eventually(completed)


async def test_d6_abandoned_iteration_still_gives_a_result(narrow: Runtime, gates: Gates) -> None:
    run = await narrow.start(pouring(gates), "go")
    async for _ in run:
        break
    assert (await run.result()).output == "all"


@pytest.mark.parametrize("how", ["closed", "collected"])
async def test_d6_reader_gone_cancels_where_asked(cluster: None, gates: Gates, how: str) -> None:
    async with Runtime(warm=0, on_reader_gone="cancel") as runtime:
        run = await runtime.start(user("holder", hold), "go", deps=gates)
        await gates.passed("hold")
        run_id = run.run_id
        if how == "closed":
            run.close()
        del run
        gc.collect()

        async def cancelled() -> bool:
            return [info.status for info in await runtime.runs(all=True) if info.run_id == run_id] == ["cancelled"]

        await eventually(cancelled)


async def test_d6_cancelled_reader_loses_nothing(runtime: Runtime, gates: Gates) -> None:
    run = await runtime.start(lead(*(leaf(f"leaf{n}", *["x"] * 300) for n in range(3))), "go")
    items: list[Any] = []
    while not items or not items[-1].kind.startswith("run_") or items[-1].run_id != run.run_id or len(items) == 1:
        reading = asyncio.ensure_future(run.next_items())
        if len(items) % 3 == 0:
            await asyncio.sleep(0)
            if not reading.done():
                reading.cancel()
                await asyncio.wait({reading})
                if reading.cancelled():
                    reading = asyncio.ensure_future(run.next_items())
        items.extend(await reading)
    check_stream(items)
    assert len([item for item in items if item.kind == "model_delta"]) == 3 * 300 + 1


async def test_d7_x06_deltas_come_while_the_provider_still_sends(runtime: Runtime, loopback: Loopback) -> None:
    steps = [
        send(frame(chunk({"content": "first"}))),
        wait("more"),
        send(stream(chunk({"content": "last"}), chunk(finish="stop"))),
    ]
    route = await loopback.route(Answer(steps))
    model = OpenAIChat("m", base_url=route.base_url)
    run = await runtime.start(lead(lead(lead(Agent("leaf", model), name="c"), name="b"), name="a"), "go")
    items: list[Any] = []
    async for item in run:
        items.append(item)
        if items[-1].kind == "model_delta" and items[-1].text == "first":
            # The provider waits for this driver: whatever held the delta back would hold for ever.
            await route.release("more")
    check_stream(items)
    leaf_run = runs_of(items, "leaf")[0]
    assert text_of(items, leaf_run) == "firstlast"
    last_words = [item for item in items if item.kind == "assistant_message" and item.run_id == run.run_id]
    delta = next(item for item in items if item.run_id == leaf_run and item.kind == "model_delta")
    assert items.index(delta) < items.index(last_words[-1])


@pytest.mark.long
async def test_d3_spread_lanes_give_the_same_stream(spread: Runtime) -> None:
    """The race that a call returns before its items are in the parent's lane, 23 of 300 times without the rule."""
    leaves = [leaf(f"leaf{n}", *[f"{n} "] * 200) for n in range(2)]
    tree = lead(lead(lead(*leaves, name="c"), name="b"), name="a")
    for _ in range(25):
        run = await spread.start(tree, "go")
        items = [item async for item in run]
        check_stream(items)
        assert dropped(items) == 0
        for n in range(2):
            assert text_of(items, runs_of(items, f"leaf{n}")[0]) == f"{n} " * 200


async def test_s7_x11_lost_inner_run_whose_lanes_are_spread(spread: Runtime, gates: Gates) -> None:
    await spread.warmed()
    run = await spread.start(lead(dying_inner()), "go", deps=gates)
    items = [item async for item in run]
    check_stream(items)
    assert items[-1].kind == "run_completed"
    [inner] = set(runs_of(items, "inner"))
    assert [item.attempt for item in items if item.run_id == inner and item.kind == "attempt_discarded"] == [1]
    assert len({run_id for name in ("one", "two") for run_id in runs_of(items, name)}) == 4


async def test_d6_spread_lanes_without_a_reader(spread: Runtime, gates: Gates) -> None:
    run = await spread.start(lead(lead(pouring(gates), name="b"), name="a"), "go")
    assert (await run.result()).output == "done"
    items = [item async for item in run]
    check_stream(items)


async def test_d4_spread_lanes_cancelled_while_full(spread: Runtime, gates: Gates) -> None:
    run = await spread.start(lead(lead(pouring(gates), name="b"), name="a"), "go")
    await gates.passed("poured")
    report = await run.cancel(grace=5)
    assert len(report.cancelled) == 3
    items = [item async for item in run]
    check_stream(items)


async def test_streams_of_two_trees_do_not_mix(runtime: Runtime) -> None:
    first, second = [await runtime.start(lead(leaf("x", *[name] * 100)), "go") for name in ("1", "2")]
    for run, word in ((second, "2"), (first, "1")):
        items = [item async for item in run]
        check_stream(items)
        assert text_of(items, runs_of(items, "x")[0]) == word * 100


async def test_text_stream_is_the_roots_text(runtime: Runtime) -> None:
    run = await runtime.start(Agent("poet", ScriptedModel([["roses ", "are ", "red"]])), "go")
    assert [piece async for piece in run.text_stream()] == ["roses ", "are ", "red"]


async def test_r02_text_stream_says_what_does_not_count(runtime: Runtime) -> None:
    busy = Failed(error=Failure(code="overloaded", message="busy", retryable=True))
    model = ScriptedModel([["roses ", busy], ["violets"]])
    run = await runtime.start(Agent("poet", model, middleware=[Retry(RetryPolicy(initial=0.001))]), "go")
    first, mark, last = [piece async for piece in run.text_stream()]
    assert (first, last) == ("roses ", "violets")
    assert "discarded" in mark
    assert "busy" in mark


async def test_usage_of_a_live_run(runtime: Runtime, gates: Gates) -> None:
    run = await runtime.start(user("holder", hold), "go", deps=gates)
    await gates.passed("hold")
    assert (await run.usage()).total_usage.model_calls == 1
    assert run.status == "running"
    gates.open("go")
    assert (await run.result()).total_usage.model_calls == 2
