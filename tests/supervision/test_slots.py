"""Parallel slots: who is at work counts, who only waits for its children does not (S12, X13)."""

from typing import Any

import pytest

from runtree.messages import Limits
from runtree.messages.control import Admitted, Postponed

from .world import World, code


def tree(**limits: Any) -> World:
    """A root r0 with limits."""
    world = World()
    world.start(None, "r0", limits=Limits(**limits))
    return world


def answers(world: World, parent: str, *names: str, **fields: Any) -> list[str]:
    """Ask for children; returns what is answered for each."""
    return [code(each) for each in world.admit(parent, *names, **fields).admissions]


def test_x13_a_chain_of_depth_8_with_one_slot_ends() -> None:
    world = tree(max_parallel=1)
    for depth in range(8):
        parent, child = f"r{depth}", f"r{depth + 1}"
        assert answers(world, parent, child) == ["postponed"]
        world.slot(parent, waiting=True)
        assert world.admissions(parent) == {child: "admitted"}
        world.registry.begin(child, 1)
    for depth in range(8, 0, -1):
        world.end(f"r{depth}")
        assert world.slot(f"r{depth - 1}", waiting=False).waits_for is None
    world.end("r0")
    assert world.run("r0").bounds[0].working == 0


def test_x13_fifty_nested_parents_on_four_slots_end() -> None:
    world = tree(max_parallel=4, max_depth=None)
    for depth in range(50):
        parent, child = f"r{depth}", f"r{depth + 1}"
        if answers(world, parent, child) == ["postponed"]:
            world.slot(parent, waiting=True)
            assert world.admissions(parent) == {child: "admitted"}
        else:
            world.slot(parent, waiting=True)
        assert world.run("r0").bounds[0].working <= 4
    for depth in range(50, 0, -1):
        world.end(f"r{depth}")
        assert world.slot(f"r{depth - 1}", waiting=False).waits_for is None
    world.end("r0")


def test_children_are_admitted_in_turn() -> None:
    world = tree(max_parallel=3)
    assert answers(world, "r0", "a", "b", "c", "d") == ["admitted", "admitted", "postponed", "postponed"]
    assert answers(world, "r0", "e") == ["postponed"]
    world.end("b")
    assert world.admissions("r0") == {"c": "admitted"}
    world.end("a")
    assert world.admissions("r0") == {"d": "admitted"}
    assert world.registry.find("e") is None


def test_who_is_let_in_may_have_the_actor_that_was_freed() -> None:
    world = tree(max_parallel=2)
    world.registry.driver("driver").leases.offer("warm", 0.0)
    assert world.start("r0", "a").actor == "warm"
    assert answers(world, "r0", "b") == ["postponed"]
    world.end("a")
    assert world.run("b").lease.actor == "warm"


def test_y13_a_repeated_admission_brings_the_decision() -> None:
    world = tree(max_parallel=1)
    reply = world.admit("r0", "a", number=7)
    assert reply.admissions == (Postponed(run_id="a"),)
    assert reply.own_lane is not None, "it is there before the order comes"
    assert world.admit("r0", "a", number=7) == reply
    world.slot("r0", waiting=True)
    (again,) = world.admit("r0", "a", number=7).admissions
    assert isinstance(again, Admitted)


def test_s12_who_goes_on_comes_before_new_runs() -> None:
    world = tree(max_parallel=1)
    assert answers(world, "r0", "a", "b") == ["postponed", "postponed"]
    world.slot("r0", waiting=True)
    assert world.admissions("r0") == {"a": "admitted"}
    assert world.slot("r0", waiting=False, number=99).waits_for == "parallel"
    assert world.slot("r0", waiting=False, number=99).waits_for == "parallel"
    assert world.run("r0").info().waits_for == "parallel"
    world.end("a")
    assert set(world.grants("r0")) == {99}
    assert world.registry.find("b") is None
    assert world.slot("r0", waiting=False, number=99).waits_for is None


def test_an_older_request_for_a_slot_changes_nothing() -> None:
    world = tree(max_parallel=1)
    world.slot("r0", waiting=True, number=50)
    world.slot("r0", waiting=False, number=51)
    world.slot("r0", waiting=True, number=50)
    assert world.run("r0").at_work


def test_a_run_that_thinks_better_of_it_leaves_its_place() -> None:
    world = tree(max_parallel=1)
    assert answers(world, "r0", "a", "b") == ["postponed", "postponed"]
    world.slot("r0", waiting=True)
    assert world.slot("r0", waiting=False).waits_for == "parallel"
    world.slot("r0", waiting=True)
    world.end("a")
    assert set(world.admissions("r0")) == {"a", "b"}
    assert not world.run("r0").at_work


def test_the_slots_of_a_sub_tree_are_its_own_and_the_trees() -> None:
    world = tree(max_parallel=4)
    world.start("r0", "lead", limits=Limits(max_parallel=2))
    assert answers(world, "lead", "l1", "l2") == ["admitted", "postponed"]
    assert answers(world, "r0", "a", "b") == ["admitted", "postponed"]
    world.end("a")
    assert world.admissions("r0") == {"b": "admitted"}
    world.end("l1")
    assert world.admissions("lead") == {"l2": "admitted"}


def test_a_slot_of_the_tree_alone_does_not_let_a_sub_tree_that_is_full_go_on() -> None:
    world = tree(max_parallel=3)
    world.start("r0", "lead", limits=Limits(max_parallel=1))
    world.start("r0", "a")
    assert answers(world, "lead", "l1") == ["postponed"]
    assert answers(world, "r0", "b") == ["postponed"]
    world.end("a")
    assert world.admissions("r0") == {"b": "admitted"}
    assert world.admissions("lead") == {}


@pytest.mark.parametrize("fate", ["cancel", "deadline"])
def test_s3_what_waits_for_a_slot_is_decided_when_the_tree_has_to_end(fate: str) -> None:
    world = tree(max_parallel=1, deadline=10)
    assert answers(world, "r0", "a", "b") == ["postponed", "postponed"]
    world.slot("r0", waiting=True)
    assert world.slot("r0", waiting=False, number=99).waits_for == "parallel"
    if fate == "cancel":
        world.cancel("r0")
    else:
        assert world.registry.next_time(0.0) == 10
        world.advance(10)
    orders = world.orders(world.run("r0").lease.actor)
    told = {order.kind for order in orders}
    assert {"grant", "admission"} <= told
    refused = next(each for each in orders if each.kind == "admission" and code(each.admission) != "admitted")
    assert code(refused.admission) == ("cancelled" if fate == "cancel" else "limit_exceeded")
    assert world.run("r0").at_work
    assert world.run("r0").postponed == {}
    assert world.registry.next_time(10.0) is None


def test_a_flagged_run_has_its_slot_at_once() -> None:
    world = tree(max_parallel=1)
    answers(world, "r0", "a")
    world.slot("r0", waiting=True)
    world.cancel("r0")
    assert world.slot("r0", waiting=False).waits_for is None


def test_a_wish_is_withdrawn_by_a_cancel_of_the_child() -> None:
    world = tree(max_parallel=1)
    assert answers(world, "r0", "a", "b") == ["postponed", "postponed"]
    assert world.cancel("a") == []
    assert world.admissions("r0") == {"a": "cancelled"}
    world.slot("r0", waiting=True)
    assert world.admissions("r0") == {"b": "admitted"}
    assert answers(world, "r0", "a") == ["cancelled"], "also when it is asked for again"


def test_bounds_are_looked_at_again_when_there_is_a_slot() -> None:
    world = tree(max_parallel=2, max_runs=2)
    assert answers(world, "r0", "a", "b") == ["admitted", "limit_exceeded"]
    other = tree(max_parallel=2, max_tokens=100)
    assert answers(other, "r0", "a", "b") == ["admitted", "postponed"]
    other.end("a", tokens=100)
    assert other.admissions("r0") == {"b": "limit_exceeded"}


@pytest.mark.parametrize("fate", ["lost", "killed", "driver gone"])
def test_s5_a_run_that_is_gone_leaves_no_slot_and_no_wish(fate: str) -> None:
    world = tree(max_parallel=3)
    world.start("r0", "a")
    world.start("a", "a1")
    assert answers(world, "a", "a2") == ["postponed"]
    if fate == "lost":
        report = world.lose("a")
        world.end("a1")
        world.judge(report)
    elif fate == "killed":
        world.cancel("a")
        world.end("a1", status="cancelled")
        assert world.condemned(world.now + 2) == ["a"]
        world.kill("a")
    else:
        world.registry.leave("driver", 0.0, "gone")
    assert world.registry.find("a2") is None
    assert world.run("r0").bounds[0].working == (0 if fate == "driver gone" else 1)
    assert world.run("a").postponed == {}


def test_s7_a_run_that_is_started_again_has_its_slot() -> None:
    world = tree(max_parallel=2)
    world.start("r0", "a", max_attempts=2)
    world.slot("a", waiting=True)
    world.judge(world.lose("a"))
    assert world.run("a").stamp.attempt == 2
    assert world.run("a").at_work
    assert world.run("r0").bounds[0].working == 2


def test_u10_trees_do_not_share_slots() -> None:
    world = tree(max_parallel=1)
    world.start(None, "other", limits=Limits(max_parallel=2))
    assert answers(world, "other", "o1") == ["admitted"]
