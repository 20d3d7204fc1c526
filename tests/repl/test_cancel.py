"""Stops from outside: the flag, a cancelled task, a closed session."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest

from runtree import CancelFlag
from runtree.actors.repl.plain import PlainHost
from runtree.messages import ReplCancelledError, ReplPolicy, ReplResult
from tests.repl.sessions import SPIN, Bench, good, only, sandboxes, spinning, stopped, values

PROMPT = 5.0
"""Seconds within which a stopped cell has ended on a machine that does other things too; its own bound is six times that."""


async def test_a_flag_can_be_awaited() -> None:
    flag = CancelFlag()
    waiter = asyncio.ensure_future(flag.wait())
    threading.Thread(target=flag.cancel, args=("from a thread",)).start()
    await flag
    await waiter
    assert flag.reason == "from a thread"


async def test_e01_a_flag_set_before_a_cell_lets_nothing_run() -> None:
    bench, flag = Bench(), CancelFlag()
    async with bench.session(cancelled=flag) as session:
        flag.cancel("enough")
        error = await stopped(session.eval_cell("await model_query('q')"))
        assert isinstance(error, ReplCancelledError)
        assert "enough" in str(error)
        assert session.cells == 0
        assert not bench.items
        assert not bench.model.requests
        assert not sandboxes()


@pytest.mark.parametrize(
    "code", [SPIN, "x = 0\nwhile True:\n  try:\n    x += 1\n  except BaseException: pass", "sum(range(10**12))"]
)
async def test_e02_a_loop_without_calls_is_stopped_promptly(code: str) -> None:
    bench, flag = Bench(), CancelFlag()
    async with bench.session(cancelled=flag) as session:
        await good(session, "kept = 'earlier'")
        cell = await spinning(bench, session, code)
        started = time.monotonic()
        flag.cancel("enough")
        error = await stopped(cell)
        assert time.monotonic() - started < PROMPT
        assert isinstance(error, ReplCancelledError)
        assert error.result.variables_kept
        assert "kept" in session.variables


async def test_e02_the_flag_stops_a_cell_while_the_event_loop_is_busy() -> None:
    bench, flag = Bench(), CancelFlag()
    async with bench.session(cancelled=flag) as session:
        cell = await spinning(bench, session)
        threading.Thread(target=flag.cancel).start()
        limit = time.monotonic() + PROMPT
        while sandboxes() and time.monotonic() < limit:  # no await: the loop is blocked
            pass
        assert not sandboxes()
        await stopped(cell)


@pytest.mark.parametrize(
    "code",
    [
        "await tool_call('hang')",
        "try:\n  await tool_call('hang')\nexcept BaseException:\n  answer('caught')",
        "import asyncio\nawait asyncio.gather(tool_call('hang'), tool_call('hang'))",
        "await tool_call_batched('hang', [{}, {}])",
    ],
)
async def test_e03_a_hanging_call_is_dropped_promptly(code: str) -> None:
    bench, flag = Bench(), CancelFlag()
    async with bench.session(cancelled=flag) as session:
        await good(session, "kept = 1")
        cell = asyncio.ensure_future(session.eval_cell(code))
        await bench.hung.wait()
        started = time.monotonic()
        flag.cancel("enough")
        error = await stopped(cell)
        assert time.monotonic() - started < PROMPT
        assert bench.dropped.is_set()
        assert {record.outcome for record in error.result.calls} == {"cancelled"}
        assert len([item for item in bench.calls if item.phase == "completed"]) == len(error.result.calls)
        assert not error.result.answered


async def test_e03_a_call_that_does_not_heed_the_stop_is_left_behind_and_completed() -> None:
    bench, stubborn, ended = Bench(), asyncio.Event(), asyncio.Event()

    async def ignore() -> None:
        """Take no notice."""
        bench.hung.set()
        while not stubborn.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await stubborn.wait()
        ended.set()

    bench.host = PlainHost(None, [ignore], bench.note)
    flag = CancelFlag()
    async with bench.session(cancelled=flag) as session:
        cell = asyncio.ensure_future(session.eval_cell("await tool_call('ignore')"))
        await bench.hung.wait()
        flag.cancel()
        error = await stopped(cell)
        assert only(error.result.calls).outcome == "cancelled"
        assert [item.phase for item in bench.calls] == ["started", "completed"]
        stubborn.set()
        await ended.wait()
    assert len(bench.calls) == 2


async def test_e03_a_cancelled_task_stops_its_cell_and_the_variables_are_as_before() -> None:
    bench = Bench()
    async with bench.session() as session:
        await good(session, "x = [1]\nfn = lambda a: a + 1")
        for code in (SPIN, "x.append(2)\nawait tool_call('hang')", "x = 5\nimport time\ntime.sleep(100)"):
            cell = await spinning(bench, session, code)
            cell.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cell
            after = await good(session, "x, fn(1)")
            assert (after.value, after.variables_changed) == ([[1], 2], ())


async def test_closing_stops_the_cell_that_runs() -> None:
    bench = Bench()
    session = bench.session()
    async with session:
        cell = await spinning(bench, session)
        await session.close()
        assert isinstance(await stopped(cell), ReplCancelledError)
    assert not sandboxes()


async def test_variables_that_are_too_large_to_copy_are_said_to_be_lost() -> None:
    bench = Bench()
    async with bench.session(inputs={"context": "a" * 20_000_000}) as session:
        await good(session, "x = 1")
        cell = await spinning(bench, session)
        cell.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cell
        after = await good(session, "len(context)")
        assert (after.value, after.variables_kept) == (20_000_000, False)
        result = await session.eval_cell("x")
        assert result.error is not None
        assert result.variables_kept
        assert set(session.variables) == {"context"}


async def test_a_stop_says_at_once_that_variables_are_lost() -> None:
    policy = ReplPolicy(output_bytes=10)
    async with Bench().session(policy, inputs={"context": "a" * 20_000_000}) as session:
        await good(session, "x = 1")
        error = await stopped(session.eval_cell("print('a' * 11)"))
        assert not error.result.variables_kept
        assert "lost" in str(error)
        error = await stopped(session.eval_cell("print('a' * 11)"))
        assert error.result.variables_kept


async def test_no_sandbox_is_left_after_200_cancelled_cells() -> None:
    bench = Bench()
    before = sandboxes()

    async def one(number: int) -> None:
        flag = CancelFlag()
        local = Bench()
        async with local.session(cancelled=flag) as session:
            cell = await spinning(local, session, SPIN if number % 2 else "await tool_call('hang')")
            flag.cancel()
            await stopped(cell)

    for start in range(0, 100, 4):
        await asyncio.gather(*(one(start + number) for number in range(4)))
    async with bench.session(ReplPolicy(cells=1000, tool_calls=1000)) as session:
        await good(session, "x = 1")
        for number in range(100):
            cell = await spinning(bench, session, SPIN if number % 2 else "await tool_call('hang')")
            cell.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cell
        assert await values(session, "x") == [1]
    assert sandboxes() == before


async def test_a_stop_at_any_moment_of_a_cell_is_a_stop() -> None:
    """Also while its variables are moved in, looked at, or copied."""
    bench = Bench()
    seen: set[str] = set()
    async with bench.session(ReplPolicy(cells=1000), inputs={"context": "a" * 3_000_000}) as session:
        await good(session, "x = list(range(20_000))")
        for number in range(60):
            cell = asyncio.ensure_future(session.eval_cell("y = x[1:]"))
            for _ in range(number):
                await asyncio.sleep(0)
            session._flag.cancel()
            found = only(await asyncio.gather(cell, return_exceptions=True))
            assert isinstance(found, ReplResult | ReplCancelledError)
            result = found if isinstance(found, ReplResult) else found.result
            assert result.variables_kept
            seen.add(type(found).__name__)
            session._flag = CancelFlag()
            assert await values(session, "len(x)") == [20_000]
    assert "ReplCancelledError" in seen


async def test_a_cancelled_scope_waits_for_the_thread_without_spinning(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, rounds = threading.Event(), 0
    wait = asyncio.wait

    async def counted(tasks: Any) -> Any:
        nonlocal rounds
        rounds += 1
        return await wait(tasks)

    session = Bench().session()
    with ThreadPoolExecutor(1) as thread, anyio.CancelScope() as scope:
        monkeypatch.setattr("runtree.actors.repl.session.asyncio.wait", counted)
        loop = asyncio.get_running_loop()
        loop.call_soon(scope.cancel)

        def later(left: int) -> None:
            if left:
                loop.call_soon(later, left - 1)
            else:
                gate.set()

        loop.call_soon(later, 100)
        await session._in_thread(thread, gate.wait)
    assert scope.cancelled_caught
    assert rounds <= 3


class Long(list[int]):
    """Takes long to go through."""

    LENGTH = 3_000_000

    def __init__(self, begun: Callable[[], object]) -> None:
        super().__init__()
        self.begun = begun
        self.taken = 0

    def __iter__(self) -> Iterator[int]:
        self.begun()
        while self.taken < self.LENGTH:
            self.taken += 1
            yield self.taken


async def test_a_session_that_is_cancelled_while_it_begins_gives_up_its_inputs() -> None:
    loop, scope = asyncio.get_running_loop(), anyio.CancelScope()
    numbers = Long(lambda: loop.call_soon_threadsafe(scope.cancel))
    with scope:
        async with Bench().session(inputs={"numbers": numbers}):
            raise AssertionError("it began")
    assert scope.cancelled_caught
    assert 0 < numbers.taken < Long.LENGTH
