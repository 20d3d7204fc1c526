"""The pool of warm actors: those that die are replaced, and none is started once it is closed. In place of Ray's actors, tasks."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from ray.exceptions import ActorDiedError

from runtree.actors.jobs import ProcessInfo
from runtree.actors.pool import Pool
from runtree.actors.supervisor_client import SupervisorClient
from runtree.messages.errors import InternalError
from tests.kit.eventually import eventually
from tests.kit.lanes import soon


class Method:
    """A method as Ray's handles have them."""

    def __init__(self, answer: Callable[..., Any]) -> None:
        self.remote = answer


class Process:
    """An actor that is ready at once and lives until it is told to die."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = asyncio.Event()
        self.start = Method(self._start)
        self.watch = Method(self._watch)

    async def _start(self, queues: Sequence[str]) -> ProcessInfo:
        return ProcessInfo("1", 1, "node")

    async def _watch(self, seconds: float) -> None:
        await self.dead.wait()
        raise ActorDiedError


class Supervisor:
    """The actor of a supervisor: it holds calls of `withdraw` until it is free, and fails them if it is to."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.free = asyncio.Event()
        self.failing = False
        self.batch = Method(self._batch)

    async def _batch(self, calls: Sequence[Sequence[Any]]) -> list[Any]:
        methods = [str(call[0]) for call in calls]
        self.calls += methods
        if "withdraw" not in methods:
            return [None] * len(calls)
        await self.free.wait()
        return [InternalError("broken") if self.failing else None] * len(calls)


class Node:
    """Where the actors of a pool are."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started: list[Process] = []
        self.killed: list[Process] = []
        self.supervisor = Supervisor()
        monkeypatch.setattr("runtree.actors.pool.start_run_actor", self._start)
        monkeypatch.setattr("runtree.actors.pool.kill", self.killed.append)
        monkeypatch.setattr("runtree.actors.pool._CALM_SECONDS", 0.0)

    def _start(self, name: str, *_: Any) -> Process:
        self.started.append(Process(name))
        return self.started[-1]

    def pool(self, size: int) -> Pool:
        return Pool(SupervisorClient(self.supervisor, "test"), "driver", ["queue"], size, 5.0)

    @property
    def living(self) -> list[Process]:
        return [each for each in self.started if each not in self.killed and not each.dead.is_set()]


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(monkeypatch)


async def idle(turns: int = 50) -> None:
    """Let everything that could happen happen."""
    for _ in range(turns):
        await asyncio.sleep(0)


async def test_an_actor_that_dies_is_replaced(node: Node) -> None:
    pool = node.pool(2)
    node.supervisor.free.set()
    pool.fill()
    await soon(pool.filled())
    node.started[0].dead.set()
    await eventually(lambda: len(node.living) == 2)
    await soon(pool.filled())
    assert node.supervisor.calls == ["offer", "offer", "withdraw", "offer"]
    await soon(pool.aclose())
    assert not node.living


async def test_a_supervisor_that_can_not_withdraw_an_actor_does_not_keep_it_from_being_replaced(node: Node) -> None:
    pool = node.pool(1)
    node.supervisor.free.set()
    node.supervisor.failing = True
    pool.fill()
    await soon(pool.filled())
    node.started[0].dead.set()
    await eventually(lambda: len(node.living) == 1)
    await soon(pool.aclose())


async def test_a_pool_that_is_closed_while_its_dead_are_withdrawn_starts_no_successors(node: Node) -> None:
    pool = node.pool(2)
    pool.fill()
    await soon(pool.filled())
    for process in node.started:
        process.dead.set()
    await eventually(lambda: "withdraw" in node.supervisor.calls)
    await soon(pool.aclose())
    node.supervisor.free.set()
    await idle()
    assert not node.living


@pytest.mark.parametrize(
    "late",
    [
        Pool.fill,
        Pool.refill,
        lambda pool: pool.start("run:shared", {}),
        lambda pool: pool.retire("run:warm:driver:1"),
    ],
    ids=["fill", "refill", "start", "retire"],
)
async def test_a_closed_pool_starts_nothing(node: Node, late: Callable[[Pool], None]) -> None:
    pool = node.pool(2)
    pool.fill()
    await soon(pool.filled())
    await soon(pool.aclose())
    late(pool)
    await idle()
    assert len(node.started) == 2
    assert not node.living


async def test_a_pool_that_is_closed_while_actors_start_ends_them(node: Node) -> None:
    pool = node.pool(3)
    pool.fill()
    pool.start("run:shared", {})
    await eventually(lambda: len(node.started) == 4)
    await soon(pool.aclose())
    await idle()
    assert len(node.started) == 4
    assert not node.living
