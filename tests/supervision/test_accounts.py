"""Calls, tokens and money over trees and sub-trees (U07, U08, S9, Y13)."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtree.messages import NO_COST, NO_USAGE, Cost, Limits, Usage
from runtree.messages.control import RunReport

from .world import World


def test_u08_parallel_children_never_exceed_a_limit() -> None:
    """Eight children ask for two tool calls each; nine are allowed."""
    world = World()
    world.start(None, "r0", limits=Limits(max_tool_calls=9))
    for number in range(8):
        world.start("r0", f"c{number}")
    replies = [world.reserve(f"c{number}", model_calls=0, tool_calls=2)[1] for number in range(8)]
    assert [reply.granted_tool_calls for reply in replies] == [2, 2, 2, 2, 1, 0, 0, 0]
    for reply in replies[4:]:
        assert reply.error is not None
        assert "max_tool_calls" in reply.error.message
    assert replies[0].error is None


def test_x03_a_sub_tree_has_its_own_bound_inside_the_trees() -> None:
    world = World()
    world.start(None, "r0", limits=Limits(max_model_calls=5))
    world.start("r0", "a", limits=Limits(max_model_calls=2), agent="lead")
    world.start("a", "a1")
    world.settle("a1", world.granted("a1"), world.granted("a1"), calls=2)
    _, refused = world.reserve("a")
    assert refused.granted_model_calls == 0
    assert refused.error is not None
    assert "lead" in refused.error.message
    world.settle("r0", *(world.granted("r0") for _ in range(3)), calls=3)
    assert not world.reserve("r0")[1].granted_model_calls


def test_one_bound_does_not_touch_the_other_kind_of_call() -> None:
    world = World()
    world.start(None, "r0", limits=Limits(max_model_calls=1))
    world.settle("r0", world.granted("r0"), calls=1)
    _, reply = world.reserve("r0", tool_calls=7)
    assert (reply.granted_model_calls, reply.granted_tool_calls) == (0, 7)


def test_y13_a_repeated_request_counts_once() -> None:
    world = World()
    world.start(None, "r0", limits=Limits(max_tool_calls=2))
    first = world.reserve("r0", number=5, model_calls=0, tool_calls=1)
    assert world.reserve("r0", number=5, model_calls=0, tool_calls=1) == first
    assert world.reserve("r0", number=6, model_calls=0, tool_calls=2)[1].granted_tool_calls == 1


@pytest.mark.parametrize("fate", ["lost", "ended", "of an older attempt"])
def test_s7_a_run_that_is_over_makes_no_more_calls(fate: str) -> None:
    """Its process may live on, cut off from us."""
    world = World()
    world.start(None, "r0")
    if fate == "lost":
        world.lose("r0")
    elif fate == "ended":
        world.end("r0")
    _, reply = world.reserve("r0", attempt=0 if "older" in fate else 1)
    assert reply.granted_model_calls == 0
    assert reply.error is not None


def test_y13_reports_out_of_order_leave_the_newest() -> None:
    world = World()
    world.start(None, "r0")
    world.report("r0", 10, number=4)
    world.report("r0", 99, number=2)
    world.report("r0", 99, number=4)
    stale = RunReport(run_id="r0", attempt=0, number=50, usage=Usage(input_tokens=77, output_tokens=0))
    assert world.registry.report(stale, 0.0).usage.tokens == 10


def test_s9_late_reports_of_lost_runs_still_count() -> None:
    world = World()
    world.start(None, "r0")
    world.start("r0", "a")
    world.lose_for_good("a")
    world.end("a", tokens=30)
    assert world.run("a").status == "failed"
    assert world.run("r0").totals().total_usage.tokens == 30


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["start", "report", "end", "lose", "cancel", "kill", "stale"]),
        st.integers(0, 30),
        st.integers(0, 1000),
        st.sampled_from(["exact", "estimated", "unknown"]),
    ),
    max_size=40,
)


@given(STEPS)
def test_u07_totals_are_the_sum_of_the_runs_at_every_moment(steps: list[tuple[str, int, int, str]]) -> None:
    world = World()
    world.start(None, "r0", limits=Limits(max_depth=None))
    names = ["r0"]
    for number, (event, index, tokens, precision) in enumerate(steps):
        name = names[index % len(names)]
        if event == "start" and world.run(name).live and world.run(name).flag is None:
            names.append(f"r{len(names)}")
            world.start(name, names[-1])
        elif event == "report":
            usage = Usage(input_tokens=tokens, output_tokens=None, precision=precision)  # type: ignore[arg-type]
            amount = None if precision == "unknown" else Decimal(tokens)
            cost = Cost(amount=amount, precision=precision)  # type: ignore[arg-type]
            world.registry.report(
                RunReport(run_id=name, attempt=1, number=10_000 + number, usage=usage, cost=cost), 0.0
            )
        elif event == "stale":
            world.report(name, tokens, number=0)
        elif event == "end":
            world.end(name)
        elif event == "lose":
            world.lose_for_good(name)
        elif event == "cancel":
            world.cancel(name)
        elif event == "kill":
            for due in world.condemned(world.now + 2.0):
                world.kill(due)
        for top in names:
            check_totals(world, top)


def check_totals(world: World, top: str) -> None:
    ledger = world.registry.ledger(top)
    usage, cost = NO_USAGE, NO_COST
    for record in ledger:
        usage, cost = usage + record.usage, cost + record.cost
    totals = world.run(top).totals()
    assert (totals.total_usage.tokens, totals.total_usage.precision) == (usage.tokens, usage.precision)
    assert (totals.total_cost.amount or 0, totals.total_cost.precision) == (cost.amount or 0, cost.precision)
    assert world.run(top).tokens == usage.tokens
    assert world.run(top).admitted_runs == len(ledger)
    assert world.run(top).live_below == sum(run.live for run in world.run(top).subtree()[1:])
