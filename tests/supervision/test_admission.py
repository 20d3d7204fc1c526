"""Who may start below whom, within which bounds (S1, X03, X08)."""

from typing import Any

import pytest

from runtree.messages import Limits
from runtree.messages.control import AdmitReply, Admitted, LaneAddress
from runtree.messages.errors import RuntimeUnavailableError, UnknownRunError

from .world import World, code, hello


def tree(depth: int = 3, **fields: Any) -> World:
    """A chain of runs r0, r1, ..."""
    world = World()
    world.start(None, "r0", **fields)
    for number in range(1, depth):
        world.start(f"r{number - 1}", f"r{number}")
    return world


def test_d1_lineage_is_decided_here() -> None:
    world = tree(3)
    stamps = [world.run(f"r{number}").stamp for number in range(3)]
    assert [stamp.depth for stamp in stamps] == [0, 1, 2]
    assert [stamp.parent_run_id for stamp in stamps] == [None, "r0", "r1"]
    assert {stamp.root_run_id for stamp in stamps} == {"r0"}


def test_lanes_of_a_tree_stay_in_one_queue() -> None:
    world = World(queues=("q0", "q1"))
    first, second = world.start(None, "a"), world.start(None, "b")
    assert first.lane.queue != second.lane.queue
    assert first.lane.lane == "driver:a"
    reply = world.admit("a", "a1")
    assert reply.own_lane == LaneAddress(queue=first.lane.queue, lane="a")
    assert world.run("a1").lane == reply.own_lane


def test_lanes_of_a_tree_are_spread_on_demand() -> None:
    world = World(queues=("q0", "q1", "q2"), spread=True)
    world.start(None, "r0")
    queues = [world.start(f"r{number}", f"r{number + 1}").lane.queue for number in range(3)]
    assert len(set(queues)) == 3


def test_a_parent_whose_children_are_all_refused_gets_no_lane() -> None:
    world = tree(1, limits=Limits(max_depth=0))
    reply = world.admit("r0", "r1")
    assert code(reply.admissions[0]) == "limit_exceeded"
    assert reply.own_lane is None


def test_y13_a_repeated_admission_is_answered_again() -> None:
    world = tree(1)
    reply = world.admit("r0", "a", "b", number=7)
    assert world.admit("r0", "a", "b", number=7) == reply
    assert world.run("r0").admitted_runs == 3
    root = world.start(None, "other")
    assert world.admit(None, "other").admissions == (root,)
    assert world.registry.driver("driver").leases.held == 4


def test_x03_depth_of_the_tree_and_of_a_sub_tree() -> None:
    world = World()
    world.start(None, "r0", limits=Limits(max_depth=3))
    world.start("r0", "r1", limits=Limits(max_depth=1), agent="lead")
    world.start("r1", "r2")
    failure = world.refused("r2", "r3")
    assert failure.code == "limit_exceeded"
    assert "max_depth" in failure.message
    assert "lead" in failure.message
    world.start("r0", "s1")
    world.start("s1", "s2")
    world.start("s2", "s3")
    assert "max_depth" in world.refused("s3", "s4").message


def test_default_depth_is_eight() -> None:
    world = tree(9)
    assert "max_depth" in world.refused("r8", "r9").message
    unbounded = tree(12, limits=Limits(max_depth=None))
    unbounded.start("r11", "r12")


def test_x03_number_of_runs_counts_ended_ones_and_the_root() -> None:
    world = tree(1, limits=Limits(max_runs=4))
    assert [code(one) for one in world.admit("r0", "a", "b").admissions] == ["admitted"] * 2
    world.end("a")
    assert [code(one) for one in world.admit("r0", "c", "d").admissions] == ["admitted", "limit_exceeded"]


def test_x03_number_of_runs_in_a_sub_tree() -> None:
    world = tree(1)
    world.start("r0", "r1", limits=Limits(max_runs=2), agent="lead")
    world.start("r1", "a")
    assert "max_runs" in world.refused("r1", "b").message
    assert "max_runs" in world.refused("a", "b").message
    world.start("r0", "b")


def test_deadline_is_inherited_and_only_gets_sooner() -> None:
    world = tree(1, limits=Limits(deadline=10))
    world.now = 4
    assert world.start("r0", "a", limits=Limits(deadline=100)).deadline == 10
    assert world.start("r0", "b", limits=Limits(deadline=2)).deadline == 6
    world.now = 6
    assert "deadline" in world.refused("b", "c").message
    world.start("a", "c")


def test_tokens_of_a_tree() -> None:
    world = tree(2, limits=Limits(max_tokens=100))
    world.report("r1", 99)
    world.start("r1", "a")
    world.report("a", 1)
    assert "max_tokens" in world.refused("r0", "b").message
    assert world.reserve("r0", 1)[1].granted_model_calls == 0


@pytest.mark.parametrize("fate", ["cancelled", "ended", "lost", "of an older attempt"])
def test_c04_nothing_starts_below_a_run_that_is_over(fate: str) -> None:
    world = tree(2)
    attempt = 1
    if fate == "cancelled":
        world.cancel("r0")
    elif fate == "ended":
        world.end("r1")
    elif fate == "lost":
        world.lose("r1")
    else:
        attempt = 0
    assert world.refused("r1", "a", attempt=attempt).code == "cancelled"
    assert world.registry.find("a") is None


def test_unknown_parents_and_drivers_are_errors() -> None:
    world = World()
    with pytest.raises(UnknownRunError):
        world.admit("nobody", "a")
    world.registry.leave("driver", 0.0, "gone")
    with pytest.raises(RuntimeUnavailableError):
        world.admit(None, "a")


def test_y06_drivers_share_the_supervisor_but_not_their_actors() -> None:
    world = World()
    world.registry.join(hello("other"), 0.0)
    world.registry.driver("other").leases.offer("warm")
    assert world.start(None, "r0").actor is None
    world.registry.join(hello("other"), 5.0)
    assert world.registry.driver("other").leases.idle == 1


def test_replies_are_kept_in_bounds() -> None:
    world = tree(1)
    replies: list[AdmitReply] = [world.admit("r0", f"a{number}", number=number) for number in range(200)]
    refused = [world.refused("r0", f"b{number}", attempt=2) for number in range(200)]
    assert len(world.run("r0").refusals) <= 64
    assert world.refused("r0", "b199") == refused[-1], "also where it would be admitted now"
    assert world.admit("r0", "a199", number=199) == replies[-1]
    assert isinstance(replies[0].admissions[0], Admitted)
    assert world.admit("r0", "a0", number=0).admissions == replies[0].admissions
    assert world.run("r0").admitted_runs == 201
