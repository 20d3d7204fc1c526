"""S11: what runs leave behind in a process makes it unfit for others, and is named."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio.to_thread
import pytest

from runtree.actors.wear import GROWTH, Wear
from tests.kit.eventually import eventually


@contextmanager
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process


@contextmanager
def thread(name: str) -> Iterator[None]:
    done = threading.Event()
    work = threading.Thread(target=done.wait, name=name)
    work.start()
    try:
        yield
    finally:
        done.set()
        work.join()


def test_s11_a_process_that_was_left_as_it_was() -> None:
    wear = Wear()
    with child(), thread("passing"):
        pass
    assert wear.reason() is None


def test_s11_changed_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTREE_KEPT", "as it was")
    wear = Wear()
    monkeypatch.setenv("RUNTREE_NEW", "secret")
    monkeypatch.setenv("RUNTREE_KEPT", "secret")
    reason = wear.reason(alone=False)
    assert reason == "environment variables were changed: RUNTREE_KEPT, RUNTREE_NEW", "names only"
    monkeypatch.undo()
    os.environ["RUNTREE_GONE"] = "x"
    wear = Wear()
    del os.environ["RUNTREE_GONE"]
    assert wear.reason() == "environment variables were changed: RUNTREE_GONE"


def test_s11_changed_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wear = Wear()
    monkeypatch.chdir(tmp_path)
    assert wear.reason(alone=False) == f"the working directory was changed to {tmp_path}"


def test_s11_removed_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    wear = Wear()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert wear.reason() == "the working directory was changed to a folder that was removed"


def test_s11_child_processes() -> None:
    with child():
        wear = Wear()
        assert wear.reason() is None, "it was there before"
        with child() as another:
            assert wear.reason() == f"child processes were left: {another.pid}"
            assert wear.reason(alone=False) is None, "it may be another run's"


def test_s11_a_child_that_has_ended_is_none() -> None:
    wear = Wear()
    with child() as process:
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert wear.reason() is None


def test_s11_threads() -> None:
    with thread("before"):
        wear = Wear()
        with thread("collector"):
            assert wear.reason() == "threads were left: collector"
            assert wear.reason(alone=False) is None
        with thread("runtree prices"):
            assert wear.reason() is None, "ours end by themselves"


async def test_s11_threads_of_executors_count_only_at_work() -> None:
    wear = Wear()
    done, begun = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        done.wait()

    await asyncio.gather(*(asyncio.to_thread(int) for _ in range(3)), anyio.to_thread.run_sync(int))
    busy = asyncio.ensure_future(asyncio.to_thread(work))
    await asyncio.to_thread(begun.wait)
    assert str(wear.reason()).startswith("threads were left: asyncio_")
    done.set()
    await busy
    await eventually(lambda: wear.reason() is None)


def test_s11_memory() -> None:
    wear = Wear(growth=8 * 2**20)
    small = bytearray(2**20)
    assert wear.reason() is None
    large = bytearray(os.urandom(2**20) * 32)
    assert str(wear.reason()).startswith("memory grew by ")
    assert Wear(growth=8 * 2**20).reason() is None
    assert len(small) + len(large) < GROWTH
