"""Drivers as processes: what becomes of their trees when they are interrupted, killed or just end, and of other drivers' trees."""

import signal
from pathlib import Path

import pytest

from runtree import Runtime
from tests.kit import ray_state
from tests.kit.agents import hold, lead, user
from tests.kit.driver import driver, exit_code, is_alive
from tests.kit.eventually import eventually
from tests.kit.gates import Gates
from tests.kit.loopback import Loopback, body
from tests.kit.stream_check import check_stream

_KEY = "sk-a-key-that-stands-in-no-file-0123456789"

_TREE = """
    import asyncio, os, sys
    from pathlib import Path
    from runtree import Runtime, SyncRuntime
    from tests.kit.agents import hold_open, lead, silent, user
    from tests.kit.gates import Gates

    gates = Gates(Path({folder!r}))
    tree = lead(user("warm", hold_open), user("cold", hold_open, reuse=False))
"""

_ASYNC = """
    async def main():
        async with Runtime(warm=2) as runtime:
            await runtime.warmed()
            run = await runtime.start(tree, "go", deps=gates)
            gates.open("started", run.run_id)
            async for item in run:
                pass

    asyncio.run(main())
"""

_SYNC = """
    with SyncRuntime(warm=0) as runtime:
        result = runtime.run(silent_then(), "go")
        print(result.output, flush=True)
        for item in runtime.start(silent_then(), "go"):
            print(item.kind, flush=True)
        run = runtime.start(tree, "go", deps=gates)
        gates.open("started", run.run_id)
        for item in run:
            pass
"""


def pids(gates: Gates) -> list[int]:
    return [int(gates.content(name)) for name in gates.names("hold_open-")]


async def both_hold(gates: Gates) -> None:
    await eventually(lambda: len(gates.names("hold_open-")) == 2, 40)


@pytest.mark.parametrize(
    "end",
    [pytest.param(signal.SIGKILL, id="SIGKILL"), pytest.param(signal.SIGTERM, id="SIGTERM", marks=pytest.mark.long)],
)
async def test_y09_y12_s5_killed_driver_takes_its_tree_and_nothing_else(
    runtime: Runtime, gates: Gates, tmp_path: Path, ray_environment: dict[str, str], end: signal.Signals
) -> None:
    before = ray_state.named_actors()
    (tmp_path / "mine").mkdir()
    mine = Gates(tmp_path / "mine")
    own = await runtime.start(lead(user("holder", hold)), "go", deps=mine)
    await mine.passed("hold")
    with driver(_TREE.format(folder=str(gates.folder)) + _ASYNC, tmp_path, ray_environment) as process:
        run_id = await gates.passed("started", 40)
        await both_hold(gates)
        assert run_id in {info.run_id for info in await runtime.runs()}, "one namespace, one supervisor"
        victims = pids(gates)
        process.send_signal(end)
        await exit_code(process)
    await eventually(lambda: not any(is_alive(pid) for pid in victims))
    # This driver's pool may have changed meanwhile.
    still = ("holder", "lead", *(name.replace("queue:", "run:warm:")[:-1] for name in before if "queue:" in name))
    await eventually(
        lambda: {name for name in ray_state.named_actors() if not any(word in name for word in still)} <= before
    )
    mine.open("go")
    items = [item async for item in own]
    check_stream(items)
    assert (await own.result()).output == "done"

    async def ended() -> bool:
        return run_id not in {info.run_id for info in await runtime.runs()}

    await eventually(ended, 20)
    [root] = [info for info in await runtime.runs(all=True) if info.run_id == run_id]
    assert root.error is not None
    # Ray makes SIGTERM an ordinary exit, which may have left time to cancel.
    assert root.error.code in (("lost",) if end == signal.SIGKILL else ("lost", "cancelled"))


async def test_c10_interrupt_cancels_prints_and_ends(
    runtime: Runtime, gates: Gates, tmp_path: Path, ray_environment: dict[str, str]
) -> None:
    with driver(_TREE.format(folder=str(gates.folder)) + _ASYNC, tmp_path, ray_environment) as process:
        run_id = await gates.passed("started", 40)
        await both_hold(gates)
        process.send_signal(signal.SIGINT)
        # A shell shows an end by this signal as 130.
        assert await exit_code(process) in (130, -signal.SIGINT)
    told = (tmp_path / "stderr").read_text()
    assert f"cancelled {run_id}" in told
    assert "tokens" in told
    statuses = {info.status for info in await runtime.runs(all=True) if info.root_run_id == run_id}
    assert statuses == {"cancelled"}
    await eventually(lambda: not any(is_alive(pid) for pid in pids(gates)))


async def test_c10_sync_runtime_in_a_plain_script(
    runtime: Runtime, gates: Gates, tmp_path: Path, ray_environment: dict[str, str]
) -> None:
    source = _TREE.format(folder=str(gates.folder)).replace("silent, user", "leaf, user") + _SYNC.replace(
        "silent_then()", "leaf()"
    )
    with driver(source, tmp_path, ray_environment) as process:
        run_id = await gates.passed("started", 40)
        await both_hold(gates)
        process.send_signal(signal.SIGINT)
        assert await exit_code(process) in (130, -signal.SIGINT)
    lines = (tmp_path / "stdout").read_text().split("\n")
    assert lines[0] == "from leaf"
    assert lines[1] == "run_started"
    assert "run_completed" in lines
    told = (tmp_path / "stderr").read_text()
    assert f"cancelled {run_id}" in told
    assert {info.status for info in await runtime.runs(all=True) if info.root_run_id == run_id} == {"cancelled"}


_QUIET = """
    async def main():
        async with Runtime(warm=0) as runtime:
            read = await runtime.start(leaf("a", *["x"] * 5000), "go")
            async for item in read:
                break
            unread = await runtime.start(leaf("b"), "go")
            await unread.result()
            live = await runtime.start(silent(), "go")
            async for item in live:
                if item.kind == "model_delta":
                    break
        return read, unread, live

    handles = asyncio.run(main())
    print(*(handle.status for handle in handles))
"""


async def test_leaving_a_runtime_is_quiet(tmp_path: Path, gates: Gates, ray_environment: dict[str, str]) -> None:
    """Handles that outlive their Runtime, streams that were read in part or not at all: nothing to complain about."""
    source = _TREE.format(folder=str(gates.folder)).replace("lead, silent", "lead, leaf, silent") + _QUIET
    with driver(source, tmp_path, ray_environment) as process:
        assert await exit_code(process) == 0, (tmp_path / "stderr").read_text()
    assert (tmp_path / "stdout").read_text() == "completed completed cancelled\n"
    told = (tmp_path / "stderr").read_text().splitlines()
    assert [line for line in told if "Traceback" in line or "never" in line or "rror" in line] == []


_KEYED = """
    from runtree import Agent
    from runtree.providers.chat.model import OpenAIChat
    from runtree.providers.chat.dialects import OPENAI

    async def main():
        async with Runtime(warm=1) as runtime:
            model = OpenAIChat("m", base_url={url!r}, profile=OPENAI)
            result = await runtime.run(lead(Agent("asker", model)), "go")
            print(result.output, [record.status for record in result.runs])

    asyncio.run(main())
"""


async def test_y11_key_of_the_driver_reaches_the_actor_and_no_file(
    tmp_path: Path, gates: Gates, loopback: Loopback, ray_environment: dict[str, str]
) -> None:
    answer = (
        '{"choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}]}'
    )
    route = await loopback.route(body(answer))
    source = _TREE.format(folder=str(gates.folder)) + _KEYED.format(url=route.base_url)
    with driver(source, tmp_path, {**ray_environment, "OPENAI_API_KEY": _KEY}) as process:
        assert await exit_code(process) == 0, (tmp_path / "stderr").read_text()
    assert (tmp_path / "stdout").read_text() == "done ['completed', 'completed']\n"
    [request] = await route.requests()
    assert request["headers"]["authorization"] == f"Bearer {_KEY}"
    holding = [
        path for path in ray_state.session_folder().rglob("*") if path.is_file() and _KEY.encode() in path.read_bytes()
    ]
    assert holding == []
    assert not [record for record in ray_state.records() if _KEY in record]


async def test_y11_address_where_nothing_listens(tmp_path: Path) -> None:
    source = """
        import asyncio
        from runtree import AddressError, Runtime

        async def main():
            try:
                async with Runtime():
                    print("joined")
            except AddressError as error:
                print(error)

        asyncio.run(main())
    """
    with driver(source, tmp_path, {"RAY_ADDRESS": "127.0.0.1:9"}) as process:
        assert await exit_code(process) == 0, (tmp_path / "stderr").read_text()
    assert "127.0.0.1:9" in (tmp_path / "stdout").read_text()
