"""What runs, drivers and the supervisor say to each other; JSON on the wire, so that versions can be told apart.

Every call of a run carries (run, attempt, number): a repeated call is recognised and answered again, not carried out again.
"""

from typing import Annotated, Literal

from pydantic import Discriminator, Field, NonNegativeInt, PositiveInt

from .failure import Failure
from .items import Stamp
from .limits import Limits, ModelLimit
from .reservations import ReserveReply
from .result import RunStatus
from .usage import NO_COST, NO_USAGE, Cost, Totals, Usage
from .value import Value


class LaneAddress(Value):
    """Where a parent's lane is: the queue actor's name and the lane's id in it (the owner's run id, or `driver:` and the root's id)."""

    queue: str
    """Name of the queue actor."""
    lane: str
    """Id of the lane."""


class OpenLane(Value):
    """A lane that some live runs need."""

    lane: LaneAddress
    """Where it is."""
    root_run_id: str
    """The tree it belongs to."""
    upstream: LaneAddress
    """The lane its items go to."""


class DriverHello(Value):
    """A driver introduces itself."""

    driver_id: str
    """Id of the Runtime; also the id of its process in polls."""
    host: str
    """Host name, for people."""
    pid: int
    """Process id, for people."""
    version: str
    """Version of runtree."""
    wire_version: int
    """Version of this protocol."""
    queues: tuple[str, ...] = ()
    """Names of its queue actors."""
    spread_lanes: bool = False
    """Give each new lane to the next queue actor in turn, instead of keeping a tree's lanes together."""
    model_limits: dict[str, ModelLimit] = Field(default_factory=dict[str, ModelLimit])
    """Bounds on the use of models over the whole namespace, by `ModelProfile.key`; of two drivers' bounds the stricter holds.

    They hold for every call that begins from now on, also of runs that were admitted before, and for as long as the driver is there.
    """
    warm: NonNegativeInt = 0
    """Size of its pool."""
    warm_idle_seconds: float = 300.0
    """Seconds after which idle actors of its pool are ended."""


class ChildRequest(Value):
    """One run that wants to start."""

    run_id: str
    """Id it will have."""
    agent: str
    """Name of its agent."""
    call_id: str | None = None
    """The parent's call it answers."""
    limits: Limits | None = None
    """Bounds of its sub-tree, before they are narrowed by what it inherits."""
    model: str = ""
    """Name of its agent's model, for people."""
    poolable: bool = True
    """Whether a warm actor of the driver's pool will do."""
    max_attempts: PositiveInt = 1
    """Attempts it has: when the last one is lost, that is its failure."""
    runs_per_actor: PositiveInt = 1
    """Runs of its tree and agent that may share an actor."""
    agent_key: str = ""
    """Which agent of the tree it is: names need not be unique."""
    resources: dict[str, float] = Field(default_factory=dict)
    """What an actor that runs are to share asks of its node."""


class AdmitRequest(Value):
    """A parent (or, for a root, the driver) asks for its children to be admitted."""

    driver_id: str
    """The driver of the tree."""
    parent_run_id: str | None = None
    """The parent; `None` admits roots."""
    attempt: int = 1
    """The parent's attempt."""
    number: int = 0
    """The parent's call counter."""
    children: tuple[ChildRequest, ...]
    """All children of one fan-out."""


class Admitted(Value):
    """The child may start."""

    kind: Literal["admitted"] = "admitted"
    stamp: Stamp
    """Its lineage, decided here and nowhere else."""
    lane: LaneAddress
    """Its parent's lane."""
    limits: Limits
    """The bounds that hold for its sub-tree."""
    deadline: float | None = None
    """Seconds since the epoch at which its sub-tree ends."""
    actor: str | None = None
    """Name of the warm actor that was leased; `None`: start one under `actor_name`."""
    actor_name: str
    """Name of the actor that will run it."""
    lease: int = 0
    """Number of the lease."""
    shared: bool = False
    """Others of its tree may run on the actor: the driver starts and ends it, and whoever calls it waits for its name."""
    spent: Totals = Totals()
    """What earlier attempts of the run, and the runs below them, have used up."""
    limited_models: tuple[str, ...] = ()
    """Models whose calls have to be reserved because of bounds over the namespace, by `ModelProfile.key`."""
    paused_models: dict[str, float] = Field(default_factory=dict)
    """Models that have asked to be left alone, and until when (seconds since the epoch)."""


class Refused(Value):
    """The child must not start."""

    kind: Literal["refused"] = "refused"
    run_id: str
    """The run that was asked for."""
    error: Failure
    """Which bound, or that the tree is cancelled."""


class Postponed(Value):
    """The child must wait until there is a parallel slot: an `AdmissionOrder` will tell, and so does the same request, asked again.

    A parent that does nothing but wait for its children gives its own slot back meanwhile (`SlotRequest`); else, with one slot, nobody ever goes on.
    A wish that is not needed any more is withdrawn by a cancel of the child's id.
    """

    kind: Literal["postponed"] = "postponed"
    run_id: str
    """The run that was asked for."""


Admission = Annotated[Admitted | Refused, Discriminator("kind")]
"""The decision on one child."""

AdmitAnswer = Annotated[Admitted | Refused | Postponed, Discriminator("kind")]
"""The answer for one child: the decision, or that it comes later."""


class AdmitReply(Value):
    """The answers, in the order of the requests."""

    admissions: tuple[AdmitAnswer, ...]
    """One for each child."""
    own_lane: LaneAddress | None = None
    """The parent's own lane: its items go through it from now on. There already when children are only postponed."""


class RunReport(Value):
    """A run's accounts so far: a cumulative snapshot."""

    run_id: str
    """The run."""
    attempt: int
    """Its attempt."""
    number: int
    """Its call counter."""
    usage: Usage = NO_USAGE
    """Its own usage."""
    cost: Cost = NO_COST
    """Its own cost."""
    settled: dict[int, NonNegativeInt] = Field(default_factory=dict[int, NonNegativeInt])
    """Reservations that are over, by number, each with the tokens its model call used (0 for tool calls, and where nothing was sent).

    A call is either under an open reservation or in the snapshot, never in both: a model call enters the accounts and this list together when it
    ends, tool calls do so when they are granted (and leave the accounts again where they were not run after all). A reservation is named until a
    report with it was answered, and before the run waits for anything else: others may wait for it.
    """


class EndReport(RunReport):
    """A run has ended, and its terminal item was accepted by its parent's lane."""

    status: RunStatus
    """How it ended."""
    error: Failure | None = None
    """Why it did not complete."""
    reusable: bool = True
    """Whether its actor can take another run."""
    from_stream: bool = False
    """Told by its caller, who found the end in the stream after the process was gone."""
    last_seq: int | None = None
    """Number of its terminal item."""


class CancelRequest(Value):
    """Somebody wants a run and all below it to end."""

    run_id: str
    """The top of the sub-tree."""
    reason: str = "cancelled"
    """Why; shown in the terminal items."""
    grace: float = Field(default=2.0, ge=0)
    """Seconds for each run to end by itself once its children have ended."""
    caller_run_id: str | None = None
    """The run that asks, if one does: inside the sub-tree the call returns when the flags are set."""
    repeated: bool = False
    """The supervisor went away before it answered: the report is about all runs whose flags are set."""


class CancelOrder(Value):
    """The flag of a run is set."""

    kind: Literal["cancel"] = "cancel"
    run_id: str
    """The run."""
    attempt: int
    """Its attempt."""
    reason: str
    """Why."""
    grace: float
    """Seconds it has."""


class KillOrder(Value):
    """The driver is to kill an actor it owns; its lease was withdrawn before."""

    kind: Literal["kill"] = "kill"
    actor: str
    """Name of the actor."""
    lease: int
    """The withdrawn lease."""
    run_id: str
    """The run that held it."""


class RetireOrder(Value):
    """An actor of the driver will take no more runs: its last caller may still read its answer, then it is ended."""

    kind: Literal["retire"] = "retire"
    actor: str
    """Name of the actor."""
    shrink: bool = False
    """The pool is to be smaller by one, until it is refilled."""


class StartOrder(Value):
    """The driver is to start an actor that runs will share; they wait for its name."""

    kind: Literal["start"] = "start"
    actor: str
    """Name it gets."""
    resources: dict[str, float] = Field(default_factory=dict)
    """What it asks of its node, beyond what every run actor does."""


class RefillOrder(Value):
    """The pool that was shrunk is used again: the driver is to bring it to its size."""

    kind: Literal["refill"] = "refill"


class GrantOrder(Value):
    """A reservation or a slot that had to wait is decided."""

    kind: Literal["grant"] = "grant"
    run_id: str
    """The run that asked."""
    attempt: int
    """Its attempt."""
    number: int
    """Number of the request."""
    reply: ReserveReply
    """The decision."""


class AdmissionOrder(Value):
    """A child that had to wait is admitted or refused."""

    kind: Literal["admission"] = "admission"
    run_id: str
    """The parent."""
    attempt: int
    """The parent's attempt."""
    admission: Admission
    """The decision; never another postponement."""


class PauseOrder(Value):
    """No calls to a model before a time."""

    kind: Literal["pause"] = "pause"
    model: str
    """`ModelProfile.key`."""
    until: float
    """Seconds since the epoch."""


class LimitOrder(Value):
    """A driver has bounded models over the namespace: runs that were admitted before reserve their calls too from now on."""

    kind: Literal["limit"] = "limit"
    models: tuple[str, ...]
    """All that are bounded, by `ModelProfile.key`."""


Order = Annotated[
    CancelOrder
    | KillOrder
    | RetireOrder
    | StartOrder
    | RefillOrder
    | GrantOrder
    | AdmissionOrder
    | PauseOrder
    | LimitOrder,
    Discriminator("kind"),
]
"""What a poll can bring."""


class PollReply(Value):
    """The answer to a long-poll; empty when nothing happened in time."""

    version: int
    """To be sent with the next poll: acknowledges these orders."""
    orders: tuple[Order, ...] = ()
    """What is new."""
    superseded: bool = False
    """A newer poll of the same process took over."""
