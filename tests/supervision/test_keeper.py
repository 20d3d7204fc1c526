"""S6: changes are committed in groups, and nobody is answered before the commit that holds his change."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from runtree.actors.supervision import keeper as module
from runtree.actors.supervision.changes import Changes
from runtree.actors.supervision.keeper import Keeper
from runtree.actors.supervision.saved import Batch
from runtree.messages.errors import InternalError, StoreError
from tests.kit.eventually import eventually

FAULT = StoreError("store.db", "disk is full", "Free space")


class Disk:
    """Takes batches one by one, when it is let."""

    def __init__(self) -> None:
        self.changes = Changes()
        self.keeper = Keeper(self.changes, self.write, "store.db")
        self.gate = threading.Semaphore(0)
        self.written: list[list[str]] = []
        self.begun = 0
        self.error: Exception | None = None

    def write(self, batch: Batch) -> None:
        self.begun += 1
        assert self.gate.acquire(timeout=30)
        if self.error is not None:
            raise self.error
        self.written.append(batch.forgotten_drivers)

    def change(self, name: str) -> "asyncio.Task[None]":
        self.changes.forgotten_drivers.append(name)
        return asyncio.ensure_future(self.keeper.saved())


@pytest.fixture
async def disk() -> AsyncIterator[Disk]:
    disk = Disk()
    yield disk
    disk.gate.release(100)
    await disk.keeper.aclose()


async def test_s6_what_comes_while_a_commit_is_in_flight_is_the_next_one(disk: Disk) -> None:
    first = disk.change("a")
    await eventually(lambda: disk.begun == 1)
    others = [disk.change(name) for name in "bcd"]
    unchanged = asyncio.ensure_future(disk.keeper.saved())
    await asyncio.sleep(0)
    assert not first.done()
    disk.gate.release()
    await first
    assert not any(other.done() for other in others)
    disk.gate.release()
    await asyncio.gather(*others, unchanged)
    assert disk.written == [["a"], ["b", "c", "d"]]
    assert disk.keeper.commits == 2
    await disk.keeper.saved()
    assert disk.keeper.commits == 2, "nothing has changed"


async def test_s6_a_repeated_call_waits_for_the_commit_of_the_first(disk: Disk) -> None:
    first = disk.change("a")
    await eventually(lambda: disk.begun == 1)
    repeated = asyncio.ensure_future(disk.keeper.saved())
    await asyncio.sleep(0)
    assert not repeated.done()
    disk.gate.release()
    await asyncio.gather(first, repeated)
    assert disk.keeper.commits == 1


async def test_s6_everybody_hears_of_a_failed_commit_and_the_next_one_has_its_changes(disk: Disk) -> None:
    disk.error = FAULT
    disk.gate.release()
    answers = await asyncio.gather(disk.change("a"), disk.change("b"), return_exceptions=True)
    assert list(answers) == [FAULT, FAULT]
    disk.error = ValueError("a bug")
    disk.gate.release()
    with pytest.raises(InternalError, match="a bug"):
        await disk.change("c")
    disk.error = None
    disk.gate.release()
    await disk.keeper.saved()
    assert disk.written == [["a", "b", "c"]]


async def test_s6_a_disk_that_hangs_keeps_nobody_for_ever(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMMIT_SECONDS", 0.01)
    with pytest.raises(StoreError, match="no commit within"):
        await disk.change("a")
    disk.gate.release()
    monkeypatch.undo()
    await disk.keeper.saved()
    assert disk.written == [["a"]]


async def test_s6_who_gives_up_waiting_does_not_stop_the_commit(disk: Disk) -> None:
    first = disk.change("a")
    await eventually(lambda: disk.begun == 1)
    first.cancel()
    disk.gate.release()
    await disk.keeper.saved()
    assert disk.written == [["a"]]
