"""What goes to the store and comes from it: rows of facts, as plain values that no later change of the registry reaches."""

from typing import NamedTuple

from ...messages.control import Order
from .changes import Changes, DropOrders, PutOrder
from .facts import ActorFacts, DriverFacts, RunFacts, facts_of_actor, facts_of_driver, facts_of_run


class CallFacts(NamedTuple):
    """A call of a model of which a minute is bounded: the columns of its row."""

    run_id: str
    attempt: int
    number: int
    model: str
    begun: float
    tokens: int


class Batch(NamedTuple):
    """What is written in one transaction."""

    drivers: list[DriverFacts]
    actors: list[tuple[str, str, ActorFacts | None]]
    """Driver, name, and facts; `None`: it is gone."""
    runs: list[RunFacts]
    orders: list[PutOrder | DropOrders]
    forgotten_trees: list[str]
    forgotten_drivers: list[str]
    pauses: dict[str, float]
    """Models, and until when they are left alone."""
    calls: list[CallFacts]

    @classmethod
    def of(cls, changes: Changes) -> "Batch":
        """Take down what has changed, as it is now."""
        return cls(
            drivers=[facts_of_driver(driver) for driver in changes.drivers.values()],
            actors=[
                (driver_id, name, facts_of_actor(driver.leases, name))
                for (driver_id, name), driver in changes.actors.items()
            ],
            runs=[facts_of_run(run) for run in changes.runs.values()],
            orders=changes.orders,
            forgotten_trees=changes.forgotten_trees,
            forgotten_drivers=changes.forgotten_drivers,
            pauses=changes.pauses,
            calls=[CallFacts(*call.permit, call.model, call.time, call.tokens) for call in changes.calls.values()],
        )


class Saved(NamedTuple):
    """All that a store holds."""

    drivers: list[DriverFacts]
    actors: list[tuple[str, str, ActorFacts]]
    """Driver, name and facts, those that wait longest first."""
    runs: list[RunFacts]
    """In the order of their admission."""
    orders: list[tuple[int, str, Order]]
    """Number, process and order, by number."""
    pauses: dict[str, float]
    """Models, and until when they are left alone."""
    calls: list[CallFacts]
    """In the order in which they began; some began longer ago than they count."""
