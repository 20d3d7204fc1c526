"""What of the registry has changed since it was last saved. Everything that changes a fact says so here, and nothing else is ever written."""

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ...messages.control import Order

if TYPE_CHECKING:
    from .records import Driver, Run


class PutOrder(NamedTuple):
    """An order a process has not acknowledged yet."""

    number: int
    process: str
    order: Order


class DropOrders(NamedTuple):
    """A process has acknowledged its orders up to a number, or is gone."""

    process: str
    up_to: int


Permit: TypeAlias = tuple[str, int, int]
"""Run id, attempt and number of the reservation of a model call."""


class BegunCall:
    """A call that counts for the last minute of its model."""

    __slots__ = ("model", "old", "permit", "time", "tokens")

    def __init__(self, permit: Permit, model: str, time: float, tokens: int) -> None:
        self.permit, self.model = permit, model
        self.time, self.tokens = time, tokens
        self.old = False


class Changes:
    """Records that changed, each once however often it did, in the order in which they first did."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self.drivers: dict[str, Driver] = {}
        self.actors: dict[tuple[str, str], Driver] = {}
        """By driver and name; what the driver's leases know of one, which may be nothing any more."""
        self.forgotten_trees: list[str] = []
        self.forgotten_drivers: list[str] = []
        self.orders: list[PutOrder | DropOrders] = []
        self.pauses: dict[str, float] = {}
        """Models, and until when they are left alone."""
        self.calls: dict[Permit, BegunCall] = {}
        """Calls of models of which a minute is bounded."""

    def __bool__(self) -> bool:
        return any(self.__dict__.values())

    def forget_tree(self, runs: "list[Run]") -> None:
        """Note that a tree is forgotten; its root comes first."""
        for run in runs:
            self.runs.pop(run.run_id, None)
        self.forgotten_trees.append(runs[0].run_id)

    def forget_driver(self, driver_id: str) -> None:
        """Note that a driver is forgotten."""
        self.drivers.pop(driver_id, None)
        self.actors = {key: driver for key, driver in self.actors.items() if key[0] != driver_id}
        self.forgotten_drivers.append(driver_id)

    def put_back(self, taken: "Changes") -> None:
        """Note again what could not be saved."""
        forgotten = set(self.forgotten_trees)
        runs = {name: run for name, run in taken.runs.items() if run.stamp.root_run_id not in forgotten}
        self.runs = {**runs, **self.runs}
        drivers = {name: driver for name, driver in taken.drivers.items() if name not in self.forgotten_drivers}
        self.drivers = {**drivers, **self.drivers}
        actors = {key: driver for key, driver in taken.actors.items() if key[0] not in self.forgotten_drivers}
        self.actors = {**actors, **self.actors}
        self.forgotten_trees[:0] = taken.forgotten_trees
        self.forgotten_drivers[:0] = taken.forgotten_drivers
        self.orders[:0] = taken.orders
        self.pauses = {**taken.pauses, **self.pauses}
        self.calls = {**taken.calls, **self.calls}

    def take(self) -> "Changes":
        """Return all that has changed, and start anew."""
        taken = Changes()
        taken.__dict__, self.__dict__ = self.__dict__, taken.__dict__
        return taken
