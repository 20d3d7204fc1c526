"""Which warm actors of a driver are idle, and which run holds which actor under which lease number."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lease:
    """An actor lent to one run."""

    actor: str
    """Name of the actor."""
    number: int
    """Unique over the supervisor's life: a kill that names an older lease misses."""
    run_id: str
    """The run that holds it."""
    warm: bool
    """The actor belongs to the driver's pool and goes back to it."""


class Leases:
    """The pool of one driver. Actors never change their driver."""

    def __init__(self) -> None:
        self._idle: list[str] = []
        self._held: dict[str, Lease] = {}
        self._numbers = 0

    @property
    def idle(self) -> int:
        """Warm actors that wait for a run."""
        return len(self._idle)

    @property
    def held(self) -> int:
        """Leases that have not ended."""
        return len(self._held)

    def offer(self, actor: str) -> None:
        """Add a warm actor; a repeated call changes nothing."""
        if actor not in self._held and actor not in self._idle:
            self._idle.append(actor)

    def take(self, run_id: str, cold_name: str, *, poolable: bool) -> Lease:
        """Lend an idle warm actor if there is one, else note the cold one that will be started under `cold_name`."""
        warm = poolable and bool(self._idle)
        # The one that was used last: its memory is the likeliest to be at hand, and whoever called it last may know it still.
        actor = self._idle.pop() if warm else cold_name
        self._numbers += 1
        lease = self._held[actor] = Lease(actor, self._numbers, run_id, warm)
        return lease

    def give_back(self, lease: Lease, *, reusable: bool) -> bool:
        """End a lease; returns whether the actor is idle again (a withdrawn or worn-out one never is)."""
        if self._held.get(lease.actor) != lease:
            return False
        del self._held[lease.actor]
        if reusable and lease.warm:
            self._idle.append(lease.actor)
            return True
        return False

    def withdraw(self, lease: Lease) -> bool:
        """Take an actor out for good, so that it can be killed without hitting a later run; False if the lease had ended."""
        if self._held.get(lease.actor) != lease:
            return False
        del self._held[lease.actor]
        return True

    def remove(self, actor: str) -> None:
        """Forget an idle actor that is gone."""
        if actor in self._idle:
            self._idle.remove(actor)
