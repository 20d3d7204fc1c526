"""REPL sessions in values: their bounds, what a cell gave, and the calls it made."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, PositiveFloat, PositiveInt

from .transcript import ToolOutcome
from .value import Value

ReplUse = Literal["explore", "orchestrate", "compute"]
"""What a REPL is for: reading a long context, putting sub-agents to work, or calculating."""

ReplCallKind = Literal[
    "model_query", "model_query_batched", "tool_call", "tool_call_batched", "agent_query", "agent_query_batched"
]
"""The host functions that call a model, a tool or an agent."""

_KIB = 1024


class ReplPolicy(Value):
    """How an agent's REPL is used, and the bounds of one session. Each is counted by itself, and none can be caught by the code of a cell."""

    model_config = ConfigDict(extra="forbid")

    use: ReplUse = "explore"
    """Which of the built-in prompts tells the model how to work; `prompt` takes its place."""
    prompt: str | None = None
    """Template of that prompt. `$functions`, `$tools`, `$agents`, `$variables` and `$bounds` stand for what the run has."""
    shown_bytes: PositiveInt = 16 * _KIB
    """Bytes that the model is shown of what a cell printed, and of its value or error."""
    cells: PositiveInt = 16
    """Cells that are evaluated."""
    script_bytes: PositiveInt = 64 * _KIB
    """Bytes of one cell's code."""
    output_bytes: PositiveInt = 256 * _KIB
    """Bytes that one cell prints, and of its value."""
    model_calls: Annotated[int, Field(ge=0)] = 64
    """Calls of models, each item of a batch counted."""
    agent_calls: Annotated[int, Field(ge=0)] = 32
    """Calls of agents, each item of a batch counted."""
    tool_calls: Annotated[int, Field(ge=0)] = 128
    """Calls of tools, each item of a batch counted."""
    emits: Annotated[int, Field(ge=0)] = 256
    """Items that `emit` puts into the stream."""
    cell_time: Annotated[float, Field(gt=0, le=3600)] = 30.0
    """Seconds a cell computes; what it waits for its calls does not count. Never unlimited: a worker whose owner died ends by it."""
    wait_time: PositiveFloat = 600.0
    """Seconds a cell may wait for its calls, all of its waits together."""
    memory_bytes: Annotated[int, Field(ge=1024 * _KIB)] = 256 * _KIB * _KIB
    """Memory of the variables and whatever else the cells make; the session's inputs come on top."""


class ReplCallRecord(Value):
    """One call of a model, a tool or an agent by a cell, as its `repl_call` item of phase `completed` tells it."""

    call_id: str
    """Names the call within the tree; the same in both of its items."""
    kind: ReplCallKind
    """The host function."""
    name: str = ""
    """Tool or agent that was called; empty for a model."""
    outcome: ToolOutcome
    """How it ended."""
    elapsed: float = 0.0
    """Seconds it took."""
    message: str = ""
    """Why it did not succeed; empty for `ok`."""


class CellError(Value):
    """An exception that the code of a cell raised and did not catch."""

    type: str
    """Name of its class."""
    message: str
    """Its text."""
    traceback: str
    """What Python would print, lines of the cell included."""

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


class ReplVariable(Value):
    """What is known of a variable without looking into it."""

    type: str
    """Name of its class."""
    size: int | None = None
    """Its `len`, where it has one."""

    def __str__(self) -> str:
        return self.type if self.size is None else f"{self.type}, {self.size} long"


class ReplResult(Value):
    """What the evaluation of a cell gave.

    Values are what JSON can hold, with the additions of `runtree.actors.repl.marshal`.
    """

    stdout: str = ""
    """What it printed."""
    value: Any = None
    """Value of its last line, if that is an expression."""
    error: CellError | None = None
    """What its code raised; variables it set before are kept, as in any REPL."""
    variables_changed: tuple[str, ...] = ()
    """Names that it bound to other values, and those whose size it changed; in alphabetical order."""
    calls: tuple[ReplCallRecord, ...] = ()
    """Its calls, in the order in which they ended."""
    answered: bool = False
    """Whether it called `answer`."""
    final_answer: Any = None
    """What it gave to `answer`, the last time."""
    elapsed: float = 0.0
    """Seconds."""
    variables_kept: bool = True
    """False where the worker was lost since the last result, and with it the variables of earlier cells; the session's inputs are given again."""
