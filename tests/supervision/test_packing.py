"""Runs that share an actor: who may, who is killed with whom, and what is left of it (rules N, S11)."""

from typing import Any

from runtree.actors.supervision.leases import SURPLUS_SECONDS, Leases, Packing
from runtree.messages.control import Admitted, Order, RefillOrder, RetireOrder, StartOrder

from .world import DRIVER, World

PACKED: dict[str, Any] = {"runs_per_actor": 3, "agent_key": "lead/worker"}


def orders(world: World, kind: type[Order]) -> list[str]:
    """Poll as the driver; return the actors that orders of a kind name."""
    return [order.actor for order in world.orders(DRIVER) if isinstance(order, kind)]  # type: ignore[union-attr]


def packed(*names: str, warm: int = 0, **fields: Any) -> tuple[World, list[Admitted]]:
    """A lead with so many warm actors in its pool, and workers below it that share actors, three to one."""
    world = World()
    for number in range(warm):
        world.registry.driver(DRIVER).leases.offer(f"w{number}")
    world.start(None, "r0", poolable=False)
    admitted = [world.start("r0", name, **{**PACKED, **fields}) for name in names]
    return world, admitted


def test_n_a_fan_out_starts_as_few_actors_as_it_needs() -> None:
    world, admitted = packed(*(f"a{number}" for number in range(7)))
    actors = [each.actor_name for each in admitted]
    assert len(set(actors)) == 3
    assert [actors.count(actor) for actor in dict.fromkeys(actors)] == [3, 3, 1]
    assert all(each.shared and each.actor is None for each in admitted)
    assert orders(world, StartOrder) == list(dict.fromkeys(actors)), "the driver starts each of them once"


def test_n_a_warm_actor_becomes_shared_and_goes_back() -> None:
    world, admitted = packed("a", "b", warm=1)
    assert [each.actor for each in admitted] == ["w0", "w0"]
    assert not orders(world, StartOrder)
    leases = world.registry.driver(DRIVER).leases
    world.end("a")
    assert leases.idle == 0
    world.end("b")
    assert leases.idle == 1
    assert world.start("r0", "alone").actor == "w0"


def test_n_a_cold_shared_actor_becomes_a_warm_one() -> None:
    world, (first,) = packed("a")
    world.end("a")
    assert world.start("r0", "alone").actor == first.actor_name
    assert not orders(world, RetireOrder)


def test_n_an_actor_with_resources_of_its_own_ends_with_its_last_run() -> None:
    world, (first, _) = packed("a", "b", poolable=False, resources={"num_gpus": 0.1})
    [start] = [order for order in world.orders(DRIVER) if isinstance(order, StartOrder)]
    assert start.resources == {"num_gpus": 0.1}
    world.end("a")
    assert not orders(world, RetireOrder)
    world.end("b")
    assert orders(world, RetireOrder) == [first.actor_name]


def test_n_other_trees_and_agents_get_other_actors() -> None:
    world, (first,) = packed("a")
    other_agent = world.start("r0", "b", **{**PACKED, "agent_key": "lead/other"})
    world.start(None, "r1")
    other_tree = world.start("r1", "c", **PACKED)
    assert len({first.actor_name, other_agent.actor_name, other_tree.actor_name}) == 3


def test_n_a_run_that_ends_by_itself_kills_nobody() -> None:
    world, _ = packed("a", "b")
    world.cancel("a")
    world.end("a", status="cancelled")
    assert world.condemned(10.0) == []
    assert world.registry.next_kill_time() is None
    assert world.start("r0", "c", **PACKED).actor_name == world.run("b").lease.actor


def test_n_a_kill_gives_those_beside_it_grace() -> None:
    world, (first, *_) = packed("a", "b", "c")
    world.cancel("a", grace=2.0)
    assert world.condemned(2.0) == [], "the others have grace"
    assert world.run("a").live
    assert world.start("r0", "d", **PACKED).actor_name != first.actor_name, "a draining actor gets no new runs"
    world.now = 3.0
    world.end("b")
    assert world.registry.next_kill_time() == 4.0
    assert world.condemned(4.0) == ["a"]
    world.kill("a")
    assert (world.run("a").status, world.run("a").forced) == ("cancelled", True)
    verdict = world.lose_for_good("c")
    assert (verdict.status, verdict.preempted, verdict.forced) == ("failed", True, False)
    assert not world.lose_for_good("d").preempted
    assert world.condemned(9.0) == ["d"]
    assert world.registry.driver(DRIVER).leases.held == 1
    assert not orders(world, RetireOrder), "an actor that is killed needs no other end"


def test_n_nobody_is_waited_for_when_all_others_have_ended() -> None:
    world, _ = packed("a", "b")
    world.cancel("a", grace=2.0)
    assert world.condemned(2.0) == []
    world.now = 2.5
    world.end("b")
    assert world.condemned(2.5) == ["a"]


def test_n_a_tree_that_is_cancelled_waits_for_no_second_grace() -> None:
    world, _ = packed("a", "b", "c")
    world.cancel("r0", grace=2.0)
    assert sorted(world.condemned(2.0)) == ["a", "b", "c"]
    for name in ("a", "b", "c"):
        world.kill(name)
    assert world.registry.driver(DRIVER).leases.held == 1


def test_n_a_cancelled_run_beside_a_killed_one_counts_as_killed() -> None:
    world, _ = packed("a", "b")
    world.cancel("a", grace=1.0)
    assert world.condemned(1.0) == []
    world.cancel("b", grace=9.0)
    assert sorted(world.condemned(2.0)) == ["a", "b"]
    world.kill("b")
    assert world.run("b").forced
    assert not world.run("b").preempted


def test_n_a_late_end_saves_those_beside_it() -> None:
    world, (first, _) = packed("a", "b")
    world.cancel("a", grace=1.0)
    assert world.condemned(1.0) == []
    world.end("a", status="cancelled")
    assert world.registry.next_kill_time() is None
    assert world.condemned(9.0) == []
    assert world.start("r0", "c", **PACKED).actor_name != first.actor_name, "it did not stop in time: no new runs"
    world.end("b")
    assert orders(world, RetireOrder) == [first.actor_name]


def test_n_a_lost_run_takes_the_actor_out() -> None:
    world, (first, *_) = packed("a", "b", "c", warm=1)
    world.lose("a")
    assert world.start("r0", "d", **PACKED).actor_name != first.actor_name
    assert world.condemned(0.0) == []
    world.lose("b")
    world.lose("c")
    assert set(world.condemned(0.0)) == {"a", "b", "c"}, "nobody is on it any more"
    assert not any(world.run(name).preempted for name in "abc")


def test_n_a_worn_out_actor_ends_with_its_last_run() -> None:
    world, (first, _) = packed("a", "b", warm=1)
    world.end("a", reusable=False)
    assert world.start("r0", "c", **PACKED).actor_name != first.actor_name
    world.end("b")
    assert orders(world, RetireOrder) == ["w0"]


def test_n_orders_for_those_beside_an_ended_run_are_kept() -> None:
    world, _ = packed("a", "b")
    world.cancel("b")
    world.end("a")
    assert world.told("b")
    world.end("b", status="cancelled")
    world.orders(DRIVER)
    world.orders(DRIVER)
    assert not len(world.mailboxes)


def test_s11_a_pool_shrinks_when_idle_and_is_refilled_when_used() -> None:
    leases = Leases()
    for number in range(4):
        leases.offer(f"w{number}", now=float(number))
    assert leases.expire(100.0, 4, 300.0) == ([], [])
    assert leases.expire(301.5, 4, 300.0) == ([], ["w0", "w1"])
    assert leases.expire(999.0, 4, 300.0) == ([], ["w2"]), "one is kept"
    assert not leases.wants_refill()
    assert leases.take("r0", "cold", poolable=True).actor == "w3"
    assert leases.wants_refill()
    assert not leases.wants_refill()


def test_s11_actors_beyond_the_size_of_the_pool_end_sooner() -> None:
    leases = Leases()
    packing = Packing("r0", "worker", 2)
    runs = [leases.take(f"a{number}", f"c{number}", poolable=True, packing=packing) for number in range(6)]
    leases.offer("w0", now=0.0)
    for lease in runs:
        assert not leases.give_back(lease, reusable=True, now=1.0)
    assert leases.idle == 4
    assert leases.expire(SURPLUS_SECONDS, 1, 300.0) == (["w0"], [])
    surplus, shrunk = leases.expire(SURPLUS_SECONDS + 1.0, 1, 300.0)
    assert (len(surplus), shrunk, leases.idle) == (2, [], 1)


def test_s11_the_supervisor_tells_the_driver_to_shrink_and_to_refill() -> None:
    world = World(warm=2)
    for number in range(2):
        world.registry.driver(DRIVER).leases.offer(f"w{number}", 0.0)
    world.registry.shrink_pools(1000.0)
    [order] = world.orders(DRIVER)
    assert isinstance(order, RetireOrder)
    assert (order.actor, order.shrink) == ("w0", True)
    world.start(None, "r0")
    assert [type(order) for order in world.orders(DRIVER)] == [RefillOrder]


def test_c12_a_kill_is_not_about_a_run_that_was_started_again_elsewhere() -> None:
    world, (first, _) = packed("a", "b")
    world.lose("a")
    run = world.run("a")
    run.status, run.lease = "running", run.driver.leases.take("a", "again", poolable=False)
    run.touch()
    [kill] = world.registry.condemn_due(5.0)
    assert (kill.lease.actor, kill.lease.number, kill.pending) == (first.actor_name, first.lease, False)
