"""What a caller gets back: results, the per-run ledger, and the report of a cancel."""

from typing import Any, Literal

from pydantic import Field, PositiveInt

from .failure import Failure, FailureCode
from .reservations import WaitReason
from .transcript import FinishReason, Message
from .usage import NO_COST, NO_USAGE, Cost, Usage
from .value import Value

RunStatus = Literal["pending", "running", "completed", "failed", "cancelled"]
"""State of a run."""


class AttemptRecord(Value):
    """An attempt of a run whose process was lost and which was started again."""

    attempt: PositiveInt
    """Its number."""
    usage: Usage = NO_USAGE
    """What it used up itself."""
    cost: Cost = NO_COST
    """What that cost."""
    started: float = 0.0
    """Seconds since the epoch."""
    ended: float = 0.0
    """When its loss was noticed."""
    reason: str = ""
    """What was seen of the loss."""
    preempted: bool = Field(default=False, exclude_if=lambda value: not value)
    """Its process was killed because of another run: it does not count against `Agent.max_attempts`."""


class RunRecord(Value):
    """One line of the ledger: a run and what it consumed itself."""

    run_id: str
    """The run."""
    parent_run_id: str | None
    """The run that started it."""
    root_run_id: str
    """The root of its tree."""
    depth: int
    """0 at the root."""
    agent: str
    """Name of its agent."""
    status: RunStatus
    """Its state."""
    attempt: int = 1
    """Actors it needed."""
    usage: Usage = NO_USAGE
    """Its own, without its children's; lost attempts are in it."""
    cost: Cost = NO_COST
    """Its own, without its children's; lost attempts are in it."""
    lost_attempts: tuple[AttemptRecord, ...] = Field(default=(), exclude_if=lambda value: not value)
    """The attempts before this one."""
    started: float = 0.0
    """Seconds since the epoch."""
    ended: float | None = None
    """Seconds since the epoch; `None` while it is live."""
    error: Failure | None = None
    """Why it did not complete."""
    parent_attempt: int = Field(default=1, exclude_if=lambda value: value == 1)
    """Which attempt of its parent started it."""
    overrun: tuple[str, ...] = Field(default=(), exclude_if=lambda value: not value)
    """Limits of its (sub-)tree that were exceeded because a provider billed more than a call's upper bound; the sub-tree was stopped then."""
    last_seq: int | None = Field(default=None, exclude_if=lambda value: value is None)
    """Number of its terminal item, if it could tell."""


class ModelCallRecord(Value):
    """One line of a run's own ledger: one try of a model call, answered or not, and what it cost."""

    model: str
    """Name of the model: the one that answered where that is known, else the one that was asked."""
    provider: str
    """Family of its provider."""
    usage: Usage = NO_USAGE
    """What it consumed, with one model call in it; nothing for a cached answer."""
    cost: Cost = NO_COST
    """What it cost, with where the price comes from."""
    finish_reason: FinishReason | None = Field(default=None, exclude_if=lambda value: value is None)
    """Why the answer ended; `None` without one."""
    failure: FailureCode | None = Field(default=None, exclude_if=lambda value: value is None)
    """Why there is no answer."""
    attempt: PositiveInt = 1
    """Number of the try of the same call."""
    cached: bool = Field(default=False, exclude_if=lambda value: not value)
    """Whether the answer was kept from an earlier call: nothing was sent and nothing is charged."""
    started: float = 0.0
    """Seconds since the epoch."""
    duration: float = 0.0
    """Seconds."""


class RunResult(Value):
    """The end of a run. Plain names are the run's own, `total_` includes all below it.

    Of a run that was started again after its process was lost, `usage` and `cost` include the lost attempts, and so do the totals;
    `messages` and `model_calls` are those of the last attempt. `runs` tells the attempts apart.
    """

    run_id: str
    """The run."""
    status: RunStatus
    """How it ended."""
    output: Any = None
    """The text, or a value of the agent's `output_type`."""
    messages: tuple[Message, ...] = ()
    """Its transcript, valid for the provider: every call has a result."""
    usage: Usage = NO_USAGE
    """The run's own."""
    cost: Cost = NO_COST
    """The run's own."""
    total_usage: Usage = NO_USAGE
    """The run's and all below it."""
    total_cost: Cost = NO_COST
    """The run's and all below it."""
    model_calls: tuple[ModelCallRecord, ...] = ()
    """The run's own model calls in the order of their ends, every try; they sum up to `usage` and `cost`, less lost attempts.

    Empty for a run whose process was lost: its sums come from the supervisor.
    """
    error: Failure | None = None
    """Why it failed or was cancelled."""
    forced: bool = False
    """Its process had to be killed."""
    runs: tuple[RunRecord, ...] = ()
    """The ledger: this run and all below it."""


class CancelReport(Value):
    """What a cancel did."""

    run_id: str
    """The run that was to be cancelled, with all below it."""
    was_live: bool
    """False for a run that is unknown or had ended."""
    cancelled: tuple[str, ...] = ()
    """Runs that ended by themselves after the flag."""
    killed: tuple[str, ...] = ()
    """Runs whose process was killed after their grace."""
    unreachable: tuple[str, ...] = ()
    """Runs of which no end is known."""
    elapsed: float = 0.0
    """Seconds until the answer."""


class RunInfo(RunRecord):
    """A run as `runtree ps` shows it."""

    driver: str = ""
    """Host and process of the driver."""
    cancelling: bool = Field(default=False)
    """Its flag is set and it has not ended yet."""
    waits_for: WaitReason | None = None
    """What a call of it, or its going on, waits for."""
    model: str = ""
    """Name of its agent's model, as far as the agent tells."""
    progress: float = 0.0
    """When the supervisor last heard of it, seconds since the epoch."""
    total_usage: Usage = NO_USAGE
    """The run's and all below it."""
    total_cost: Cost = NO_COST
    """The run's and all below it."""
