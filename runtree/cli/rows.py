"""The state behind the live tree: stream items in, one row for each run out. No terminal, no clock."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from ..messages.items import (
    AttemptDiscarded,
    Custom,
    Item,
    ModelDelta,
    ReplCall,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunStarted,
    StreamItem,
    TerminalItem,
    ToolCallCompleted,
    ToolCallStarted,
    ToolProgress,
    TurnStarted,
    UnknownItem,
    UsageUpdated,
    Waiting,
)
from ..messages.usage import NO_COST, NO_USAGE, Cost, Totals, Usage
from .cells import CellReport, call_label
from .figures import waited_for
from .output import output_text

RowState = Literal["running", "completed", "failed", "cancelled"]

_KEPT_TEXT: Final = 400
_URGENCY: dict[RowState, int] = {"running": 0, "failed": 1, "cancelled": 2, "completed": 3}


@dataclass(slots=True)
class Row:
    """What is shown of one run."""

    run_id: str
    parent_run_id: str | None
    depth: int
    agent: str = "…"
    model: str = ""
    state: RowState = "running"
    attempt: int = 1
    started: float | None = None
    ended: float | None = None
    totals: Totals | None = None
    """Its accounts as last reported; `None` before the first report."""
    note: str = ""
    """Why it did not complete, or what its tool said of its progress."""
    open_calls: dict[str, str] = field(default_factory=dict[str, str])
    """Names of the tools that are at work, by call id."""
    text: str = ""
    """The last line that is not blank, with the line feed that ended it; of a very long one the begin and the end."""
    speaks: bool = False
    """It has said something in this turn."""
    thought: str = ""
    """The last line of its reasoning, while it reasons."""
    programs: bool = False
    """What it says are programs, and its output says more."""

    @property
    def last_line(self) -> str:
        """The last line that is not blank; nothing where that ends a block of code."""
        line = self.text.strip()
        return "" if line in ("```", "~~~") else line

    def say(self, text: str) -> None:
        """Take in what the run said next."""
        self.text = _last_line((self.text if self.speaks else "") + text)
        self.speaks = True
        self.thought = ""

    def think(self, text: str) -> None:
        """Take in what the run thought next."""
        self.thought = _last_line(self.thought + text)

    @property
    def activity(self) -> str:
        """The tools at work: `name`, `name (3)`, or `name +2` when they differ."""
        names = list(self.open_calls.values())
        if not names:
            return ""
        last = names[-1]
        if len(names) == 1:
            return last
        return f"{last} ({len(names)})" if len(set(names)) == 1 else f"{last} +{len(names) - 1}"


def _last_line(text: str) -> str:
    """Return the last line that is not blank; of a very long one the begin and the end."""
    lines = text.splitlines(keepends=True)
    line = next((line for line in reversed(lines) if line.strip()), "")
    return line if len(line) <= _KEPT_TEXT else line[: _KEPT_TEXT // 2] + line[-(_KEPT_TEXT // 2) :]


class Tree:
    """All runs of a stream so far."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self._children: dict[str | None, list[str]] = {}

    def apply(self, item: StreamItem) -> None:
        """Take in the next item."""
        if isinstance(item, UnknownItem):
            return
        row = self._row(item)
        if item.attempt > row.attempt:
            row.attempt = item.attempt
            row.open_calls.clear()
            row.text = ""
        _reduce(row, item)

    def _row(self, item: Item) -> Row:
        row = self.rows.get(item.run_id)
        if row is None:
            row = self.rows[item.run_id] = Row(item.run_id, item.parent_run_id, item.depth, attempt=item.attempt)
            self._children.setdefault(item.parent_run_id, []).append(item.run_id)
        return row

    @property
    def root(self) -> Row | None:
        """The row of the root, once its first item has come."""
        return next((row for row in self.rows.values() if row.parent_run_id is None), None)

    @property
    def spent(self) -> tuple[Usage, Cost]:
        """What all runs together are known to have used."""
        known = [row.totals for row in self.rows.values() if row.totals is not None]
        return sum((totals.usage for totals in known), NO_USAGE), sum((totals.cost for totals in known), NO_COST)

    def __len__(self) -> int:
        return len(self.rows)

    def ordered(self) -> Iterator[Row]:
        """Yield parents before their children, siblings in the order in which they appeared."""
        pending = [run_id for run_id, row in self.rows.items() if row.parent_run_id not in self.rows]
        pending.reverse()
        while pending:
            run_id = pending.pop()
            yield self.rows[run_id]
            pending.extend(reversed(self._children.get(run_id, [])))

    def visible(self, height: int) -> tuple[list[Row], int]:
        """Return the rows to show on so many lines, and how many are left out.

        What is at work comes first, then what went wrong; each row brings its ancestors along.
        """
        rows = list(self.ordered())
        if len(rows) <= height:
            return rows, 0
        room = max(height - 1, 1)  # one line says how many are left out
        chosen: set[str] = set()
        for row in sorted(rows, key=lambda row: _URGENCY[row.state]):
            missing = [entry for entry in self._lineage(row) if entry not in chosen]
            if missing and len(chosen) + len(missing) <= room:
                chosen.update(missing)
        return [row for row in rows if row.run_id in chosen], len(rows) - len(chosen)

    def _lineage(self, row: Row) -> Iterable[str]:
        current: Row | None = row
        while current is not None:
            yield current.run_id
            current = self.rows.get(current.parent_run_id or "")


def _reduce(row: Row, item: StreamItem) -> None:
    match item:
        case RunStarted():
            row.agent, row.model = item.agent, item.model
            row.started = item.time if row.started is None else row.started
        case TurnStarted():
            row.speaks = False
            row.thought = ""
        case ModelDelta():
            row.note = ""
            if item.reasoning:
                row.think(item.reasoning)
            if item.text:
                row.say(item.text)
        case ToolCallStarted():
            row.thought = ""
            row.open_calls[item.call_id] = item.tool_name
        case ToolProgress() | Waiting():
            row.note = _note(row, item)
        case ToolCallCompleted():
            row.open_calls.pop(item.call_id, None)
            row.note = ""
        case AttemptDiscarded():
            row.text, row.speaks, row.thought = "", False, ""
            what = "starting again" if item.scope == "run" else "trying again"
            row.note = f"{what}: {item.reason}" if item.reason else ""
        case UsageUpdated():
            row.totals = Totals(
                usage=item.usage, cost=item.cost, total_usage=item.total_usage, total_cost=item.total_cost
            )
        case TerminalItem():
            _end(row, item)
        case _:
            _reduce_cell(row, item)


def _reduce_cell(row: Row, item: StreamItem) -> None:
    match item:
        case Custom():
            if (report := CellReport.of(item)) is not None:
                row.text, row.speaks, row.programs = _last_line(report.line()), False, True
        case ReplCall(phase="completed"):
            row.open_calls.pop(item.call_id, None)
        case ReplCall(name=""):  # calls of tools and agents have items of their own
            row.open_calls[item.call_id] = call_label(item)
        case _:
            pass


def _note(row: Row, item: ToolProgress | Waiting) -> str:
    if isinstance(item, ToolProgress):
        return item.message or row.note
    return f"waits for {waited_for(item)}" if item.duration is None else ""


def _end(row: Row, item: TerminalItem) -> None:
    row.open_calls.clear()
    row.thought = ""
    row.ended, row.totals = item.time, item.totals
    match item:
        case RunFailed():
            row.state, row.note = "failed", item.error.message
        case RunCancelled():
            row.state, row.note = "cancelled", item.reason + (" (killed)" if item.forced else "")
        case RunCompleted():
            row.state, row.note = "completed", ""
            row.text = _last_line(output_text(item.output)) if row.programs else row.text
        case _:
            pass
