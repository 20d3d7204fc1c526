"""Natural batching of small calls: order, answers and errors of each, one call in flight, nobody hurt by another's cancel."""

import asyncio
import pickle
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtree.actors.batcher import Batcher
from runtree.actors.supervision.desk import Answer, Call, Desk
from runtree.messages.control import AdmitRequest, ChildRequest, EndReport, RunReport
from runtree.messages.errors import InternalError, RuntimeUnavailableError, UnknownRunError
from runtree.messages.usage import Totals
from tests.kit.lanes import soon
from tests.supervision.world import DRIVER, World, spent


class Wire:
    """Answers a request with its double, after some turns of the loop; refuses negative ones, and fails whole calls if it is told to."""

    def __init__(self, delays: Sequence[int] = (), failing: Sequence[int] = ()) -> None:
        self.calls: list[list[int]] = []
        self.hold: asyncio.Event | None = None
        self._delays, self._failing = list(delays), set(failing)
        self._in_flight = 0

    async def send(self, requests: Sequence[int]) -> Sequence[int | Exception]:
        self._in_flight += 1
        assert self._in_flight == 1, "two calls in flight"
        number = len(self.calls)
        self.calls.append(list(requests))
        try:
            if self.hold is not None:
                await self.hold.wait()
            for _ in range(self._delays[number % len(self._delays)] if self._delays else 1):
                await asyncio.sleep(0)
        finally:
            self._in_flight -= 1
        if number in self._failing:
            raise RuntimeUnavailableError("wire", f"call {number} failed", "Try again")
        return [request * 2 if request >= 0 else UnknownRunError(str(request), "test") for request in requests]


def batcher(wire: Wire, *, size: int = 1, max_requests: int = 512, max_bytes: int = 1000) -> Batcher[int, int]:
    return Batcher(wire.send, lambda _: size, max_requests=max_requests, max_bytes=max_bytes)


async def test_what_is_asked_at_once_leaves_together_and_the_rest_while_it_is_in_flight() -> None:
    wire = Wire()
    wire.hold = asyncio.Event()
    asked = batcher(wire)
    first = [asyncio.ensure_future(asked.ask(number)) for number in range(3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert wire.calls == [[0, 1, 2]]
    later = [asyncio.ensure_future(asked.ask(number)) for number in range(3, 10)]
    await asyncio.sleep(0)
    assert len(wire.calls) == 1
    wire.hold.set()
    assert await soon(asyncio.gather(*first, *later)) == [number * 2 for number in range(10)]
    assert wire.calls[1:] == [[3, 4, 5, 6, 7, 8, 9]]


async def test_each_asker_gets_its_own_error() -> None:
    asked = batcher(Wire())
    answers = await soon(asyncio.gather(*(asked.ask(number) for number in (1, -2, 3)), return_exceptions=True))
    assert answers[0] == 2
    assert isinstance(answers[1], UnknownRunError)
    assert answers[1].args[0] == "-2"
    assert answers[2] == 6


async def test_a_failed_call_is_the_error_of_all_in_it_and_of_nobody_else() -> None:
    asked = batcher(Wire(failing=[0]))
    lost = await soon(asyncio.gather(asked.ask(1), asked.ask(2), return_exceptions=True))
    assert all(isinstance(error, RuntimeUnavailableError) for error in lost)
    assert lost[0] is not lost[1]
    assert await soon(asked.ask(3)) == 6


async def test_a_cancelled_asker_is_left_out_and_takes_nobody_along() -> None:
    wire = Wire()
    wire.hold = asyncio.Event()
    asked = batcher(wire)
    tasks = [asyncio.ensure_future(asked.ask(number)) for number in range(2)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert wire.calls == [[0, 1]]
    tasks += [asyncio.ensure_future(asked.ask(number)) for number in range(2, 5)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    tasks[3].cancel()
    wire.hold.set()
    answers = await soon(asyncio.gather(*tasks, return_exceptions=True))
    assert [answers[index] for index in (1, 2, 4)] == [2, 4, 8]
    assert all(isinstance(answers[index], asyncio.CancelledError) for index in (0, 3))
    assert wire.calls == [[0, 1], [2, 4]]


async def test_batches_are_bounded_in_requests_and_bytes() -> None:
    wire = Wire()
    asked = batcher(wire, max_requests=4)
    await soon(asyncio.gather(*(asked.ask(number) for number in range(10))))
    assert [len(call) for call in wire.calls] == [4, 4, 2]
    wire = Wire()
    asked = batcher(wire, size=400)
    await soon(asyncio.gather(*(asked.ask(number) for number in range(5))))
    assert [len(call) for call in wire.calls] == [2, 2, 1]
    wire = Wire()
    asked = batcher(wire, size=5000)
    await soon(asyncio.gather(*(asked.ask(number) for number in range(2))))
    assert [len(call) for call in wire.calls] == [1, 1]


async def test_an_answer_too_few_is_an_error_and_not_a_wait() -> None:
    async def send(_: Sequence[int]) -> Sequence[int]:
        return []

    asked: Batcher[int, int] = Batcher(send, lambda _: 1)
    with pytest.raises(InternalError):
        await soon(asked.ask(1))


@given(
    producers=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    delays=st.lists(st.integers(0, 4), min_size=1, max_size=5),
    failing=st.sets(st.integers(0, 8), max_size=3),
    cancelled=st.sets(st.tuples(st.integers(0, 4), st.integers(0, 6)), max_size=3),
    max_requests=st.integers(1, 4),
)
def test_order_of_each_producer_and_answers_survive_any_interleaving(
    producers: list[int],
    delays: list[int],
    failing: set[int],
    cancelled: set[tuple[int, int]],
    max_requests: int,
) -> None:
    async def check() -> None:
        wire = Wire(delays, sorted(failing))
        asked = batcher(wire, max_requests=max_requests)

        async def produce(producer: int, count: int) -> None:
            asks: list[asyncio.Task[int]] = []
            for number in range(count):
                asks.append(asyncio.ensure_future(asked.ask(producer * 100 + number)))
                for _ in range(delays[(producer + number) % len(delays)]):
                    await asyncio.sleep(0)
                if (producer, number) in cancelled:
                    asks[-1].cancel()
            answers = await asyncio.gather(*asks, return_exceptions=True)
            for number, answer in enumerate(answers):
                assert answer == (producer * 100 + number) * 2 or isinstance(
                    answer, RuntimeUnavailableError | asyncio.CancelledError
                )
                if isinstance(answer, asyncio.CancelledError):
                    assert (producer, number) in cancelled

        await soon(asyncio.gather(*(produce(producer, count) for producer, count in enumerate(producers))))
        sent = [request for call in wire.calls for request in call]
        for producer, count in enumerate(producers):
            own = [request for request in sent if request // 100 == producer]
            assert own == sorted(set(own))
            assert {producer * 100 + n for n in range(count) if (producer, n) not in cancelled} <= set(own)

    asyncio.run(check())


def admission(name: str, parent: str | None = None, number: int = 1) -> Call:
    request = AdmitRequest(
        driver_id=DRIVER,
        parent_run_id=parent,
        number=number,
        children=(ChildRequest(run_id=name, agent="agent"),),
    )
    return ["admit", request.to_json()]


def ended(name: str, number: int, tokens: int) -> Call:
    report = EndReport(run_id=name, attempt=1, number=number, status="completed", **spent(tokens))
    return ["end", report.to_json()]


def used(name: str, number: int, tokens: int) -> Call:
    return ["report", RunReport(run_id=name, attempt=1, number=number, **spent(tokens)).to_json()]


def answers_of(world: World, *calls: Call) -> list[Answer]:
    return Desk(world.registry, lambda: world.now).answer(calls)


def test_a_batch_is_carried_out_in_order_and_answered_call_by_call() -> None:
    world = World()
    answers = answers_of(
        world,
        admission("root"),
        ["begin", "root", 1],
        admission("child", "root"),
        ["begin", "nobody", 1],
        ["no_such_method"],
        used("child", 1, 5),
        ["totals", "root"],
        ended("child", 2, 7),
    )
    assert isinstance(answers[3], UnknownRunError)
    assert isinstance(answers[4], InternalError)
    assert isinstance(answers[6], str)
    assert Totals.from_json(answers[6]).total_usage.input_tokens == 5
    assert world.run("child").status == "completed"
    assert world.run("root").totals().total_usage.input_tokens == 7
    assert [type(answer) for answer in pickle.loads(pickle.dumps(answers))] == [type(answer) for answer in answers]


def test_a_lost_batch_that_is_repeated_whole_changes_nothing_more() -> None:
    once, twice = World(), World()
    calls = (
        ["offer", DRIVER, "warm"],
        admission("root"),
        ["begin", "root", 1],
        admission("child", "root"),
        used("child", 1, 5),
        used("root", 2, 3),
        ended("child", 2, 7),
        ["totals", "root"],
    )
    expected = answers_of(once, *calls)
    assert answers_of(twice, *calls)[:2] == expected[:2]
    assert answers_of(twice, *calls)[-1] == expected[-1]
    assert twice.registry.runs(ended=True) == once.registry.runs(ended=True)


def test_only_calls_that_end_runs_wake_those_who_wait_for_ends() -> None:
    assert not Desk.ends_runs([["begin", "root", 1], used("root", 1, 1)])
    assert Desk.ends_runs([["begin", "root", 1], ended("root", 1, 1)])
