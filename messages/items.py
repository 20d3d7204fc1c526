"""Stream items: everything a run tree tells its driver, each stamped by the run that emits it."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import Discriminator, Field, JsonValue, Tag

from .content import kind_of
from .failure import Failure
from .transcript import AssistantMessage, ToolOutcome
from .usage import NO_COST, NO_USAGE, Cost, Totals, Usage
from .value import OpenValue, Value


class Stamp(Value):
    """Who speaks: the part of an item's stamp that stays the same for one attempt of a run."""

    run_id: str
    """The run that emits the item."""
    parent_run_id: str | None
    """The run that started it; `None` only at the root."""
    root_run_id: str
    """The root of its tree, inherited."""
    depth: int = 0
    """Its parent's depth plus one; 0 at the root."""
    attempt: int = 1
    """Counts the actors of the run: 2 after the first process was lost."""


class Item(Stamp):
    """What every item carries."""

    seq: int = 0
    """Dense from 0 for each (run, attempt); dropped deltas use up their numbers."""
    time: float = 0.0
    """Seconds since the epoch at the emitter; it informs and does not order."""


class RunStarted(Item):
    """The run's process begins to work on it."""

    kind: Literal["run_started"] = "run_started"
    agent: str
    """Name of the agent."""
    model: str = ""
    """Name of its model."""
    call_id: str | None = None
    """The parent's tool call that this run answers; `None` at the root."""
    tags: dict[str, str] = Field(default_factory=dict)
    """What the caller of `start` attached."""


class TurnStarted(Item):
    """A model call is about to be made."""

    kind: Literal["turn_started"] = "turn_started"
    turn: int
    """Counts from 1."""


class ModelDelta(Item):
    """A piece of text or of reasoning."""

    kind: Literal["model_delta"] = "model_delta"
    text: str = ""
    """Visible text."""
    reasoning: str = ""
    """Reasoning."""


class ToolCallStarted(Item):
    """The model named a tool; its arguments may still be on their way."""

    kind: Literal["tool_call_started"] = "tool_call_started"
    call_id: str
    """Id of the call."""
    tool_name: str
    """Name of the tool or sub-agent."""


class ToolCallArgsDelta(Item):
    """A piece of the arguments of a call."""

    kind: Literal["tool_call_args_delta"] = "tool_call_args_delta"
    call_id: str
    """Id of the call."""
    tool_name: str
    """Name of the tool or sub-agent."""
    delta: str
    """A piece of JSON text."""


class ToolProgress(Item):
    """A tool reports how far it is."""

    kind: Literal["tool_progress"] = "tool_progress"
    call_id: str
    """Id of the call."""
    tool_name: str
    """Name of the tool."""
    message: str = ""
    """What it is doing."""
    fraction: float | None = None
    """Between 0 and 1, if it knows."""


class ToolCallCompleted(Item):
    """A call has ended, in whatever way; exactly one for each `tool_call_started`."""

    kind: Literal["tool_call_completed"] = "tool_call_completed"
    call_id: str
    """Id of the call."""
    tool_name: str
    """Name of the tool or sub-agent."""
    outcome: ToolOutcome
    """How it ended."""
    duration: float = 0.0
    """Seconds of execution, measured at the run."""
    child_run_id: str | None = None
    """The run it started, if the tool is a sub-agent."""
    message: str = ""
    """Why it did not succeed; empty for `ok`."""


class AssistantMessageItem(Item):
    """The whole answer of one model call."""

    kind: Literal["assistant_message"] = "assistant_message"
    message: AssistantMessage
    """What was said, calls included."""


class UsageUpdated(Item):
    """The run's accounts after a model call."""

    kind: Literal["usage_updated"] = "usage_updated"
    usage: Usage
    """The run's own."""
    cost: Cost
    """The run's own."""
    total_usage: Usage
    """The run's and all below it."""
    total_cost: Cost
    """The run's and all below it."""


class AttemptDiscarded(Item):
    """What was said from `first_seq` to `last_seq` does not count: it is said again."""

    kind: Literal["attempt_discarded"] = "attempt_discarded"
    scope: Literal["run", "model_call"]
    """A lost process, or a repeated model call."""
    discarded_attempt: int
    """The attempt of the run that is discarded (scope `run`), or the number of the try (scope `model_call`)."""
    first_seq: int
    """First discarded number."""
    last_seq: int
    """Last discarded number; smaller than the first if nothing of it had been shown."""
    reason: str = ""
    """Why."""
    delay: float | None = None
    """Seconds until it is said again."""


class ReplCall(Item):
    """A host call of a REPL cell starts or ends."""

    kind: Literal["repl_call"] = "repl_call"
    session_id: str
    """The REPL session."""
    phase: Literal["started", "completed"]
    """Start or end of the call."""
    call_id: str = ""
    """Names the call, in both of its items."""
    cell: int = 0
    """Number of the cell in its session, from 1."""
    call_kind: str
    """Host function."""
    name: str = ""
    """Tool or agent it calls; empty for a model."""
    elapsed: float | None = None
    """Seconds, at completion."""
    outcome: ToolOutcome | None = None
    """How it ended, at completion."""
    message: str = ""
    """Why it did not succeed, at completion."""


class Custom(Item):
    """What a tool or hook wants the reader to see."""

    kind: Literal["custom"] = "custom"
    name: str
    """The emitter's own tag."""
    data: JsonValue = None
    """Its payload."""


class Waiting(Item):
    """The run can't go on until others let it; told only where it really waits, and told again when the wait is over."""

    kind: Literal["waiting"] = "waiting"
    what: Literal["budget", "model_limit", "parallel", "pause"]
    """What for: reservations of others, a bound on the model, a parallel slot, or the end of a pause that the provider asked for."""
    detail: str = ""
    """The model that is waited for, or who waits, for people."""
    duration: float | None = None
    """Seconds it took; `None` where the wait begins."""


class ItemsDropped(Item):
    """Stands in the place of items that were dropped; its `seq` is that of the last of them."""

    kind: Literal["items_dropped"] = "items_dropped"
    count: int
    """How many; where `lost` is set, at least so many."""
    first_seq: int
    """First missing number."""
    last_seq: int
    """Last missing number."""
    lost: bool = Field(default=False, exclude_if=lambda value: value is False)
    """The queue that held them is gone: items of every kind may be among them. Otherwise all were deltas."""


class TerminalItem(Item):
    """What the three ends have in common: the final accounts."""

    usage: Usage = NO_USAGE
    """The run's own."""
    cost: Cost = NO_COST
    """The run's own."""
    total_usage: Usage = NO_USAGE
    """The run's and all below it."""
    total_cost: Cost = NO_COST
    """The run's and all below it."""
    duration: float = 0.0
    """Seconds from the run's start."""

    @property
    def totals(self) -> Totals:
        """The four accounts as one value."""
        return Totals(usage=self.usage, cost=self.cost, total_usage=self.total_usage, total_cost=self.total_cost)


class RunCompleted(TerminalItem):
    """The run ended with an output."""

    kind: Literal["run_completed"] = "run_completed"
    output: JsonValue = None
    """The output as JSON."""


class RunFailed(TerminalItem):
    """The run ended with an error."""

    kind: Literal["run_failed"] = "run_failed"
    error: Failure
    """Why."""


class RunCancelled(TerminalItem):
    """The run was stopped."""

    kind: Literal["run_cancelled"] = "run_cancelled"
    reason: str = ""
    """Who or what asked."""
    forced: bool = False
    """It did not end by itself within its grace: its process was killed."""


class UnknownItem(OpenValue):
    """An item of a kind this version does not know; kept and written back as it is."""

    run_id: str = ""
    parent_run_id: str | None = None
    root_run_id: str = ""
    depth: int = 0
    attempt: int = 1
    seq: int = 0
    time: float = 0.0


DELTA_KINDS = frozenset({"model_delta", "tool_call_args_delta", "tool_progress"})
"""Items that may be dropped when nobody keeps up; everything else always arrives."""

TERMINAL_KINDS = frozenset({"run_completed", "run_failed", "run_cancelled"})
"""Items that end a run: exactly one for each."""

StreamItem = (
    RunStarted
    | TurnStarted
    | ModelDelta
    | ToolCallStarted
    | ToolCallArgsDelta
    | ToolProgress
    | ToolCallCompleted
    | AssistantMessageItem
    | UsageUpdated
    | AttemptDiscarded
    | ReplCall
    | Custom
    | Waiting
    | ItemsDropped
    | RunCompleted
    | RunFailed
    | RunCancelled
    | UnknownItem
)
"""Any item, as a plain union for introspection and `match`."""

ITEM_TYPES: Mapping[str, type[Item]] = {
    item.model_fields["kind"].default: item for item in get_args(StreamItem) if item is not UnknownItem
}
"""The class of every known kind."""


def _item_tag(value: Any) -> str:
    kind = kind_of(value)
    return kind if kind in ITEM_TYPES else "unknown"


AnyStreamItem = Annotated[
    Annotated[RunStarted, Tag("run_started")]
    | Annotated[TurnStarted, Tag("turn_started")]
    | Annotated[ModelDelta, Tag("model_delta")]
    | Annotated[ToolCallStarted, Tag("tool_call_started")]
    | Annotated[ToolCallArgsDelta, Tag("tool_call_args_delta")]
    | Annotated[ToolProgress, Tag("tool_progress")]
    | Annotated[ToolCallCompleted, Tag("tool_call_completed")]
    | Annotated[AssistantMessageItem, Tag("assistant_message")]
    | Annotated[UsageUpdated, Tag("usage_updated")]
    | Annotated[AttemptDiscarded, Tag("attempt_discarded")]
    | Annotated[ReplCall, Tag("repl_call")]
    | Annotated[Custom, Tag("custom")]
    | Annotated[Waiting, Tag("waiting")]
    | Annotated[ItemsDropped, Tag("items_dropped")]
    | Annotated[RunCompleted, Tag("run_completed")]
    | Annotated[RunFailed, Tag("run_failed")]
    | Annotated[RunCancelled, Tag("run_cancelled")]
    | Annotated[UnknownItem, Tag("unknown")],
    Discriminator(_item_tag),
]
"""Any item, for validation: known kinds by their tag, others as `UnknownItem`."""
