"""Bounds on a model over a whole namespace, and pauses that its provider asks for (S10)."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtree.messages import Limits, ModelLimit
from runtree.messages.control import AdmitRequest, Admitted, ChildRequest, LimitOrder, PauseOrder
from runtree.messages.reservations import ThrottleReport

from .world import World, hello

MODEL = "acme:m1"


def limited(runs: int = 3, **limit: Any) -> World:
    """Trees r0, r1, ... of one driver with a limit on a model."""
    world = World(model_limits={MODEL: ModelLimit(**limit)})
    for number in range(runs):
        world.start(None, f"r{number}")
    return world


def throttle(world: World, seconds: float) -> None:
    """Have a provider ask for a pause."""
    world.registry.throttle(ThrottleReport(model=MODEL, seconds=seconds), world.now)


def test_s10_calls_at_once_are_bounded_over_all_trees() -> None:
    world = limited(concurrency=1)
    first = world.granted("r0", 10, model=MODEL)
    second, third = world.waits("r1", 10, model=MODEL), world.waits("r2", 10, model=MODEL)
    assert world.run("r1").info().waits_for == "model_limit"
    assert world.granted("r2", 10, model="acme:other")
    world.settle("r0", first)
    assert set(world.grants("r1")) == {second}
    assert world.grants("r2") == {}
    world.end("r1")
    assert set(world.grants("r2")) == {third}


@pytest.mark.parametrize("fate", ["lost", "killed", "driver gone"])
def test_s10_permits_end_with_their_holder(fate: str) -> None:
    world = limited(concurrency=1)
    world.registry.join(hello("two"), 0.0)
    _other(world, "two", "x")
    world.granted("r0", 10, model=MODEL)
    waiting = world.waits("x", 10, model=MODEL)
    if fate == "lost":
        world.lose("r0")
    elif fate == "killed":
        world.cancel("r0")
        world.condemned(world.now + 2)
        world.kill("r0")
    else:
        world.registry.leave("driver", 0.0, "gone")
    assert set(world.grants("x")) == {waiting}


def test_s10_requests_of_any_minute_are_bounded() -> None:
    world = limited(requests_per_minute=2)
    for now in (0.0, 20.0):
        world.advance(now)
        world.settle("r0", world.granted("r0", 10, model=MODEL))
    waiting = world.waits("r1", 10, model=MODEL)
    assert world.registry.next_time(20.0) == 60.0
    world.advance(59.9)
    assert world.grants("r1") == {}
    world.advance(60.0)
    assert set(world.grants("r1")) == {waiting}
    assert world.registry.next_time(60.0) is None


def test_s10_tokens_count_at_their_bound_until_they_are_known() -> None:
    world = limited(tokens_per_minute=100)
    number = world.granted("r0", 50, input_tokens=20, model=MODEL)
    waiting = world.waits("r1", 60, model=MODEL)
    world.settle("r0", number, tokens=30)
    assert set(world.grants("r1")) == {waiting}
    world.waits("r2", 20, model=MODEL)


def test_s10_an_answer_is_lowered_to_what_a_minute_allows() -> None:
    world = limited(tokens_per_minute=100)
    number, reply = world.reserve("r0", 5000, input_tokens=40, model=MODEL)
    assert reply.output_tokens == 60
    world.settle("r0", number)
    refused = world.reserve("r0", 5000, input_tokens=90, model=MODEL)[1]
    assert refused.error is not None
    assert (refused.error.limit, refused.waits_for) == ("tokens_per_minute", None)


def test_s10_the_strictest_of_all_drivers_counts_while_it_is_there() -> None:
    world = limited(concurrency=3)
    world.registry.join(hello("two", model_limits={MODEL: ModelLimit(concurrency=1)}), 0.0)
    world.granted("r0", 10, model=MODEL)
    waiting = world.waits("r1", 10, model=MODEL)
    world.registry.leave("two", 0.0, "gone")
    assert set(world.grants("r1")) == {waiting}


def test_s10_limits_of_a_driver_that_joins_later_hold_for_runs_admitted_before() -> None:
    world = World()
    for name in ("r0", "r1", "ended"):
        world.start(None, name)
    world.end("ended")
    world.registry.join(hello("two", model_limits={MODEL: ModelLimit(concurrency=1)}), 0.0)
    told = LimitOrder(models=(MODEL,))
    assert [world.orders(world.run(name).lease.actor) for name in ("r0", "r1", "ended")] == [[told], [told], []]
    world.granted("r0", 10, model=MODEL)
    world.waits("r1", 10, model=MODEL)


def test_s10_runs_are_told_only_of_models_they_have_not_heard_of() -> None:
    world = limited(1, concurrency=3)
    world.registry.join(hello("two", model_limits={MODEL: ModelLimit(concurrency=1)}), 0.0)
    world.registry.join(hello("three"), 0.0)
    assert not world.orders(world.run("r0").lease.actor), "its calls are reserved already"
    world.registry.join(hello("four", model_limits={"acme:m2": ModelLimit(concurrency=1)}), 0.0)
    world.registry.leave("four", 0.0, "gone")
    world.registry.join(hello("five", model_limits={"acme:m2": ModelLimit(concurrency=1)}), 0.0)
    assert world.orders(world.run("r0").lease.actor)[0] == LimitOrder(models=(MODEL, "acme:m2"))


def test_s10_runs_are_told_which_models_are_limited_and_paused() -> None:
    world = limited(concurrency=3)
    assert world.start(None, "x").limited_models == (MODEL,)
    throttle(world, 5.0)
    assert world.start(None, "y").paused_models == {MODEL: 5.0}
    world.now = 5.0
    assert world.start(None, "z").paused_models == {}


def test_s10_a_pause_is_for_everyone() -> None:
    world = limited(2, concurrency=3)
    throttle(world, 5.0)
    throttle(world, 4.9)
    for name in ("r0", "r1"):
        assert world.orders(world.run(name).lease.actor) == [PauseOrder(model=MODEL, until=5.0)]
    waiting = world.waits("r0", 10, model=MODEL)
    assert world.registry.next_time(0.0) == 5.0
    world.advance(4.0)
    throttle(world, 3.0)
    world.advance(5.0)
    assert world.grants("r0") == {}
    world.advance(7.0)
    assert set(world.grants("r0")) == {waiting}


def test_a_pause_is_not_for_ever() -> None:
    world = limited(1)
    throttle(world, 1e9)
    assert world.start(None, "x").paused_models == {MODEL: 300.0}


def test_budget_and_model_are_decided_together() -> None:
    """Who waits for the model holds nothing of the budget, and gets both at once."""
    world = World(model_limits={MODEL: ModelLimit(concurrency=1)})
    world.start(None, "other")
    world.start(None, "r0", limits=Limits(max_tokens=100))
    world.start("r0", "a")
    first = world.granted("other", 10, model=MODEL)
    waiting = world.waits("a", 100, model=MODEL)
    free = world.granted("r0", 100)
    world.settle("other", first)
    assert world.grants("a") == {}
    assert world.run("a").info().waits_for == "budget"
    assert world.granted("other", 10, model=MODEL), "it holds no permit while it waits for the budget"
    world.settle("r0", free)
    assert world.run("a").info().waits_for == "model_limit"
    world.end("other")
    assert set(world.grants("a")) == {waiting}


def test_s3_a_wait_for_a_model_is_cancelled() -> None:
    world = limited(concurrency=1)
    world.granted("r0", 10, model=MODEL)
    cancelled, later = world.waits("r1", 10, model=MODEL), world.waits("r2", 10, model=MODEL)
    world.cancel("r1")
    error = world.grants("r1")[cancelled].error
    assert error is not None
    assert error.code == "cancelled"
    world.end("r0")
    assert set(world.grants("r2")) == {later}


LIMITS = st.builds(
    ModelLimit,
    concurrency=st.none() | st.integers(1, 3),
    requests_per_minute=st.none() | st.integers(1, 4),
    tokens_per_minute=st.none() | st.integers(50, 200),
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["ask", "ask", "settle", "wait", "pause"]), st.integers(0, 2), st.integers(0, 90)),
    max_size=40,
)


class Minutes:
    """Calls of three trees to one limited model, and what any minute of them has."""

    def __init__(self, limit: ModelLimit) -> None:
        self.world = World(model_limits={MODEL: limit})
        for number in range(3):
            self.world.start(None, f"r{number}")
        self.limit = limit
        self.asked: set[tuple[str, int]] = set()
        self.open: set[tuple[str, int]] = set()
        self.begun: dict[tuple[str, int], tuple[float, int]] = {}
        self.paused = 0.0

    def happen(self, step: str, name: str, amount: int) -> None:
        """Ask for a call, end one, wait or pause."""
        world = self.world
        if step == "ask":
            self.asked.add((name, world.reserve(name, amount, model=MODEL)[0]))
        elif step == "settle" and self.open:
            name, number = min(self.open)
            self.open.discard((name, number))
            time, bound = self.begun[name, number]
            self.begun[name, number] = (time, min(bound, amount))
            world.settle(name, number, tokens=min(bound, amount))
        elif step == "wait":
            world.advance(world.now + amount)
        elif step == "pause":
            self.paused = max(self.paused, world.now + amount)
            throttle(world, amount)
        self.check()

    def check(self) -> None:
        """Look at what has begun, and at the last minute."""
        world, limit = self.world, self.limit
        for name, number in [key for key in self.asked if key[1] in world.run(key[0]).reservations]:
            assert world.now >= self.paused
            self.asked.discard((name, number))
            self.open.add((name, number))
            self.begun[name, number] = (world.now, world.run(name).reservations[number].tokens)
        last = [tokens for time, tokens in self.begun.values() if time + 60 > world.now]
        assert limit.concurrency is None or len(self.open) <= limit.concurrency
        assert limit.requests_per_minute is None or len(last) <= limit.requests_per_minute
        assert limit.tokens_per_minute is None or sum(last) <= limit.tokens_per_minute

    def finish(self) -> None:
        """End all calls, and let the time pass that the others wait for."""
        for _ in range(200):
            while self.open:
                self.happen("settle", "", 0)
            time = self.world.registry.next_time(self.world.now)
            if time is None:
                break
            self.world.advance(time)
            self.check()


@settings(deadline=None)
@given(LIMITS, STEPS)
def test_s10_no_minute_has_more_than_is_allowed(limit: ModelLimit, steps: list[tuple[str, int, int]]) -> None:
    minutes = Minutes(limit)
    for step, index, amount in steps:
        minutes.happen(step, f"r{index}", amount)
    minutes.finish()
    assert not any(minutes.world.run(f"r{index}").waiting for index in range(3))


def _other(world: World, driver: str, name: str) -> Admitted:
    request = AdmitRequest(driver_id=driver, children=(ChildRequest(run_id=name, agent="agent"),))
    (admission,) = world.registry.admit(request, world.now).admissions
    assert isinstance(admission, Admitted)
    return admission
