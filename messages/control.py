"""What runs, drivers and the supervisor say to each other; JSON on the wire, so that versions can be told apart.

Every call of a run carries (run, attempt, number): a repeated call is recognised and answered again, not carried out again.
"""

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Discriminator, Field, NonNegativeInt, PositiveInt

from .failure import Failure
from .items import Stamp
from .limits import Limits, ModelLimit
from .result import RunStatus
from .usage import NO_COST, NO_USAGE, Cost, Usage
from .value import Value


class LaneAddress(Value):
    """Where a parent's lane is: the queue actor's name and the lane's id in it (the owner's run id, or `driver:` and the root's id)."""

    queue: str
    """Name of the queue actor."""
    lane: str
    """Id of the lane."""


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
    model_limits: dict[str, ModelLimit] = Field(default_factory=dict)
    """Bounds on the use of models over the whole namespace, by `ModelProfile.key`; of two drivers' bounds the stricter holds."""


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
    poolable: bool = True
    """Whether a warm actor of the driver's pool will do."""
    max_attempts: PositiveInt = 1
    """Actors it may lose before the loss is its failure."""
    runs_per_actor: PositiveInt = 1
    """Runs of its tree and agent that may share an actor."""


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
    """The child must wait until there is a parallel slot: an `AdmissionOrder` will tell."""

    kind: Literal["postponed"] = "postponed"
    run_id: str
    """The run that was asked for."""


Admission = Annotated[Admitted | Refused, Discriminator("kind")]
"""The answer for one child."""


class AdmitReply(Value):
    """The answers, in the order of the requests."""

    admissions: tuple[Admission, ...]
    """One for each child."""
    own_lane: LaneAddress | None = None
    """The parent's own lane: its items go through it from now on."""


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
    settled: tuple[int, ...] = ()
    """Numbers of the reservations whose calls are over: what they used is in this snapshot."""


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


class ChargeRequest(Value):
    """A run wants to make calls that its tree may have a bound on."""

    run_id: str
    """The run."""
    attempt: int
    """Its attempt."""
    number: int
    """Its call counter."""
    model_calls: int = 0
    """Model calls it is about to make."""
    tool_calls: int = 0
    """Tool calls it is about to make."""


class ChargeReply(Value):
    """How many of the calls may be made."""

    granted_model_calls: int
    """At most as many as asked for."""
    granted_tool_calls: int
    """At most as many as asked for."""
    error: Failure | None = None
    """Which bound stands against the rest."""


class ReserveRequest(Value):
    """A run is about to make calls that a bound stands over, and says what they may consume at most."""

    run_id: str
    """The run."""
    attempt: int
    """Its attempt."""
    number: int
    """Its call counter; also the name of the reservation."""
    model_calls: NonNegativeInt = 0
    """Model calls, 0 or 1."""
    tool_calls: NonNegativeInt = 0
    """Tool calls."""
    model: str | None = None
    """`ModelProfile.key` of the model that is called."""
    input_tokens: NonNegativeInt = 0
    """Upper bound of the prompt."""
    output_tokens: NonNegativeInt = 0
    """Upper bound of the answer that is wished for; may be granted in part."""
    input_cost: Decimal | None = None
    """Upper bound in USD of what the prompt costs; `None` without a known price."""
    output_price: Decimal | None = None
    """Upper bound in USD of what one token of the answer costs; `None` without a known price."""


WaitReason = Literal["budget", "model_limit", "parallel"]
"""What a call or a run waits for: reservations of others, a bound on the model over the namespace, or a parallel slot."""


class ReserveReply(Value):
    """How much of it may be done, or that it has to wait."""

    granted_model_calls: NonNegativeInt = 0
    """At most as many as asked for."""
    granted_tool_calls: NonNegativeInt = 0
    """At most as many as asked for."""
    output_tokens: NonNegativeInt | None = None
    """Tokens the answer may have, to be sent as its limit; `None` where nothing bounds them."""
    error: Failure | None = None
    """Which bound stands against the rest."""
    waits_for: WaitReason | None = None
    """Nothing is decided yet: a `GrantOrder` will tell, and so does the same request, asked again."""


class SlotRequest(Value):
    """A run gives its parallel slot back because it only waits for its children, or takes it again."""

    run_id: str
    """The run."""
    attempt: int
    """Its attempt."""
    number: int
    """Its call counter."""
    waiting: bool
    """True: gives it back. False: wants to go on; answered like a reservation, before new runs are admitted."""


class ThrottleReport(Value):
    """A provider asked to be left alone: the whole fleet slows down, not only the run that heard it."""

    model: str
    """`ModelProfile.key`."""
    seconds: float = Field(ge=0)
    """For how long from now."""


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
    """A warm actor will take no more runs: whoever called it last ends it; the driver is to start another."""

    kind: Literal["retire"] = "retire"
    actor: str
    """Name of the actor."""


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


Order = Annotated[
    CancelOrder | KillOrder | RetireOrder | GrantOrder | AdmissionOrder | PauseOrder, Discriminator("kind")
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
