"""What a run actor is sent, and what it sends back."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..messages.control import Admitted
from .stream.lanes import Bounds
from .variables import StoredVariable


@dataclass(frozen=True, slots=True)
class TreeContext:
    """What all runs of a tree share. It goes down the tree as an argument of calls and is kept in memory only."""

    driver_id: str
    """The driver of the tree."""
    namespace: str
    """Ray namespace of all names."""
    version: str
    """Version of the driver's runtree."""
    agents: bytes = field(repr=False)
    """The pickled `AgentSet`."""
    deps: bytes = field(repr=False)
    """The pickled dependencies."""
    variables: Mapping[str, StoredVariable]
    """What the cells of its REPLs find, by name."""
    bounds: Bounds
    """Size and flow of new lanes."""
    schedule_timeout: float
    """Seconds until an actor that could not be placed counts as refused."""


@dataclass(frozen=True, slots=True)
class RunJob:
    """One run."""

    tree: TreeContext
    """What its tree shares."""
    admitted: Admitted
    """Lineage, lane and bounds, as the supervisor decided."""
    agent_key: str
    """Which agent of the set."""
    value: bytes = field(repr=False)
    """The pickled input."""
    messages: str = field(default="[]", repr=False)
    """A conversation to continue, as JSON."""
    call_id: str | None = None
    """The parent's call it answers."""
    tags: dict[str, str] = field(default_factory=dict[str, str])
    """What the caller attached."""


@dataclass(frozen=True, slots=True)
class JobSlip:
    """A run of a tree whose context the actor has."""

    admitted: str
    """The `Admitted`, as JSON."""
    agent_key: str
    value: bytes = field(repr=False)
    messages: str = field(repr=False)
    call_id: str | None
    tags: dict[str, str]

    @classmethod
    def of(cls, job: RunJob) -> "JobSlip":
        """Return a job without what its tree shares."""
        return cls(job.admitted.to_json(), job.agent_key, job.value, job.messages, job.call_id, job.tags)

    def job(self, tree: TreeContext) -> RunJob:
        """Return the job."""
        admitted = Admitted.from_json(self.admitted)
        return RunJob(tree, admitted, self.agent_key, self.value, self.messages, self.call_id, self.tags)


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of a tree's models, by name.

    They travel as an argument of their own: Ray keeps small arguments in memory, while a large one, such as a job with a long conversation, goes
    through the object store and may be spilled to a file.
    """

    values: Mapping[str, str] = field(repr=False)
    """Keys by name."""


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The end of a run's call."""

    result: str = field(repr=False)
    """The `RunResult` as JSON."""
    reusable: bool
    """Whether the actor may take another run."""


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """Which process an actor is."""

    version: str
    """Version of runtree it runs."""
    pid: int
    """Process id."""
    node_id: str
    """Ray's id of its node."""
    runs: tuple[str, ...] = ()
    """Ids of the runs that are in it."""
    worn: str | None = None
    """Why it takes no more runs."""
