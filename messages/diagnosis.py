"""What `runtree doctor` finds: facts of a machine and a cluster, and what follows from them."""

from typing import Literal

from pydantic import Field

from .overview import SupervisorInfo
from .value import Value

Tone = Literal["good", "plain", "bad"]
"""As it should be, worth knowing, or a problem."""


class Machine(Value):
    """What a process sees of the machine it runs on."""

    host: str
    """Host name."""
    python: str
    """Version of Python."""
    ray: str
    """Version of Ray."""
    runtree: str | None
    """Version of runtree; `None` where it is not installed."""
    memory: int = 0
    """Bytes of memory, of the container if there is one."""
    memory_used: int = 0
    """Bytes of it that are taken."""
    shared_memory: int = 0
    """Bytes of `/dev/shm`, where Ray keeps objects; 0 where there is none."""
    disk: int = 0
    """Bytes of the disk that holds Ray's files."""
    disk_free: int = 0
    """Bytes of it that are free."""
    open_files: int = 0
    """Files and sockets one process may have open; 0 for any number."""
    memory_monitor: bool = True
    """Whether Ray ends processes before the machine runs out of memory."""


class NodeInfo(Value):
    """A node of a cluster."""

    node_id: str
    """Ray's id of it."""
    address: str
    """Its address inside the cluster."""
    head: bool
    """Whether it is the head."""
    resources: dict[str, float]
    """What Ray may give to tasks and actors."""
    object_store: int = 0
    """Bytes its object store may hold."""
    object_store_used: int | None = None
    """Bytes it holds; `None` if it did not tell."""
    machine: Machine | None = None
    """What a task on it saw; `None` if none could be run in time."""
    problem: str | None = None
    """Why not."""


class RayInfo(Value):
    """The Ray that was found."""

    address: str
    """Host and port of its head."""
    token: bool
    """Whether this process shows a token to it."""
    nodes: tuple[NodeInfo, ...] = ()
    """Its living nodes."""
    dead_nodes: int = 0
    """Nodes that have left or were lost."""
    available: dict[str, float] = Field(default_factory=dict)
    """Resources nobody holds."""


class Facts(Value):
    """What was seen."""

    namespace: str
    """The Ray namespace that was looked at."""
    here: Machine
    """The machine of the command."""
    wished_address: str | None = None
    """The address that was named, by option or by RAY_ADDRESS."""
    ray: RayInfo | None = None
    """The Ray; `None` if none was found."""
    ray_problem: str | None = None
    """Why none was found."""
    port_taken: bool = False
    """Whether something listens at the port of a head although no Ray was found."""
    supervisor: SupervisorInfo | None = None
    """The supervisor of the namespace; `None` if there is none."""
    supervisor_problem: str | None = None
    """Why it did not tell what it is."""
    keys: dict[str, bool] = Field(default_factory=dict)
    """Names of keys that models ask for, and whether the environment has them. Never their values."""
    extras: dict[str, bool] = Field(default_factory=dict)
    """Optional parts, and whether they are installed."""


class Finding(Value):
    """One thing that follows from the facts."""

    topic: str
    """What it is about."""
    tone: Tone
    """Whether it is a problem."""
    text: str
    """What was found."""
    fix: str = ""
    """What to do about it."""


class Diagnosis(Value):
    """The facts and what follows from them."""

    kind: Literal["diagnosis"] = "diagnosis"
    facts: Facts
    """What was seen."""
    findings: tuple[Finding, ...]
    """What follows."""

    @property
    def problems(self) -> tuple[Finding, ...]:
        """Return the findings that are problems."""
        return tuple(finding for finding in self.findings if finding.tone == "bad")
