"""What the leases of runs mean for their drivers: which actors are to be started, ended, killed or done without. Orders go out through `mailboxes`."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from ...messages.control import ChildRequest, RefillOrder, RetireOrder, StartOrder
from .leases import Lease, Packing
from .mailboxes import Mailboxes
from .records import Driver, Run

NEVER: Final = float("inf")


class Kill(NamedTuple):
    """A run whose actor is to be killed."""

    run: Run
    """The run; it may have ended, or have been started again on another actor."""
    lease: Lease
    """What it held: names the actor."""

    @property
    def pending(self) -> bool:
        """Whether the run lives on that actor still, as far as is known."""
        return self.run.live and self.run.lease == self.lease


class Lending:
    """Lends the actors of drivers to their runs."""

    def __init__(self, mailboxes: Mailboxes) -> None:
        self._mailboxes = mailboxes

    def lend(self, driver: Driver, child: ChildRequest, root_run_id: str, attempt: int = 1) -> Lease:
        """Lend an actor to an attempt of a run; one that others will share is started by the driver."""
        packing: Packing | None = None
        if child.runs_per_actor > 1:
            packing = Packing(root_run_id, child.agent_key or child.agent, child.runs_per_actor)
        # No other attempt ever has the name: an order for an earlier actor must not find this one.
        cold_name = (
            f"run:{child.agent}:{child.run_id}" if attempt == 1 else f"run:{child.agent}:{child.run_id}:{attempt}"
        )
        lease = driver.leases.take(child.run_id, cold_name, poolable=child.poolable, packing=packing)
        if lease.fresh:
            self._tell(driver, StartOrder(actor=lease.actor, resources=child.resources))
        if driver.leases.wants_refill():
            self._tell(driver, RefillOrder())
        return lease

    def take_back(self, run: Run, now: float, *, reusable: bool) -> None:
        """End the lease of a run that ended by itself."""
        if run.driver.leases.give_back(run.lease, reusable=reusable, now=now):
            self._tell(run.driver, RetireOrder(actor=run.lease.actor))

    def lose(self, run: Run, kill_at: float) -> None:
        """Take the actor of a lost run out.

        A shared one may be only out of reach of whoever called it: it must not go on, but those beside the run have until `kill_at`.
        """
        if run.lease.shared:
            run.driver.leases.condemn(run.lease, kill_at)
        elif run.driver.leases.withdraw(run.lease):
            self._tell(run.driver, RetireOrder(actor=run.lease.actor))

    def condemn(self, run: Run, now: float) -> None:
        """Have the actor of a run killed that outlived its grace; those beside it have the same grace once more."""
        run.forced = True
        run.touch()
        run.driver.leases.condemn(run.lease, now + (0.0 if run.flag is None else run.flag.grace))

    def doomed(self, drivers: Iterable[Driver], find: Callable[[str], Run | None], now: float) -> Iterator[Kill]:
        """Take out the actors that are to be killed now; their other runs are lost through no fault of theirs."""
        for driver in drivers:
            for actor, condemned, bystanders in driver.leases.doomed(now):
                self._mailboxes.close(actor)
                for lease in condemned + bystanders:
                    run = find(lease.run_id)
                    if run is None:
                        continue
                    if lease in condemned:
                        yield Kill(run, lease)
                    elif run.flag is None:
                        run.preempted = True
                        run.touch()
                    else:
                        run.forced = True
                        run.touch()
                        yield Kill(run, lease)

    def next_kill_time(self, drivers: Iterable[Driver]) -> float:
        """Return when the next actor is to be killed that takes no new runs already."""
        return min((driver.leases.next_kill_time() for driver in drivers), default=NEVER)

    def shrink(self, drivers: Iterable[Driver], now: float) -> None:
        """Have actors ended that have been idle for long."""
        for driver in drivers:
            surplus, shrunk = driver.leases.expire(now, driver.hello.warm, driver.hello.warm_idle_seconds)
            for actor in surplus:
                self._tell(driver, RetireOrder(actor=actor))
            for actor in shrunk:
                self._tell(driver, RetireOrder(actor=actor, shrink=True))

    def forget_orders(self, run: Run) -> None:
        """Forget what the process of an ended run was to be told, unless it has other runs."""
        if run.driver.leases.alone(run.lease):
            self._mailboxes.close(run.lease.actor)

    def _tell(self, driver: Driver, order: StartOrder | RetireOrder | RefillOrder) -> None:
        self._mailboxes.put(driver.hello.driver_id, order)
