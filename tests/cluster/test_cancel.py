"""Cancel: whatever a run waits on, from wherever it is asked for."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from runtree import Agent, RunCancelledError, RunHandle, Runtime
from runtree.messages.model import ModelSettings
from runtree.messages.transcript import AssistantMessage
from runtree.providers.chat.model import OpenAIChat
from runtree.providers.scripted import ScriptedModel, tool_call
from tests.kit.agents import (
    Pouring,
    block_async,
    cancel_all,
    hold,
    lead,
    linger,
    silent,
    sleep_async,
    sleep_sync,
    spin_sync,
    swallow,
    swallow_with_process,
    user,
)
from tests.kit.driver import is_alive
from tests.kit.eventually import eventually
from tests.kit.gates import Gates
from tests.kit.loopback import Answer, Loopback, Route, hang, send
from tests.kit.stream_check import check_ledger, check_stream, ends_of, runs_of
from tests.providers.answers import chunk, frame

GRACE = 0.5


async def rest(run: RunHandle, seen: list[Any] | None = None) -> list[Any]:
    """The whole stream, checked."""
    items = [*(seen or ()), *[item async for item in run]]
    check_stream(items)
    check_ledger(items, await run.outcome())
    return items


async def until(run: RunHandle, kind: str, count: int = 1) -> list[Any]:
    """What comes up to the item of this kind."""
    seen = []
    async for item in run:
        seen.append(item)
        count -= item.kind == kind
        if not count:
            break
    return seen


async def test_c01_before_the_run_begins(runtime: Runtime) -> None:
    run = await runtime.start(silent(), "go")
    report = await run.cancel(reason="changed my mind")
    assert report.was_live
    items = await rest(run)
    assert items[-1].kind == "run_cancelled"
    assert items[-1].reason == "changed my mind"
    assert not [item for item in items if item.kind == "model_delta"]
    with pytest.raises(RunCancelledError, match="changed my mind"):
        await run.result()


@contextmanager
def deaf_server() -> Iterator[tuple[str, int]]:
    """An address that lets connections wait: its backlog is full and nobody accepts."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        port = server.getsockname()[1]
        waiting = [socket.socket() for _ in range(2)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))
        try:
            yield f"http://127.0.0.1:{port}/v1", port
        finally:
            for each in waiting:
                each.close()


def connecting(port: int) -> bool:
    """Whether somebody on this machine, besides the test, is in the middle of a connect to the port."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return sum(line.split()[2].endswith(f":{port:04X}") and line.split()[3] == "02" for line in lines) >= 2


async def test_c02_while_connecting(runtime: Runtime) -> None:
    with deaf_server() as (url, port):
        run = await runtime.start(Agent("dialer", OpenAIChat("m", base_url=url, connect_timeout=60)), "go")
        seen = await until(run, "turn_started")
        await eventually(lambda: connecting(port))
        report = await run.cancel(grace=5)
    assert report.cancelled == (run.run_id,)
    await rest(run, seen)


async def test_c02_c08_while_streaming(runtime: Runtime, loopback: Loopback) -> None:
    route = await loopback.route(Answer([send(frame(chunk({"content": "half an answer"}))), hang()]))
    run = await runtime.start(Agent("streamer", OpenAIChat("m", base_url=route.base_url)), "go")
    seen = await until(run, "model_delta")
    report = await run.cancel(grace=5)
    await route.until("disconnected")
    assert report.cancelled == (run.run_id,)
    await rest(run, seen)
    result = await run.outcome()
    assert result.status == "cancelled"
    assert isinstance(result.messages[-1], AssistantMessage)
    assert result.messages[-1].text == "half an answer"
    assert result.usage.precision == "estimated"


async def test_c02_in_a_unary_call(runtime: Runtime, loopback: Loopback) -> None:
    route: Route = await loopback.route(Answer(before=[hang()]))
    agent = Agent("asker", OpenAIChat("m", base_url=route.base_url), model_settings=ModelSettings(stream=False))
    run = await runtime.start(agent, "go")
    await route.until("request")
    report = await run.cancel(grace=5)
    await route.until("disconnected")
    assert report.cancelled == (run.run_id,)
    await rest(run)


async def test_c02_c07_every_kind_of_tool_in_one_tree(runtime: Runtime, gates: Gates) -> None:
    tools = (sleep_async, sleep_sync, spin_sync, block_async, swallow)
    children = [user(f"with_{each.name}", each) for each in tools]
    run = await runtime.start(lead(silent(), *children), "go", deps=gates)
    for each in tools:
        await gates.passed(each.name)
    # Time enough for the run whose thread spins: the two share an interpreter lock, and the machine may be busy.
    report = await run.cancel(reason="enough", grace=6 * GRACE)
    items = await rest(run)
    ends = ends_of(items)
    assert not report.unreachable
    assert set(report.cancelled) | set(report.killed) == set(ends)
    result = await run.outcome()
    # By the ledger: a run whose loop is blocked at once had no time to say that it started.
    forced = {record.agent: ends[record.run_id].forced for record in result.runs}
    assert forced == {
        "lead": False,
        "silent": False,
        "with_sleep_async": False,
        "with_sleep_sync": False,
        "with_spin_sync": False,
        "with_block_async": True,
        "with_swallow": True,
    }
    assert {ends[run_id].kind for run_id in ends} == {"run_cancelled"}
    assert {end.reason for end in ends.values()} == {"enough"}
    assert {item.outcome for item in items if item.kind == "tool_call_completed"} == {"cancelled"}
    assert {record.status for record in result.runs} == {"cancelled"}
    assert result.messages[-1].kind == "tool", "a call without a result makes the history invalid"
    pids = [int(gates.content(each.name)) for each in tools if each.name != "sleep_async"]
    await eventually(lambda: not any(is_alive(pid) for pid in pids))


async def test_c06_in_a_push_into_a_full_lane(narrow: Runtime, gates: Gates) -> None:
    agent = Agent("pouring", Pouring(6000, gates.folder / "poured-count", 900))
    run = await narrow.start(agent, "go")
    await gates.passed("poured")
    report = await run.cancel(grace=5)
    assert report.cancelled == (run.run_id,)
    assert (await run.outcome()).status == "cancelled"
    items = await rest(run)
    assert items[-1].forced is False


async def test_c06_child_behind_a_reader_that_stopped(narrow: Runtime, gates: Gates) -> None:
    agent = lead(Agent("pouring", Pouring(6000, gates.folder / "poured-count", 900)))
    run = await narrow.start(agent, "go")
    seen = await until(run, "model_delta")
    await gates.passed("poured")
    report = await run.cancel(grace=5)
    assert len(report.cancelled) == 2
    await rest(run, seen)


async def test_c03_sub_tree(runtime: Runtime, gates: Gates) -> None:
    inner = lead(user("holder", hold), name="inner")
    run = await runtime.start(lead(inner), "go", deps=gates)
    await gates.passed("hold")
    inner_id = next(
        info.run_id for info in await runtime.runs() if info.agent == "inner" and info.root_run_id == run.run_id
    )
    report = await runtime.cancel(inner_id, reason="not needed")
    assert len(report.cancelled) == 2
    items = await rest(run)
    result = await run.result()
    assert result.output == "done"
    [told] = [item for item in items if item.kind == "tool_call_completed" and item.run_id == run.run_id]
    assert told.outcome == "cancelled"
    assert "not needed" in result.messages[2].model_dump_json()


async def test_c11_from_a_tool_of_the_tree(runtime: Runtime, gates: Gates) -> None:
    run = await runtime.start(lead(silent(), tools=[cancel_all]), "go", deps=gates)
    items = await rest(run)
    assert gates.is_open("latched"), "the call waited for its own run"
    ends = ends_of(items)
    assert not any(end.forced for end in ends.values())
    assert {end.kind for end in ends.values()} == {"run_cancelled"}
    assert {end.reason for end in ends.values()} == {"a tool said so"}


async def test_c09_unknown_and_ended(runtime: Runtime) -> None:
    unknown = await runtime.cancel("nobody")
    assert (unknown.was_live, unknown.cancelled, unknown.killed, unknown.unreachable) == (False, (), (), ())
    result = await runtime.run(Agent("quick", ScriptedModel([["x"]])), "go")
    ended = await runtime.cancel(result.run_id)
    assert not ended.was_live


async def test_s2_from_another_driver_and_twice(runtime: Runtime, narrow: Runtime, gates: Gates) -> None:
    run = await runtime.start(lead(user("holder", hold)), "go", deps=gates)
    await gates.passed("hold")
    reports = await asyncio.gather(narrow.cancel(run.run_id, reason="from elsewhere"), run.cancel(reason="from here"))
    assert {report.was_live for report in reports} == {True}
    assert [len(report.cancelled) for report in reports] == [2, 2]
    items = await rest(run)
    assert len({end.reason for end in ends_of(items).values()}) == 1, "the first reason stays"
    assert (await run.outcome()).status == "cancelled"


async def test_s2_a_second_cancel_may_shorten_the_grace(runtime: Runtime, gates: Gates) -> None:
    run = await runtime.start(user("stubborn", swallow), "go", deps=gates)
    await gates.passed("swallow")
    patient = asyncio.create_task(run.cancel(grace=600))
    await eventually(lambda: _cancelling(runtime, run.run_id))
    report = await run.cancel(grace=0.1)
    assert report.killed == (run.run_id,)
    assert (await patient).killed == (run.run_id,)
    items = await rest(run)
    assert items[-1].forced


async def _cancelling(runtime: Runtime, run_id: str) -> bool:
    return any(info.cancelling for info in await runtime.runs() if info.run_id == run_id)


async def test_c13_grace_of_a_parent_begins_after_its_childs_end(runtime: Runtime, gates: Gates) -> None:
    child = user("child", swallow)
    calls = [tool_call("child", {"input": "x"}), tool_call("linger", {"seconds": 60})]
    parent = Agent("parent", ScriptedModel([calls, ["done"]]), agents=[child], tools=[linger])
    run = await runtime.start(parent, "go", deps=gates)
    await gates.passed("swallow")
    await gates.passed("linger")
    report = await run.cancel(grace=GRACE)
    assert len(report.killed) == 2
    items = await rest(run)
    assert all(end.forced for end in ends_of(items).values())
    ended = {record.agent: record.ended or 0.0 for record in (await run.outcome()).runs}
    assert ended["parent"] >= ended["child"] + GRACE


async def test_c13_a_parent_that_ends_within_its_own_grace_is_not_killed(runtime: Runtime, gates: Gates) -> None:
    run = await runtime.start(lead(user("child", swallow)), "go", deps=gates)
    await gates.passed("swallow")
    report = await run.cancel(grace=GRACE)
    items = await rest(run)
    assert report.cancelled == (run.run_id,)
    assert report.killed == (runs_of(items, "child")[0],)
    assert [item.outcome for item in items if item.kind == "tool_call_completed"] == ["cancelled", "cancelled"]


async def test_s3_y14_a_kill_takes_child_processes_along(runtime: Runtime, gates: Gates) -> None:
    run = await runtime.start(user("starter", swallow_with_process), "go", deps=gates)
    pid = int(await gates.passed("process"))
    assert is_alive(pid)
    assert (await run.cancel(grace=0.1)).killed == (run.run_id,)
    await eventually(lambda: not is_alive(pid))
    await rest(run)
