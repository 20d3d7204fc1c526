"""What the supervisor tells those who look on, and the numbers that metrics are made of."""

from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from runtree.actors.supervision.desk import Desk
from runtree.actors.supervision.overview import drivers_of, view_of
from runtree.actors.supervision.tally import OTHERS, Tally
from runtree.messages import Cost, Usage
from runtree.messages.control import RunReport
from runtree.messages.overview import NamespaceView
from runtree.messages.reservations import ReserveRequest

from .world import DRIVER, World


def view(world: World, **options: Any) -> NamespaceView:
    return view_of(world.registry, "test", world.now, **{"ended": False, "most": 100, **options})


def test_j3_a_view_has_live_trees_newest_first_and_upper_levels_first() -> None:
    world = World()
    world.start(None, "r1", model="gpt")
    world.start("r1", "a")
    world.start("a", "b")
    world.start(None, "r2")
    world.end("a")
    world.report("b", 7)
    seen = view(world)
    assert [run.run_id for run in seen.runs] == ["r2", "r1", "b"], "an ended run is not asked for; what is below it is"
    assert seen.runs[1].model == "gpt"
    assert (seen.live_runs, seen.ended_runs, seen.left_out, seen.drivers) == (3, 1, 0, 1)
    assert (seen.usage.tokens, seen.cost.amount) == (7, Decimal("0.07"))
    assert [run.run_id for run in view(world, ended=True).runs] == ["r2", "r1", "a", "b"]


def test_a_view_is_bounded_and_says_what_it_leaves_out() -> None:
    world = World()
    world.start(None, "r0")
    for number in range(5):
        world.start("r0", f"c{number}")
    world.end("c0")
    seen = view(world, most=3)
    assert [run.run_id for run in seen.runs] == ["r0", "c1", "c2"]
    assert (seen.left_out, seen.live_runs) == (2, 5)
    assert view(world, most=3, ended=True).left_out == 3


def test_an_ended_tree_is_seen_only_where_ended_ones_are_asked_for() -> None:
    world = World()
    world.start(None, "r0")
    world.end("r0", 3)
    assert not view(world).runs
    assert (view(world).live_runs, view(world).ended_runs, view(world).usage.tokens) == (0, 1, 0)
    assert [run.status for run in view(world, ended=True).runs] == ["completed"]


def test_a_run_is_as_fresh_as_the_last_that_was_heard_of_it() -> None:
    world = World()
    world.admit(None, "r0")
    desk = Desk(world.registry, lambda: world.now)
    told = {
        "begin": ("r0", 1),
        "reserve": (ReserveRequest(run_id="r0", attempt=1, number=1, model_calls=1).to_json(),),
        "report": (RunReport(run_id="r0", attempt=1, number=2).to_json(),),
    }
    for now, (method, arguments) in enumerate(told.items(), 1):
        world.now = float(now)
        desk.answer([(method, *arguments)])
        assert view(world).runs[0].progress == world.now, method
    world.now = 9.0
    desk.answer([("totals", "r0")])
    assert view(world).runs[0].progress == 3.0, "a question of somebody else says nothing"


def test_drivers_are_described_with_their_pools() -> None:
    world = World()
    world.registry.driver(DRIVER).leases.offer("w1")
    world.registry.driver(DRIVER).leases.offer("w2")
    world.start(None, "r0")
    (driver,) = drivers_of(world.registry)
    assert (driver.driver_id, driver.live_runs, driver.warm_idle, driver.held) == (DRIVER, 1, 1, 1)


def test_the_tally_follows_runs_tokens_money_and_the_pool() -> None:
    world = World()
    world.registry.driver(DRIVER).leases.offer("w1")
    world.start(None, "r0", agent="lead")
    world.start("r0", "a", agent="worker")
    world.start("r0", "b", agent="worker", poolable=False)
    world.report("a", 5)
    world.end("a", 12)
    world.end("b", status="failed")
    tally = world.registry.tally
    assert tally.started == {"lead": 1, "worker": 2}
    assert tally.live == {"lead": 1, "worker": 0}, "an agent without live runs stays, so that its gauge goes to 0"
    assert tally.ended == {("worker", "completed", "exact"): 1, ("worker", "failed", "exact"): 1}
    assert tally.tokens == {("worker", "input"): 12}
    assert tally.money == {"worker": Decimal("0.12")}
    assert tally.leases == {"hit": 1, "miss": 1}, "a run that wants a process of its own misses nothing"


def test_s9_the_end_of_a_run_of_unknown_cost_is_counted_as_such() -> None:
    world = World()
    world.start(None, "r0")
    world.lose_for_good("r0")
    assert world.registry.tally.ended == {("agent", "failed", "unknown"): 1}
    assert not world.registry.tally.money


def test_agents_without_number_do_not_become_series_without_number() -> None:
    tally = Tally()
    for number in range(1000):
        tally.begin(f"agent{number}", poolable=True, warm=False)
    for number in range(1000):
        tally.end(f"agent{number}", "completed", Cost())
    assert len(tally.started) == len(tally.live) == 51
    assert tally.started[OTHERS] == 950
    assert not any(tally.live.values())


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 50)), max_size=30))
def test_u07_the_tally_is_the_sum_over_the_runs_whatever_comes(steps: list[tuple[int, int]]) -> None:
    world = World()
    for number in range(3):
        world.start(None, f"r{number}")
    for number, tokens in steps:
        now = world.run(f"r{number}").usage.tokens
        world.report(f"r{number}", max(now, tokens))
    total = sum((world.run(f"r{number}").usage for number in range(3)), Usage())
    assert world.registry.tally.tokens["agent", "input"] == total.tokens
    assert world.registry.tally.money.get("agent", Decimal(0)) == Decimal(total.tokens) / 100
