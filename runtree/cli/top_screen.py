"""`runtree top` as it is drawn: a board in, something rich can print out."""

from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..messages.overview import NamespaceView
from ..messages.result import RunInfo
from .figures import UNKNOWN, count_text, money_text, printable, seconds_text, short_id, tokens_text
from .top_board import Board, Line

_HELP: Final = "↑↓ move   c cancel run   C cancel tree   e ended   q quit"
_STYLES: Final = {
    "pending": ("○", "dim"),
    "running": ("●", "yellow"),
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
    "cancelled": ("■", "magenta"),
}
_COLUMNS: Final = {
    "AGENT": 0,
    "RUN": 0,
    "STATE": 0,
    "MODEL": 92,
    "TOKENS": 44,
    "TOK/S": 80,
    "COST": 60,
    "TIME": 60,
    "AGE": 0,
}
"""Columns, and how wide a terminal has to be for them: names of agents stay readable on a narrow one."""

_STALE: Final = 60.0
"""Seconds without progress after which the age stands out."""

_FRAME_LINES: Final = 4


def frame(board: Board, width: int, height: int) -> RenderableType:
    """Return the whole screen."""
    lines = board.fit(height - _FRAME_LINES)
    parts: list[RenderableType] = [title(board, width)]
    if lines:
        parts.append(table(lines, width, board.selected))
    blank = height - _FRAME_LINES - len(lines) + (0 if lines else 1)
    parts.extend(Text("") for _ in range(max(0, blank)))
    parts.extend((_status(board, width), _footer(board, width)))
    return Group(*parts)


def title(board: Board, width: int | None = None) -> Text:
    """Return what the namespace does altogether, on one line."""
    view = board.view
    text = Text(f"runtree {board.namespace}", style="bold", no_wrap=True)
    if view is not None:
        text.append("   " + " · ".join(_summary(view, board.rate)), style="not bold")
    return _cut(text, width)


def _summary(view: NamespaceView, rate: float | None) -> list[str]:
    tokens, money = tokens_text(view.usage), money_text(view.cost)
    parts = [
        f"{count_text(view.live_runs, 'run')} live",
        f"{view.ended_runs:,} ended",
        count_text(view.drivers, "driver"),
        "tokens unknown" if tokens == UNKNOWN else f"{tokens} tokens",
        "cost unknown" if money == UNKNOWN else money,
    ]
    if rate is not None:
        parts.insert(4, f"{rate:,.0f}/s")
    if view.left_out:
        parts.append(f"{view.left_out:,} not shown")
    return parts


def table(lines: Sequence[Line], width: int | None = None, selected: RunInfo | None = None) -> Table:
    """Return runs as a table."""
    shown = [name for name, least in _COLUMNS.items() if width is None or width >= least]
    made = Table(box=None, pad_edge=False, header_style="dim", width=width)
    for name in shown:
        if name in ("AGENT", "MODEL"):
            ratio = None if width is None else 3 if name == "AGENT" else 2
            made.add_column(name, no_wrap=True, overflow="ellipsis", ratio=ratio)
        else:
            made.add_column(name, no_wrap=True, justify="left" if name in ("RUN", "STATE") else "right")
    for line in lines:
        cells = _cells(line, short=width is not None)
        reverse = selected is not None and line.info.run_id == selected.run_id
        made.add_row(*(cells[name] for name in shown), style="reverse" if reverse else "")
    return made


def _cells(line: Line, *, short: bool) -> dict[str, Text]:
    """Return what stands in each column."""
    info = line.info
    live = info.ended is None
    symbol, colour = _STYLES[info.status]
    name = Text("  " * line.indent)
    name.append(symbol, style=colour)
    name.append(" " + _one_line(info.agent))
    age = "" if line.age is None else seconds_text(line.age)
    seconds = _lived(line) if info.ended is None else max(0.0, info.ended - info.started)
    return {
        "AGENT": name,
        "RUN": Text(short_id(info.run_id) if short else info.run_id),
        "STATE": Text(_state(info), style="magenta" if live and info.cancelling else ""),
        "MODEL": Text(_one_line(info.model), style="cyan"),
        "TOKENS": Text(tokens_text(info.total_usage)),
        "TOK/S": Text(f"{line.rate:,.0f}" if live and line.rate is not None else ""),
        "COST": Text(money_text(info.total_cost)),
        "TIME": Text(seconds_text(seconds)),
        "AGE": Text(age, style="red" if (line.age or 0.0) > _STALE else ""),
    }


def _lived(line: Line) -> float:
    info = line.info
    return max(0.0, (info.progress or info.started) + (line.age or 0.0) - info.started)


def _state(info: RunInfo) -> str:
    if info.ended is None and info.cancelling:
        return "cancelling"
    if info.ended is None and info.waits_for is not None:
        return f"waits: {info.waits_for.replace('_', ' ')}"
    return info.status


def _status(board: Board, width: int) -> Text:
    if board.problem:
        return _cut(Text(_one_line(board.problem), style="bold red", no_wrap=True), width)
    if not board.lines:
        what = "no runs, live or ended" if board.ended else "no live runs; e shows those that have ended"
        return _cut(Text(what, style="dim", no_wrap=True), width)
    below = len(board.lines) - board.top - board.page
    hidden = [f"{count:,} {where}" for count, where in ((board.top, "above"), (below, "below")) if count > 0]
    selected = board.selected
    about = f"{selected.run_id} of {selected.driver}" if selected is not None else ""
    if selected is not None and selected.error is not None:
        about += f": {selected.error.message}"
    return _cut(Text(_one_line("   ".join([about, *hidden])), style="dim", no_wrap=True), width)


def _footer(board: Board, width: int) -> Text:
    if board.asking is not None:
        question = f"cancel the whole tree of {board.asking.agent} {board.asking.run_id}? y/n"
        return _cut(Text(_one_line(question), style="bold yellow", no_wrap=True), width)
    if board.note:
        return _cut(Text(_one_line(board.note), style="bold", no_wrap=True), width)
    return _cut(Text(_HELP, style="dim", no_wrap=True), width)


def _one_line(text: str) -> str:
    return " ".join(printable(text).split())


def _cut(text: Text, width: int | None) -> Text:
    if width is not None:
        text.truncate(width, overflow="ellipsis")
    return text
