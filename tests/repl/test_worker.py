"""The sandbox process: its death, and that it never outlives its owner."""

import asyncio
import importlib
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from runtree.actors.repl import worker
from runtree.messages import ConfigurationError, ReplWorkerError
from tests.kit.eventually import eventually
from tests.repl.sessions import SPIN, Bench, good, only, sandboxes, spinning, stopped, values

_psutil: Any = importlib.import_module("psutil")


@pytest.mark.parametrize("code", [SPIN, "await tool_call('hang')"])
async def test_e10_a_worker_killed_while_it_evaluates(code: str) -> None:
    bench = Bench()
    async with bench.session() as session:
        await good(session, "x = 1")
        pid = only(sandboxes())
        cell = await spinning(bench, session, code)
        if "hang" in code:
            await bench.hung.wait()
        os.kill(pid, signal.SIGKILL)
        bench.released.set()
        error = await stopped(cell)
        assert isinstance(error, ReplWorkerError)
        assert error.result.variables_kept
        assert not _psutil.pid_exists(pid)
        assert await values(session, "x") == [1]
        assert len(sandboxes()) == 1


async def test_e10_a_worker_killed_between_cells() -> None:
    async with Bench().session() as session:
        await good(session, "x = 1")
        os.kill(only(sandboxes()), signal.SIGKILL)
        assert isinstance(await stopped(session.eval_cell("x = 2")), ReplWorkerError)
        assert await values(session, "x") == [1]
    assert not sandboxes()


async def test_the_error_survives_in_words() -> None:
    async with Bench().session() as session:
        await good(session, "x = 1")
        os.kill(only(sandboxes()), signal.SIGKILL)
        error = await stopped(session.eval_cell("1"))
        assert error.failure().code == "lost"
        assert "the cell was stopped: " in str(error)


OWNER = """
import asyncio, sys
from runtree.actors.repl.plain import PlainHost
from runtree.actors.repl.session import ReplSession
from runtree.messages import ReplPolicy

async def main():
    async with ReplSession(PlainHost(), policy=ReplPolicy(cell_time=1)) as session:
        await session.eval_cell("1")
        print(session._worker.pid, flush=True)
        await session.eval_cell(sys.argv[1])
        await asyncio.sleep(100)

asyncio.run(main())
"""


@pytest.mark.parametrize("code", ["1", SPIN, "import time\ntime.sleep(100)"])
async def test_a_worker_ends_when_its_owner_is_killed(code: str) -> None:
    owner = await asyncio.create_subprocess_exec(sys.executable, "-c", OWNER, code, stdout=subprocess.PIPE)
    assert owner.stdout is not None
    pid = int(await owner.stdout.readline())
    owner.kill()
    await owner.wait()
    await eventually(lambda: not _runs(pid), 30)


def _runs(pid: int) -> bool:
    try:
        return bool(_psutil.Process(pid).status() != _psutil.STATUS_ZOMBIE)
    except _psutil.NoSuchProcess:
        return False


async def test_without_the_sandbox_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    async with Bench().session() as session:
        with pytest.raises(ConfigurationError, match=r"pip install 'runtree\[repl\]'"):
            await session.eval_cell("1")


def test_the_program_is_found_where_its_package_was_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MONTY_BIN", raising=False)
    found = worker._binary()
    assert found is not None
    assert os.access(found, os.X_OK)
