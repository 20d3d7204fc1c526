"""Calls are reserved before they are made and settled after it (S8, U05-U10)."""

from decimal import Decimal
from typing import Any

import pytest

from runtree.messages import Failure, Limits
from runtree.messages.control import RunReport
from runtree.messages.reservations import ReserveReply

from .world import DRIVER, World, hello


def tree(children: int = 2, **limits: Any) -> World:
    """A root r0 with limits, and children c0, c1, ..."""
    world = World()
    world.start(None, "r0", limits=Limits(**limits))
    for number in range(children):
        world.start("r0", f"c{number}")
    return world


def refusal(reply: ReserveReply) -> Failure:
    """Return why a call was refused."""
    assert reply.granted_model_calls == 0
    assert reply.waits_for is None
    assert reply.error is not None
    return reply.error


def test_s8_the_answer_is_lowered_to_what_is_left() -> None:
    world = tree(max_tokens=100)
    number, reply = world.reserve("c0", 500, input_tokens=30)
    assert (reply.granted_model_calls, reply.output_tokens) == (1, 70)
    world.settle("c0", number, tokens=50)
    assert world.reserve("c1", 500, input_tokens=10)[1].output_tokens == 40


def test_s8_money_bounds_the_answer_by_its_price() -> None:
    world = tree(max_cost="1.00")
    assert world.reserve("c0", 500, input_tokens=30)[1].output_tokens == 70
    free = tree(max_cost="1.00")
    assert free.reserve("c0", 500, input_tokens=30, output_price=Decimal(0))[1].output_tokens == 500


def test_an_answer_is_not_bounded_by_a_number_of_calls() -> None:
    world = tree(max_model_calls=3)
    assert world.reserve("c0", 500)[1].output_tokens is None


@pytest.mark.parametrize(
    "limits, name",
    [
        ({"max_tokens": 100}, "max_tokens"),
        ({"max_cost": "1.00"}, "max_cost"),
        ({"max_model_calls": 1}, "max_model_calls"),
    ],
)
def test_s8_what_was_spent_refuses_the_call_and_names_the_limit(limits: dict[str, Any], name: str) -> None:
    world = tree(**limits)
    world.settle("c0", world.granted("c0", 80), tokens=80, calls=1)
    failure = refusal(world.reserve("c1", 500, input_tokens=5)[1])
    assert (failure.code, failure.limit) == ("limit_exceeded", name)
    assert "tree" in failure.message


def test_s8_a_prompt_that_is_too_large_is_refused_at_once() -> None:
    world = tree(max_tokens=100)
    world.granted("c0", 60)
    assert refusal(world.reserve("c1", 500, input_tokens=90)[1]).limit == "max_tokens"
    world.waits("c1", 500, input_tokens=80)


def test_s8_only_reservations_of_others_make_a_call_wait() -> None:
    world = tree(max_tokens=100)
    first = world.granted("c0", 80)
    second = world.waits("c1", 80)
    assert world.reserve("c1", 80, number=second)[1].waits_for == "budget"
    assert world.run("c1").info().waits_for == "budget"
    assert world.grants("c1") == {}
    world.settle("c0", first, tokens=10)
    assert world.grants("c1")[second].output_tokens == 80
    assert world.reserve("c1", 80, number=second)[1].output_tokens == 80
    assert world.run("c1").info().waits_for is None


def test_s8_what_was_spent_meanwhile_refuses_who_waits() -> None:
    world = tree(max_tokens=100)
    first = world.granted("c0", 80)
    second = world.waits("c1", 80)
    world.settle("c0", first, tokens=90)
    assert refusal(world.grants("c1")[second]).limit == "max_tokens"
    assert refusal(world.reserve("c1", 80, number=second)[1]).limit == "max_tokens"


def test_s8_a_large_call_is_not_overtaken_for_ever() -> None:
    world = tree(4, max_tokens=100)
    small = world.granted("c0", 40)
    large = world.waits("c1", 100)
    later = world.waits("c2", 20)
    world.settle("c0", small)
    assert set(world.grants("c1")) == {large}
    assert world.grants("c2") == {}
    world.settle("c1", large, tokens=30)
    assert set(world.grants("c2")) == {later}


def test_who_gives_up_waiting_lets_others_pass() -> None:
    world = tree(3, max_tokens=100)
    world.granted("c0", 40)
    large = world.waits("c1", 100)
    small = world.waits("c2", 20)
    world.settle("c1", large)
    assert set(world.grants("c2")) == {small}
    assert refusal(world.reserve("c1", 100, number=large)[1]).code == "cancelled"


def test_u08_tool_calls_are_granted_in_part_and_never_wait() -> None:
    """Eight children ask for two tool calls each; nine are allowed."""
    world = tree(8, max_tool_calls=9)
    replies = [world.reserve(f"c{n}", model_calls=0, tool_calls=2)[1] for n in range(8)]
    assert [reply.granted_tool_calls for reply in replies] == [2, 2, 2, 2, 1, 0, 0, 0]
    assert all(reply.error is not None and reply.error.limit == "max_tool_calls" for reply in replies[4:])
    assert replies[0].error is None


def test_u09_what_is_given_back_is_there_for_others() -> None:
    world = tree(max_tool_calls=2, max_model_calls=1)
    number, reply = world.reserve("c0", model_calls=0, tool_calls=2)
    assert reply.granted_tool_calls == 2
    world.settle("c0", number)
    assert world.reserve("c1", model_calls=0, tool_calls=2)[1].granted_tool_calls == 2
    call = world.granted("c0", 10)
    waiting = world.waits("c1", 10)
    world.settle("c0", call)
    assert world.grants("c1")[waiting].granted_model_calls == 1


def test_u09_the_end_of_a_run_frees_what_it_has_reserved() -> None:
    world = tree(max_tokens=100)
    world.granted("c0", 100)
    waiting = world.waits("c1", 60)
    world.end("c0", tokens=20)
    assert world.grants("c1")[waiting].output_tokens == 60


@pytest.mark.parametrize("fate", ["lost", "killed"])
def test_s8_calls_of_a_process_that_is_gone_count_as_reserved(fate: str) -> None:
    world = tree(max_tokens=100, max_cost="1.00", max_tool_calls=9)
    world.settle("c0", world.granted("c0", 10), tokens=10, calls=1)
    world.granted("c0", 50, input_tokens=10)
    world.reserve("c0", model_calls=0, tool_calls=2)
    waiting = world.waits("c1", 80)
    if fate == "lost":
        world.lose("c0")
    else:
        world.cancel("c0")
        assert world.condemned(world.now + 2) == ["c0"]
        world.kill("c0")
    usage = world.run("c0").usage
    assert (usage.tokens, usage.precision, usage.model_calls, usage.tool_calls) == (70, "estimated", 2, 2)
    assert world.run("c0").cost.amount == Decimal("0.70")
    assert world.run("r0").totals().total_usage == usage.model_copy(update={})
    assert world.grants("c1")[waiting].output_tokens == 30


def test_s9_a_late_report_replaces_what_was_in_doubt() -> None:
    world = tree(max_tokens=100)
    number = world.granted("c0", 50)
    world.lose("c0")
    assert world.run("c0").usage.tokens == 50
    world.settle("c0", tokens=0)
    assert world.run("c0").usage.tokens == 50
    world.settle("c0", number, tokens=7)
    assert (world.run("c0").usage.tokens, world.run("c0").usage.precision) == (7, "exact")
    assert world.run("r0").tokens == 7


def test_s9_without_reservations_a_lost_run_is_unknown() -> None:
    world = World()
    world.start(None, "r0")
    world.lose("r0")
    assert world.run("r0").usage.precision == "unknown"


def test_a_provider_that_bills_more_stops_the_tree() -> None:
    world = tree(max_cost="1.00")
    call = world.granted("c0", 60)
    world.settle("c0", call, tokens=120, calls=1)
    for name in ("r0", "c0", "c1"):
        flag = world.run(name).flag
        assert flag is not None
        assert "max_cost" in flag.reason
        assert "billed" in flag.reason
    assert world.run("r0").record().overrun == ("max_cost",)
    assert world.told("c1")


def test_an_overrun_of_a_sub_tree_stops_only_that() -> None:
    world = tree(max_tokens=1000)
    world.start("r0", "lead", agent="lead", limits=Limits(max_tokens=100))
    world.start("lead", "below")
    world.settle("below", world.granted("below", 90), tokens=101)
    flags = {name: world.run(name).flag is not None for name in ("r0", "c0", "lead", "below")}
    assert flags == {"r0": False, "c0": False, "lead": True, "below": True}
    assert "sub-tree of lead" in str(world.run("below").flag)
    assert (world.run("lead").overrun, world.run("r0").overrun) == (("max_tokens",), ())


def test_more_than_its_bound_but_within_the_limit_is_no_overrun() -> None:
    world = tree(max_tokens=100)
    world.settle("c0", world.granted("c0", 20), tokens=60)
    assert world.run("r0").flag is None


def test_the_stricter_of_tree_and_sub_tree_wins() -> None:
    world = tree(max_tokens=100)
    world.start("r0", "lead", agent="lead", limits=Limits(max_tokens=40))
    world.start("lead", "below")
    first, reply = world.reserve("below", 500)
    assert reply.output_tokens == 40
    other = world.granted("c0", 60)
    waiting = world.waits("c1", 10)
    assert refusal(world.reserve("lead", 500, input_tokens=50)[1]).message.count("sub-tree of lead") == 1
    world.settle("below", first, tokens=20)
    assert set(world.grants("c1")) == {waiting}
    assert world.reserve("lead", 500)[1].waits_for == "budget"
    world.settle("c0", other, tokens=60)


def test_a_sub_tree_that_waits_for_its_own_bound_does_not_hold_up_the_tree() -> None:
    world = tree(max_tokens=1000)
    world.start("r0", "lead", limits=Limits(max_tokens=40))
    world.granted("lead", 40)
    world.waits("lead", 40)
    world.granted("c0", 40)


def test_u10_trees_do_not_mix() -> None:
    world = tree(max_tokens=100)
    world.start(None, "other", limits=Limits(max_tokens=100))
    world.registry.join(hello("two"), 0.0)
    world.granted("c0", 100)
    assert world.granted("other", 100)


def test_an_unknown_price_is_refused_under_max_cost_unless_ignored() -> None:
    unknown: dict[str, Any] = {"input_cost": None, "output_price": None, "model": "acme:m1"}
    failure = refusal(tree(max_cost="1").reserve("c0", 10, **unknown)[1])
    assert failure.limit == "max_cost"
    assert "acme:m1" in failure.message
    assert "unpriced" in failure.message
    ignoring = tree(max_cost="1", unpriced="ignore")
    assert ignoring.granted("c0", 10, **unknown)
    ignoring.start("r0", "strict", limits=Limits(unpriced="refuse", max_cost=Decimal("0.5")))
    assert refusal(ignoring.reserve("strict", 10, **unknown)[1]).limit == "max_cost"
    widening = tree(max_cost="1")
    widening.start("r0", "wide", limits=Limits(unpriced="ignore"))
    assert refusal(widening.reserve("wide", 10, **unknown)[1]).limit == "max_cost"


@pytest.mark.parametrize("fate", ["cancel", "deadline", "end of the parent"])
def test_s3_who_waits_is_decided_when_its_run_has_to_end(fate: str) -> None:
    world = tree(3, max_tokens=100, deadline=10)
    world.granted("c0", 100)
    waiting = world.waits("c1", 60)
    if fate == "cancel":
        world.cancel("c1")
    elif fate == "deadline":
        assert world.registry.next_time(world.now) == 10
        world.advance(10)
    else:
        world.end("r0")
    failure = refusal(world.grants("c1")[waiting])
    assert failure.code == ("limit_exceeded" if fate == "deadline" else "cancelled")
    assert world.run("c1").waiting == {}
    assert refusal(world.reserve("c1", 1)[1]) is not None


def test_s7_only_the_current_attempt_of_a_live_run_reserves() -> None:
    world = tree(max_tokens=100)
    assert refusal(world.reserve("c0", 10, attempt=0, number=50)[1]).code == "cancelled"
    assert world.granted("c0", 10, number=50) == 50
    world.end("c0")
    assert refusal(world.reserve("c0", 10)[1]).code == "cancelled"


def test_y13_a_repeated_request_reserves_once() -> None:
    world = tree(max_tokens=100)
    first = world.reserve("c0", 60, number=5)
    assert world.reserve("c0", 60, number=5) == first
    world.settle("c0", 5, tokens=10)
    world.settle("c0", 5)
    assert world.reserve("c0", 60, number=5) == first
    assert world.granted("c1", 90)


def test_y13_an_older_snapshot_still_settles() -> None:
    world = tree(max_tokens=100)
    first, second = world.granted("c0", 40), world.granted("c0", 40)
    world.settle("c0", second, tokens=20)
    run = world.run("c0")
    world.registry.report(_older(world, "c0", first), 0.0)
    assert run.usage.tokens == 20
    assert run.reservations == {}


def test_what_is_left_is_told_for_every_bound() -> None:
    world = tree(max_tokens=100, max_runs=10)
    world.start("r0", "lead", agent="lead", limits=Limits(max_cost=Decimal(1), max_tool_calls=3))
    world.settle("lead", world.granted("lead", 20), tokens=15)
    world.granted("lead", 30)
    budget = world.registry.budget("lead")
    told = {(line.scope, line.limit): (line.settled, line.reserved, line.left) for line in budget.lines}
    assert told == {
        ("tree", "max_tokens"): (15, 30, 55),
        ("tree", "max_runs"): (4, 0, 6),
        ("sub-tree of lead", "max_cost"): (Decimal("0.15"), Decimal("0.30"), Decimal("0.55")),
        ("sub-tree of lead", "max_tool_calls"): (0, 0, 3),
    }
    assert budget.left("max_tokens") == 55
    assert budget.left("max_model_calls") is None
    assert {line.scope_run_id for line in world.registry.budget("c0").lines} == {"r0"}


def test_y09_a_driver_that_is_gone_leaves_nothing_reserved() -> None:
    world = tree(max_tokens=100)
    world.granted("c0", 100)
    world.waits("c1", 60)
    world.registry.leave(DRIVER, 0.0, "gone")
    assert not any(world.run(name).reservations or world.run(name).waiting for name in ("r0", "c0", "c1"))
    assert world.run("r0").totals().total_usage.tokens == 100
    assert world.registry.budget("r0").lines[0].reserved == 0


def _older(world: World, name: str, number: int) -> RunReport:
    return RunReport(run_id=name, attempt=1, number=0, settled={number: 20})
