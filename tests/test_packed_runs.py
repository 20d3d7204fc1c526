"""Packed runs: jobs of one actor in one call, what they share sent once, ends collected as they come, also when calls are lost and repeated."""

import asyncio
import gc
import pickle
import weakref
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtree.actors.jobs import JobSlip, Keys, RunEnd, RunJob, TreeContext
from runtree.actors.packed_runs import PackedRuns
from runtree.actors.run_channel import RunChannel
from runtree.actors.stream.lanes import Bounds
from runtree.actors.variables import StoredVariable
from runtree.messages.control import Admitted, LaneAddress
from runtree.messages.errors import InternalError, RuntimeUnavailableError, UnknownRunError
from runtree.messages.items import Stamp
from runtree.messages.limits import Limits
from tests.kit.eventually import eventually
from tests.kit.lanes import soon

POLL = 20.0
TREE = TreeContext("driver", "test", "1", b"agents" * 1000, b"deps", {}, Bounds(), 1.0)
KEYS = Keys({})


def job(name: str, root: str = "root", attempt: int = 1) -> RunJob:
    stamp = Stamp(run_id=name, parent_run_id=root, root_run_id=root, depth=1, attempt=attempt)
    lane = LaneAddress(queue="q", lane=root)
    return RunJob(TREE, Admitted(stamp=stamp, lane=lane, limits=Limits(), actor_name="a", shared=True), "worker", b"")


class Variables(dict[str, StoredVariable]):
    """Can be referred to weakly."""


class Actor:
    """An actor that executes runs when it is let, behind a wire that loses answers and pickles what passes.

    Args:
        lost: Numbers of the calls whose answer is lost; they are made again, as the shell around a channel does.
        rest: Seconds for which it keeps what a tree shares while no run is at work.
    """

    def __init__(self, *lost: int, rest: float = 60.0) -> None:
        self.executed: list[tuple[str, int]] = []
        self.calls: list[tuple[str, int]] = []
        self.contexts = 0
        self.dead = asyncio.Event()
        self.free = asyncio.Event()
        self.slow: set[str] = set()
        self.failing: set[str] = set()
        self._lost = set(lost)
        self.runs = PackedRuns(self._execute, rest)

    @property
    def kept(self) -> bool:
        """Whether it has what its tree shares."""
        return self.runs.start("asks", "root", [], None, None)

    async def _execute(self, job: RunJob, keys: Keys) -> RunEnd:
        assert keys == KEYS
        assert job.tree == TREE
        stamp = job.admitted.stamp
        self.executed.append((stamp.run_id, stamp.attempt))
        if stamp.run_id in self.slow:
            await self.free.wait()
        if stamp.run_id in self.failing:
            raise UnknownRunError(stamp.run_id, "test")
        return RunEnd(f"{stamp.run_id}/{stamp.attempt}", reusable=True)

    async def call(self, method: str, *args: Any) -> Any:
        while True:
            number = len(self.calls)
            self.calls.append((method, len(args[2]) if method == "start_runs" else 0))
            passed = pickle.loads(pickle.dumps(args))
            answering = asyncio.ensure_future(self._answer(method, *passed))
            dying = asyncio.ensure_future(self.dead.wait())
            await asyncio.wait({answering, dying}, return_when=asyncio.FIRST_COMPLETED)
            dying.cancel()
            if self.dead.is_set():
                answering.cancel()
                raise RuntimeUnavailableError("run actor", "it was killed", "Start it again")
            if number not in self._lost:
                return pickle.loads(pickle.dumps(await answering))

    async def _answer(self, method: str, *args: Any) -> Any:
        await asyncio.sleep(0)
        if method == "collect_ends":
            caller, tree_id, seen = args
            return await self.runs.collect(caller, tree_id, seen, POLL)
        self.contexts += args[3] is not None
        return self.runs.start(*args)


def channel(actor: Actor, root: str = "root") -> RunChannel:
    return RunChannel(actor.call, root)


def result(name: str, attempt: int = 1) -> RunEnd:
    return RunEnd(f"{name}/{attempt}", reusable=True)


async def test_a_thousand_jobs_take_few_calls_and_send_what_they_share_once() -> None:
    actor = Actor()
    ends = channel(actor)
    names = [f"r{number}" for number in range(1000)]
    assert await soon(asyncio.gather(*(ends.run(job(name), KEYS) for name in names))) == [
        result(name) for name in names
    ]
    assert actor.contexts == 1
    assert len(actor.calls) < 60
    assert len(actor.executed) == 1000
    assert ends.idle


async def test_an_end_does_not_wait_for_others() -> None:
    actor = Actor()
    ends = channel(actor)
    actor.slow.add("slow")
    slow = asyncio.ensure_future(ends.run(job("slow"), KEYS))
    assert await soon(ends.run(job("quick"), KEYS)) == result("quick")
    assert not slow.done()
    actor.free.set()
    assert await soon(slow) == result("slow")


async def test_a_run_that_raises_is_the_error_of_its_caller_only() -> None:
    actor = Actor()
    actor.failing.add("bad")
    ends = channel(actor)
    good, bad = await soon(
        asyncio.gather(ends.run(job("good"), KEYS), ends.run(job("bad"), KEYS), return_exceptions=True)
    )
    assert good == result("good")
    assert isinstance(bad, UnknownRunError)


async def test_a_dead_actor_fails_the_callers_of_all_its_runs() -> None:
    actor = Actor()
    actor.slow |= {f"r{number}" for number in range(5)}
    ends = channel(actor)
    runs = [asyncio.ensure_future(ends.run(job(f"r{number}"), KEYS)) for number in range(5)]
    await eventually(lambda: len(actor.executed) == 5)
    late = asyncio.ensure_future(ends.run(job("late"), KEYS))
    actor.dead.set()
    errors = await soon(asyncio.gather(*runs, late, return_exceptions=True))
    assert all(isinstance(error, RuntimeUnavailableError) for error in errors)
    assert len({id(error) for error in errors}) == 6
    assert ends.idle


async def test_a_caller_that_gives_up_takes_nobody_along() -> None:
    actor = Actor()
    actor.slow |= {"first", "second"}
    ends = channel(actor)
    first, second = (asyncio.ensure_future(ends.run(job(name), KEYS)) for name in ("first", "second"))
    await eventually(lambda: len(actor.executed) == 2)
    first.cancel()
    actor.free.set()
    assert await soon(second) == result("second")


async def test_an_actor_that_forgot_a_tree_is_told_again_what_its_runs_share() -> None:
    actor = Actor(rest=0.0)
    ends = channel(actor)
    await soon(ends.run(job("first"), KEYS))
    await eventually(lambda: not actor.kept)
    assert await soon(ends.run(job("again"), KEYS)) == result("again")
    assert actor.contexts == 2


async def test_what_a_tree_shares_is_kept_while_a_run_is_at_work_and_let_go_after_the_last() -> None:
    actor = Actor(rest=0.0)
    ends = channel(actor)
    actor.slow.add("slow")
    slow = asyncio.ensure_future(ends.run(job("slow"), KEYS))
    await soon(ends.run(job("quick"), KEYS))
    await soon(ends.run(job("next"), KEYS))
    assert actor.kept
    assert actor.contexts == 1
    actor.free.set()
    await soon(slow)
    await eventually(lambda: not actor.kept)


async def test_a_start_that_is_repeated_after_its_runs_have_ended_keeps_nothing() -> None:
    actor = Actor(rest=0.0)
    slips = [_slip(job("r"))]
    assert actor.runs.start("caller", "root", slips, TREE, KEYS)
    await eventually(lambda: not actor.kept)
    assert actor.runs.start("caller", "root", slips, TREE, KEYS)
    await eventually(lambda: not actor.kept)
    assert actor.executed == [("r", 1)]


async def test_a_channel_whose_runs_have_ended_does_not_keep_what_they_share() -> None:
    actor = Actor()
    ends = channel(actor)
    variables = Variables()
    alive = weakref.ref(variables)
    await soon(ends.run(replace(job("r"), tree=replace(TREE, variables=variables)), KEYS))
    del variables
    await eventually(lambda: ends.idle)
    gc.collect()
    assert alive() is None


async def test_ends_are_kept_until_they_are_acknowledged_and_a_newer_poll_ends_an_older() -> None:
    actor = Actor()
    channel_job = job("r")
    actor.runs.start("caller", "root", [_slip(channel_job)], TREE, KEYS)
    first = await soon(actor.runs.collect("caller", "root", 0, POLL))
    again = await soon(actor.runs.collect("caller", "root", 0, POLL))
    assert [ended.run_id for ended in first.ends] == ["r"]
    assert again == first
    older = asyncio.ensure_future(actor.runs.collect("caller", "root", first.version, POLL))
    await asyncio.sleep(0)
    newer = asyncio.ensure_future(actor.runs.collect("caller", "root", first.version, POLL))
    assert not (await soon(older)).ends
    actor.runs.start("caller", "root", [_slip(job("s"))], None, None)
    assert [ended.run_id for ended in (await soon(newer)).ends] == ["s"]


async def test_a_poll_where_nothing_was_started_is_refused() -> None:
    with pytest.raises(InternalError):
        await Actor().runs.collect("caller", "root", 0, POLL)


@given(
    lost=st.sets(st.integers(0, 12), max_size=6),
    turns=st.lists(st.integers(0, 5), min_size=1, max_size=30),
    attempts=st.integers(1, 2),
)
def test_s6_calls_that_are_repeated_start_nothing_twice_and_lose_no_end(
    lost: set[int], turns: list[int], attempts: int
) -> None:
    async def check() -> None:
        actor = Actor(*lost)
        ends = channel(actor)
        runs: list[asyncio.Future[RunEnd]] = []
        expected: list[RunEnd] = []
        for number, pause in enumerate(turns):
            for attempt in range(1, attempts + 1):
                runs.append(asyncio.ensure_future(ends.run(job(f"r{number}", attempt=attempt), KEYS)))
                expected.append(result(f"r{number}", attempt))
            for _ in range(pause):
                await asyncio.sleep(0)
        assert await asyncio.gather(*runs) == expected
        assert sorted(actor.executed) == sorted(set(actor.executed))

    asyncio.run(asyncio.wait_for(check(), 20))


def _slip(job: RunJob) -> JobSlip:
    return JobSlip.of(job)
