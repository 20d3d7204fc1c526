"""What a session calls for models, tools and agents: the port between its sandbox and whoever runs it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ...messages.repl import ReplCallKind, ReplCallRecord
from ...messages.transcript import ToolOutcome


@dataclass(frozen=True)
class CallStart:
    """What is known of a call when it starts."""

    session_id: str
    """The session."""
    cell: int
    """Number of its cell, from 1."""
    call_id: str
    """Names the call, in both of its items."""
    kind: ReplCallKind
    """The host function."""
    name: str
    """Tool or agent; empty for a model."""

    def told(self, end: ReplCallRecord | None = None) -> dict[str, Any]:
        """Return what a `repl_call` item says of its start, or of its end."""
        fields: dict[str, Any] = {
            "phase": "started" if end is None else "completed",
            "session_id": self.session_id,
            "call_id": self.call_id,
            "cell": self.cell,
            "call_kind": self.kind,
            "name": self.name,
        }
        if end is not None:
            fields |= {"elapsed": end.elapsed, "outcome": end.outcome, "message": end.message}
        return fields


class CallFailedError(Exception):
    """A call that failed in a way of which more is known than that it raised."""

    def __init__(self, message: str, outcome: ToolOutcome = "error") -> None:
        super().__init__(message)
        self.outcome: ToolOutcome = outcome


class CellStopError(Exception):
    """Ends the cell whatever its code does, as if it was cancelled; the text says why."""


class HostCalls(Protocol):
    """The surroundings of a session. Every method belongs to the session's event loop.

    A method may raise `LimitExceededError` or `CellStopError`, which end the cell whatever its code does; every other exception reaches the code as a
    `RuntimeError` with its text. A call that is dropped is cancelled like any task; one that does not heed it is left behind after a moment,
    so whoever must see its end waits for it elsewhere.
    """

    async def model_query(self, prompt: str, instructions: str) -> str:
        """Ask the model one question, with nothing before it."""
        ...

    async def tool_call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Call a tool; returns what JSON can hold."""
        ...

    async def agent_query(self, name: str, value: Any) -> Any:
        """Run an agent to its end and return its output, as JSON holds it."""
        ...

    def emit(self, name: str, data: Any) -> None:
        """Tell readers something, as a `custom` item."""
        ...

    def call_started(self, call: CallStart) -> None:
        """Tell readers that a call starts."""
        ...

    def call_completed(self, call: CallStart, record: ReplCallRecord) -> None:
        """Tell readers how a call ended."""
        ...
