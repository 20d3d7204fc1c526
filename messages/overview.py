"""What a supervisor tells of itself and of its namespace, to people who look on."""

from typing import Literal

from .result import RunInfo
from .usage import NO_COST, NO_USAGE, Cost, Usage
from .value import Value


class DriverInfo(Value):
    """A Runtime that has joined, and its warm processes."""

    driver_id: str
    """Id of the Runtime."""
    host: str
    """Host name."""
    pid: int
    """Process id."""
    version: str
    """Version of its runtree."""
    live_runs: int = 0
    """Its runs that have not ended."""
    warm_idle: int = 0
    """Warm actors that wait for a run."""
    held: int = 0
    """Actors that have a run, cold ones too."""


class SupervisorInfo(Value):
    """The supervisor of a namespace."""

    namespace: str
    """Its Ray namespace."""
    version: str
    """Version of its runtree."""
    wire_version: int
    """Version of the protocol it speaks."""
    host: str
    """Host name."""
    pid: int
    """Process id."""
    node_id: str
    """Ray's id of its node."""
    started: float
    """Seconds since the epoch: start of this process, which is not the first one after a crash."""
    live_runs: int
    """Runs that have not ended."""
    ended_runs: int
    """Runs that have ended and are remembered."""
    store: str | None = None
    """File that keeps its state; `None`: none could be opened."""
    problem: str = ""
    """Why it can't work at the moment."""
    drivers: tuple[DriverInfo, ...] = ()
    """Who has joined."""


class NamespaceView(Value):
    """What runs in a namespace at one moment."""

    kind: Literal["namespace_view"] = "namespace_view"
    namespace: str
    """The Ray namespace."""
    time: float
    """The supervisor's clock, seconds since the epoch."""
    drivers: int
    """Runtimes that have joined."""
    live_runs: int
    """Runs that have not ended."""
    ended_runs: int
    """Runs that have ended and are remembered."""
    usage: Usage = NO_USAGE
    """Of the trees that were asked for, all their runs together."""
    cost: Cost = NO_COST
    """Of the trees that were asked for, all their runs together."""
    left_out: int = 0
    """Runs that were asked for and are not in `runs`, because there are too many."""
    runs: tuple[RunInfo, ...] = ()
    """Parents before their children."""
