"""Which warm actors of a driver are idle, and which runs hold which actor under which lease number.

An actor is lent to one run, or, packed, to several of one tree and one agent. An actor from which a run has to be killed takes no new runs and is
killed as soon as the others have ended, at the latest when their grace has.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

_NEVER = float("inf")

SURPLUS_SECONDS = 10.0
"""Idle time of an actor beyond the size of the pool: the next turn of a tree often needs it again, and it holds memory."""


class Packing(NamedTuple):
    """Which runs may share an actor."""

    root_run_id: str
    """Their tree."""
    agent: str
    """Key of their agent in the tree."""
    size: int
    """How many may at a time."""


@dataclass(frozen=True, slots=True)
class Lease:
    """An actor lent to a run, alone or with others."""

    actor: str
    """Name of the actor."""
    number: int
    """Unique over the supervisor's life: a kill that names an older lease misses."""
    run_id: str
    """The run that holds it."""
    warm: bool
    """The actor was in the driver's pool before."""
    shared: bool = False
    """Other runs may hold it too: it is the driver's in any case."""
    fresh: bool = False
    """It is shared, and the driver has yet to start it."""


class Doomed(NamedTuple):
    """An actor that is to be killed, and will be lent no more."""

    actor: str
    """Its name."""
    condemned: tuple[Lease, ...]
    """Of the runs for which it is killed."""
    bystanders: tuple[Lease, ...]
    """Of the runs that are lost with it."""


@dataclass(slots=True, eq=False)
class LentActor:
    """An actor that runs hold."""

    name: str
    of_driver: bool
    """The driver ends it, and not whoever called it."""
    returns: bool
    """It goes to the pool when nobody holds it any more."""
    packing: Packing | None
    warm: bool = False
    """It was in the pool before."""
    holders: dict[int, Lease] = field(default_factory=dict[int, Lease])
    condemned: set[int] = field(default_factory=set[int])
    draining: bool = False
    kill_at: float = _NEVER

    @property
    def has_room(self) -> bool:
        """Whether another run of its tree and agent may hold it."""
        return self.packing is not None and not self.draining and len(self.holders) < self.packing.size

    @property
    def kill_time(self) -> float:
        """When it is to be killed."""
        if not self.condemned:
            return _NEVER
        return self.kill_at if len(self.holders) > len(self.condemned) else 0.0


class Leases:
    """The pool of one driver. Actors never change their driver."""

    def __init__(self, on_change: Callable[[str], None] | None = None) -> None:
        """Make an empty pool.

        Args:
            on_change: Called with the name of an actor that came, went, or changed; all that is kept of the pool may have changed then.
        """
        self.on_change = on_change
        self._idle: dict[str, float] = {}
        """Since when, the latest last."""
        self._held: dict[str, LentActor] = {}
        self._open: dict[Packing, dict[str, LentActor]] = {}
        """Shared actors with room."""
        self._dying: dict[str, LentActor] = {}
        """Actors with condemned runs."""
        self._numbers = 0
        self._shrunk = False

    def resume(self, idle: dict[str, float], lent: Iterable[LentActor], numbers: int, *, shrunk: bool) -> None:
        """Take up what an earlier supervisor knew.

        Args:
            idle: Actors that wait for a run, and since when, the latest last.
            lent: Actors that runs hold.
            numbers: Number of the last lease.
            shrunk: Whether the pool has shrunk.
        """
        self._idle, self._numbers, self._shrunk = idle, numbers, shrunk
        for actor in lent:
            self._held[actor.name] = actor
            self._sort(actor)

    @property
    def idle(self) -> int:
        """Warm actors that wait for a run."""
        return len(self._idle)

    @property
    def held(self) -> int:
        """Leases that have not ended."""
        return sum(len(actor.holders) for actor in self._held.values())

    def offer(self, actor: str, now: float = 0.0) -> None:
        """Add a warm actor; a repeated call changes nothing."""
        if actor not in self._held:
            self._idle.setdefault(actor, now)
            self._changed(actor)

    def take(self, run_id: str, cold_name: str, *, poolable: bool, packing: Packing | None = None) -> Lease:
        """Lend an actor: a shared one that has room, else an idle warm one, else a cold one that will be started under `cold_name`."""
        self._numbers += 1
        shared = packing is not None
        actor = next(iter(self._open.get(packing, {}).values()), None) if packing is not None else None
        fresh = False
        if actor is None and poolable and self._idle:
            # The one that was used last: its memory is the likeliest to be at hand, and whoever called it last may know it still.
            name, _ = self._idle.popitem()
            actor = LentActor(name, of_driver=True, returns=True, packing=packing, warm=True)
        elif actor is None:
            # A run that is started again may find its earlier actor still draining under the plain name.
            name = f"{cold_name}.{self._numbers}" if shared else cold_name
            fresh = shared
            actor = LentActor(name, of_driver=shared, returns=shared and poolable, packing=packing)
        lease = Lease(actor.name, self._numbers, run_id, actor.warm, shared, fresh)
        self._held[actor.name] = actor
        actor.holders[lease.number] = lease
        self._sort(actor)
        return lease

    def give_back(self, lease: Lease, *, reusable: bool, now: float = 0.0) -> bool:
        """End a lease; returns whether the driver has to end the actor, because it is worn out or for nobody else."""
        actor = self._holding(lease)
        if actor is None:
            return False
        self._release(actor, lease)
        actor.draining |= not reusable
        self._sort(actor)
        if actor.holders:
            return False
        if actor.draining or not actor.returns:
            return actor.of_driver
        self._idle[actor.name] = now
        return False

    def withdraw(self, lease: Lease) -> bool:
        """Take an actor that one run had for itself out for good; returns whether the driver has to replace it."""
        actor = self._holding(lease)
        if actor is None or actor.packing is not None:
            return False
        self._release(actor, lease)
        self._sort(actor)
        return actor.of_driver

    def condemn(self, lease: Lease, kill_at: float) -> None:
        """Have the actor of a lease killed: now if nobody else holds it, else when the others have ended, at the latest at `kill_at`."""
        actor = self._holding(lease)
        if actor is None:
            return
        actor.condemned.add(lease.number)
        actor.draining = True
        actor.kill_at = min(actor.kill_at, kill_at)
        self._sort(actor)

    def doomed(self, now: float) -> list[Doomed]:
        """Take out the actors whose time has come."""
        return [self._take_out(actor) for actor in list(self._dying.values()) if actor.kill_time <= now]

    def next_kill_time(self) -> float:
        """Return when the next actor has to be killed; infinity if none has to be."""
        return min((actor.kill_time for actor in self._dying.values()), default=_NEVER)

    def alone(self, lease: Lease) -> bool:
        """Whether no other run holds the actor."""
        actor = self._held.get(lease.actor)
        return actor is None or len(actor.holders) == (lease.number in actor.holders)

    def remove(self, actor: str) -> None:
        """Forget an idle actor that is gone."""
        if self._idle.pop(actor, None) is not None:
            self._changed(actor)

    def expire(self, now: float, size: int, idle_seconds: float) -> tuple[list[str], list[str]]:
        """Take out actors that have been idle for long: those beyond the pool's size, and, after `idle_seconds`, all of it but one.

        Args:
            now: The time.
            size: Size of the pool.
            idle_seconds: How long an actor of it may be idle.

        Returns:
            Those beyond the size, and those by which the pool shrinks until it is asked for an actor again.
        """
        surplus: list[str] = []
        shrunk: list[str] = []
        have = len(self._idle) + sum(actor.returns for actor in self._held.values())
        for name, since in sorted(self._idle.items(), key=lambda entry: entry[1]):
            if have - len(surplus) > size and now - since >= SURPLUS_SECONDS:
                surplus.append(name)
            elif have - len(surplus) - len(shrunk) > 1 and now - since >= idle_seconds:
                shrunk.append(name)
        for name in surplus + shrunk:
            del self._idle[name]
            self._changed(name)
        self._shrunk |= bool(shrunk)
        return surplus, shrunk

    def wants_refill(self) -> bool:
        """Whether the pool shrunk and is in use again; true once."""
        refill = self._shrunk and bool(self._held)
        self._shrunk &= not refill
        return refill

    def lent(self, name: str) -> LentActor | None:
        """Return an actor that is lent."""
        return self._held.get(name)

    def idle_since(self, name: str) -> float | None:
        """Return since when an actor waits for a run; `None` if it does not."""
        return self._idle.get(name)

    def numbers(self) -> tuple[int, bool]:
        """Return the number of the last lease, and whether the pool has shrunk."""
        return self._numbers, self._shrunk

    def _changed(self, name: str) -> None:
        if self.on_change is not None:
            self.on_change(name)

    def _holding(self, lease: Lease) -> LentActor | None:
        actor = self._held.get(lease.actor)
        return actor if actor is not None and lease.number in actor.holders else None

    def _release(self, actor: LentActor, lease: Lease) -> None:
        del actor.holders[lease.number]
        actor.condemned.discard(lease.number)
        if not actor.holders:
            del self._held[actor.name]

    def _take_out(self, actor: LentActor) -> Doomed:
        held = actor.holders.items()
        condemned = tuple(lease for number, lease in held if number in actor.condemned)
        bystanders = tuple(lease for number, lease in held if number not in actor.condemned)
        del self._held[actor.name], self._dying[actor.name]
        self._changed(actor.name)
        return Doomed(actor.name, condemned, bystanders)

    def _sort(self, actor: LentActor) -> None:
        """Note whether the actor has room, and whether it is to be killed."""
        self._changed(actor.name)
        if actor.condemned:
            self._dying[actor.name] = actor
        else:
            self._dying.pop(actor.name, None)
            actor.kill_at = _NEVER
        if actor.packing is None:
            return
        if actor.holders and actor.has_room:
            self._open.setdefault(actor.packing, {})[actor.name] = actor
        elif (group := self._open.get(actor.packing)) is not None:
            group.pop(actor.name, None)
            if not group:
                del self._open[actor.packing]
