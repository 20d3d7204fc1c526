"""Leases under any order of events: nobody gets what is not free, a kill hits only who is there, nothing is left over (rules N, S11)."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from runtree.actors.supervision.leases import Lease, Leases, Packing

GROUPS = [("t0", "a"), ("t0", "b"), ("t1", "a")]


class Lending(RuleBasedStateMachine):
    """Leases, and beside them what must be true of them."""

    def __init__(self) -> None:
        super().__init__()
        self.leases: Any = Leases()
        self.live: dict[int, tuple[Lease, Packing | None]] = {}
        self.draining: set[str] = set()
        self.gone: set[str] = set()
        self.condemned: set[int] = set()
        self.now = 0.0
        self.steps = 0

    @initialize(size=st.integers(2, 4))
    def begin(self, size: int) -> None:
        self.packings = [Packing(*group, size) for group in GROUPS]

    def on(self, actor: str) -> list[int]:
        return [number for number, (lease, _) in self.live.items() if lease.actor == actor]

    def pick(self, choice: int) -> Lease:
        return self.live[sorted(self.live)[choice % len(self.live)]][0]

    @rule()
    def offer(self) -> None:
        self.steps += 1
        self.leases.offer(f"w{self.steps}", self.now)

    @rule(group=st.sampled_from([0, 0, 1, 2, None]), poolable=st.booleans())
    def take(self, group: int | None, poolable: bool) -> None:
        self.steps += 1
        packing = None if group is None else self.packings[group]
        lease = self.leases.take(f"r{self.steps}", f"c{self.steps}", poolable=poolable, packing=packing)
        beside = self.on(lease.actor)
        assert len(beside) < (1 if packing is None else packing.size)
        assert all(self.live[number][1] == packing for number in beside)
        assert lease.actor not in self.draining | self.gone
        assert not (lease.fresh and beside), "an actor is started once"
        assert lease.number not in self.live
        self.live[lease.number] = (lease, packing)

    @precondition(lambda self: self.live)
    @rule(choice=st.integers(0, 99), reusable=st.booleans())
    def end(self, choice: int, reusable: bool) -> None:
        lease = self.pick(choice)
        self.forget(lease)
        to_be_ended = self.leases.give_back(lease, reusable=reusable, now=self.now)
        if not reusable:
            self.draining.add(lease.actor)
        if to_be_ended:
            assert not self.on(lease.actor)
            self.gone.add(lease.actor)
        assert not self.leases.give_back(lease, reusable=True, now=self.now), "once"

    @precondition(lambda self: self.live)
    @rule(choice=st.integers(0, 99))
    def condemn(self, choice: int) -> None:
        lease = self.pick(choice)
        self.leases.condemn(lease, self.now + 3.0)
        self.condemned.add(lease.number)
        self.draining.add(lease.actor)

    @precondition(lambda self: any(packing is None for _, packing in self.live.values()))
    @rule(choice=st.integers(0, 99))
    def lose_one_that_was_alone(self, choice: int) -> None:
        alone = [number for number, (_, packing) in self.live.items() if packing is None]
        lease, _ = self.live[alone[choice % len(alone)]]
        self.leases.withdraw(lease)
        self.forget(lease)
        self.gone.add(lease.actor)

    @rule(seconds=st.integers(0, 4))
    def wait(self, seconds: int) -> None:
        self.now += seconds
        for actor, condemned, bystanders in self.leases.doomed(self.now):
            assert sorted(lease.number for lease in condemned + bystanders) == sorted(self.on(actor))
            assert condemned
            assert {lease.number for lease in condemned} <= self.condemned
            self.gone.add(actor)
            for lease in condemned + bystanders:
                self.forget(lease)
        assert self.leases.next_kill_time() > self.now

    @rule(size=st.integers(0, 3))
    def shrink(self, size: int) -> None:
        for actors in self.leases.expire(self.now, size, 5.0):
            assert not any(self.on(actor) for actor in actors)
            self.gone.update(actors)

    @invariant()
    def nothing_is_counted_twice(self) -> None:
        assert self.leases.held == len(self.live)
        assert not set(self.leases._idle) & (
            self.draining | self.gone | {lease.actor for lease, _ in self.live.values()}
        )

    def forget(self, lease: Lease) -> None:
        del self.live[lease.number]
        self.condemned.discard(lease.number)

    def teardown(self) -> None:
        for lease, _ in self.live.values():
            self.leases.give_back(lease, reusable=True, now=self.now)
        assert [self.leases._held, self.leases._open, self.leases._dying] == [{}, {}, {}]


TestLending = Lending.TestCase
TestLending.settings = settings(max_examples=60, stateful_step_count=40)
