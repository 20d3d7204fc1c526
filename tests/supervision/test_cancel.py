"""Flags, graces, kills and losses (S2, S3, S5, C04, C09, C12, C13)."""

import random
from typing import Any

import pytest

from runtree.messages.control import RetireOrder

from .world import DRIVER, World


def tree(**fields: Any) -> World:
    """r0 with the children a and b, and a1 below a."""
    world = World()
    world.start(None, "r0", **fields)
    for parent, name in (("r0", "a"), ("r0", "b"), ("a", "a1")):
        world.start(parent, name, **fields)
    return world


def test_c03_a_cancel_reaches_the_sub_tree_and_nothing_else() -> None:
    world = tree()
    assert sorted(world.cancel("a")) == ["a", "a1"]
    assert world.told("a")
    assert world.told("a1")
    assert not world.told("r0")
    assert not world.told("b")


def test_c09_cancel_of_an_unknown_or_ended_run() -> None:
    world = tree()
    assert world.cancel("nobody") == []
    world.end("b")
    assert world.cancel("b") == []
    assert world.registry.next_kill_time() is None


def test_c04_a_second_cancel_changes_nothing_but_a_longer_grace() -> None:
    world = tree()
    world.cancel("a1", grace=5.0, reason="first")
    assert world.told("a1")
    world.now = 1.0
    world.cancel("a1", grace=9.0, reason="second")
    assert world.registry.next_kill_time() == 5.0
    world.cancel("a1", grace=2.0, reason="third")
    assert not world.told("a1")
    flag = world.run("a1").flag
    assert flag is not None
    assert (flag.reason, flag.grace, flag.since) == ("first", 2.0, 0.0)
    assert world.condemned(2.0) == ["a1"]
    assert world.condemned(3.0) == [], "condemned once"


def test_c04_a_run_that_was_cancelled_before_it_began_is_told_when_it_begins() -> None:
    world = World()
    world.admit(None, "r0")
    world.cancel("r0", reason="early")
    flag = world.registry.begin("r0", 1)
    assert flag is not None
    assert flag.reason == "early"


@pytest.mark.parametrize("attempt", [1, 0])
def test_s5_a_run_that_was_given_up_as_lost_is_told_when_it_begins(attempt: int) -> None:
    """Its process was only out of reach for a while."""
    world = World()
    world.admit(None, "r0")
    if attempt:
        world.lose_for_good("r0")
    assert world.registry.begin("r0", attempt) is not None
    assert world.run("r0").status == ("failed" if attempt else "pending")


def test_c04_normal_completion_wins_if_it_is_first() -> None:
    world = tree()
    world.cancel("r0")
    world.end("a1", status="completed")
    assert world.run("a1").status == "completed"
    assert "a1" not in world.condemned(2.0)
    world.kill("a1")
    assert world.run("a1").status == "completed"


def test_c13_graces_run_bottom_up() -> None:
    """A parent's grace begins when the last run below it has ended."""
    world = tree()
    world.cancel("r0", grace=2.0)
    assert world.registry.next_kill_time() == 2.0
    assert sorted(world.condemned(2.0)) == ["a1", "b"]
    assert world.registry.next_kill_time() is None, "what is condemned is being killed; above it no grace has begun"
    world.now = 2.5
    world.kill("a1")
    assert world.registry.next_kill_time() == 4.5
    world.kill("b")
    assert world.condemned(4.4) == []
    assert world.condemned(4.5) == ["a"]
    world.now = 4.6
    world.end("a", status="cancelled")
    assert world.condemned(6.5) == []
    assert world.condemned(6.6) == ["r0"]
    world.kill("r0")
    assert {run.status for run in world.run("r0").subtree()} == {"cancelled"}
    assert [name for name in ("r0", "a", "b", "a1") if world.run(name).forced] == ["r0", "a", "b", "a1"]


def test_c13_the_orphans_of_a_lost_child_hold_the_grace_of_the_runs_above() -> None:
    world = tree()
    world.cancel("r0", grace=1.0)
    world.end("b")
    report = world.lose("a")
    assert world.condemned(1.0) == ["a1"]
    world.now = 1.5
    world.kill("a1")
    world.judge(report)
    assert world.condemned(2.4) == []
    assert world.condemned(2.5) == ["r0"]


def test_s5_a_lost_run_takes_its_sub_tree_along() -> None:
    world = tree()
    report = world.lose("a")
    assert world.told("a1")
    assert not world.told("b")
    world.lose("a")
    assert world.condemned(2.0) == ["a1"]
    world.kill("a1")
    verdict = world.judge(report)
    assert (verdict.status, verdict.forced, verdict.reason) == ("failed", False, "killed")
    assert [lane.lane for lane in verdict.lanes] == ["a"]
    assert world.run("a").status == "failed"
    world.end("b")
    world.end("r0")
    assert world.run("r0").status == "completed"


def test_s5_what_lives_below_a_run_that_ended_is_ended_too() -> None:
    world = tree()
    world.admit("a", "pending")
    world.end("a", status="failed")
    assert sorted(world.condemned(2.0)) == ["a1", "pending"]


def test_s5_a_loss_during_a_cancel_counts_as_cancelled() -> None:
    world = tree()
    world.cancel("a", reason="user")
    world.condemned(2.0)
    verdict = world.lose_for_good("a1")
    assert (verdict.status, verdict.reason, verdict.forced) == ("cancelled", "user", True)
    verdict = world.lose_for_good("a")
    assert (verdict.status, verdict.forced) == ("cancelled", False)


def test_y13_a_loss_or_end_of_an_older_attempt_changes_nothing() -> None:
    world = tree()
    world.lose("a", attempt=0)
    world.end("b", attempt=0)
    assert world.run("a").live
    assert world.run("b").live


def test_verdict_lists_lanes_deepest_first() -> None:
    world = tree()
    world.start("a1", "a2")
    assert [lane.lane for lane in world.lose_for_good("r0").lanes] == ["a1", "a", "r0"]


@pytest.mark.parametrize("flagged", [False, True])
def test_y12_a_driver_that_left_takes_its_runs_along(flagged: bool) -> None:
    world = tree()
    if flagged:
        world.cancel("r0")
    world.registry.leave(DRIVER, 1.0, "its driver is gone")
    world.registry.leave(DRIVER, 1.0, "again")
    assert {run.status for run in world.run("r0").subtree()} == {"cancelled" if flagged else "failed"}
    assert all(run.error is not None and run.error.code == "lost" for run in world.run("r0").subtree())
    assert world.registry.next_kill_time() is None
    assert not len(world.mailboxes)


def test_s11_worn_out_and_lost_warm_actors_are_replaced() -> None:
    world = World()
    leases = world.registry.driver(DRIVER).leases
    for actor in ("w3", "w2", "w1", "w3"):
        leases.offer(actor)
    assert leases.idle == 3
    actors = [world.start(None, name).actor for name in ("a", "b", "c", "d")]
    assert actors == ["w1", "w2", "w3", None]
    world.end("a", reusable=False)
    world.end("b", reusable=True)
    world.lose("c")
    world.end("d", reusable=True)
    assert [order.actor for order in world.orders(DRIVER) if isinstance(order, RetireOrder)] == ["w1", "w3"]
    assert leases.idle == 1
    assert leases.held == 0
    leases.remove("w2")
    leases.remove("w2")
    assert leases.idle == 0
    assert world.start(None, "e", poolable=False).actor is None


def test_c12_a_kill_never_names_an_actor_that_was_leased_again() -> None:
    """Grace ends at the moment the run ends and its actor is leased again, in a thousand orders of events."""
    for seed in range(1000):
        chance = random.Random(seed)
        world = World()
        leases = world.registry.driver(DRIVER).leases
        for number in range(3):
            leases.offer(f"w{number}")
        live: list[str] = []
        condemned: dict[str, tuple[str, int]] = {}
        for step in range(12):
            world.now += chance.choice([0.0, 0.5, 1.0])
            event = chance.choice(["start", "cancel", "end", "end", "time", "kill", "lose"])
            if event == "start":
                live.append(f"r{step}")
                world.start(None, live[-1])
            elif event == "cancel" and live:
                world.cancel(chance.choice(live), grace=1.0)
            elif event in {"end", "lose"} and live:
                name = live.pop(chance.randrange(len(live)))
                world.end(name) if event == "end" else world.lose_for_good(name)
            elif event == "time":
                for name in world.condemned(world.now):
                    lease = world.run(name).lease
                    condemned[lease.actor] = (name, lease.number)
            elif event == "kill" and condemned:
                actor, (name, _) = condemned.popitem()
                world.kill(name)
                live = [other for other in live if other != name]
                condemned_again = [run for run in live if world.run(run).lease.actor == actor]
                assert not condemned_again, f"seed {seed}: {actor} was leased again before it was killed"
            for name in live:
                run = world.run(name)
                held = condemned.get(run.lease.actor)
                assert held is None or held == (name, run.lease.number), f"seed {seed}: a kill would hit {name}"
        free: Any = leases
        assert not set(condemned) & set(free._idle), f"seed {seed}: a condemned actor is idle"


def test_c01_a_run_that_is_cancelled_before_it_has_a_process_must_not_get_one() -> None:
    world = World()
    world.start(None, "r0")
    world.admit("r0", "a")
    assert world.registry.stopped("a", 1) is None
    world.cancel("a")
    assert world.registry.stopped("a", 1)
    world.end("a", status="cancelled")
    assert world.registry.stopped("a", 1)
    assert world.registry.stopped("r0", 2) == "it is over"
