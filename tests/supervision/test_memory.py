"""What is told to processes is told once, and what has ended is forgotten in the end (D9, C05)."""

from typing import Any

from runtree.actors.supervision import registry as module
from runtree.actors.supervision.mailboxes import Mailboxes
from runtree.messages.control import RetireOrder

from .world import DRIVER, World


def names(reply: Any) -> list[str]:
    return [order.actor for order in reply.orders]


def test_d9_orders_are_repeated_until_they_are_acknowledged() -> None:
    boxes = Mailboxes()
    for actor in ("a", "b"):
        boxes.put("p", RetireOrder(actor=actor))
    first = boxes.collect("p", 0)
    assert names(first) == ["a", "b"]
    assert boxes.collect("p", 0) == first, "the answer was lost: it is given again"
    boxes.put("p", RetireOrder(actor="c"))
    second = boxes.collect("p", first.version)
    assert names(second) == ["c"]
    third = boxes.collect("p", second.version)
    assert names(third) == []
    assert third.version == second.version
    assert not len(boxes)


def test_d9_a_process_that_was_forgotten_does_not_miss_new_orders() -> None:
    boxes = Mailboxes()
    for actor in ("a", "b", "c"):
        boxes.put("p", RetireOrder(actor=actor))
    seen = boxes.collect("p", 0).version
    boxes.close("p")
    boxes.put("p", RetireOrder(actor="d"))
    assert names(boxes.collect("p", seen)) == ["d"]


def test_d9_a_supervisor_that_was_restarted_goes_on_counting() -> None:
    old = Mailboxes()
    old.put("p", RetireOrder(actor="a"))
    seen = old.collect("p", 0).version
    new = Mailboxes(start=1_000_000)
    assert new.collect("p", seen).version == seen
    new.put("p", RetireOrder(actor="b"))
    assert names(new.collect("p", seen)) == ["b"]


def test_mailboxes_are_apart() -> None:
    boxes = Mailboxes()
    boxes.put("p", RetireOrder(actor="a"))
    boxes.put("q", RetireOrder(actor="b"))
    assert names(boxes.collect("q", 0)) == ["b"]
    assert names(boxes.collect("p", 0)) == ["a"]


def test_c05_old_trees_leave_nothing_behind() -> None:
    """More trees than are remembered, whose runs end in every way."""
    world = World()
    registry: Any = world.registry
    for number in range(module.KEPT_TREES + 50):
        root = f"r{number}"
        world.start(None, root)
        for name in ("a", "b", "c"):
            world.start(root, f"{root}{name}")
        world.now = float(number * 10)
        world.cancel(f"{root}a", grace=1.0)
        world.lose_for_good(f"{root}b")
        for due in world.condemned(world.now + 1.0):
            world.kill(due)
        if number % 2:
            world.end(f"{root}c")
            world.end(root)
        else:
            world.lose_for_good(root)
            for due in world.condemned(world.now + 9.0):
                world.kill(due)
    assert len(registry._runs) == module.KEPT_TREES * 4
    assert not len(registry._graces)
    assert not registry._graces._ends
    assert registry.find("r0") is None
    assert registry.find("r49b") is None
    assert registry.find("r50") is not None
    assert registry.driver(DRIVER).leases.held == 0
    assert not len(world.mailboxes), "orders for processes that are gone"
    assert world.registry.runs(ended=False) == ()
    assert len(world.registry.runs(ended=True)) == module.KEPT_TREES * 4
