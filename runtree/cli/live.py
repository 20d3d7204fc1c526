"""The live tree on a terminal: one line for each run, drawn in place."""

import asyncio
from collections.abc import Callable
from typing import Final, Self

from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.text import Text

from ..messages.items import StreamItem
from .figures import UNKNOWN, money_text, printable, short_id, tokens_text, totals_text
from .rows import Row, Tree

_FRAME_SECONDS: Final = 0.1
_LEAST_TEXT: Final = 18
_SYMBOLS: Final = {
    "running": ("●", "yellow"),
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
    "cancelled": ("■", "magenta"),
}


class LiveView:
    """Shows a run's stream as a tree until it ends; what is on the screen at the end stays there."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._console = console
        self._clock = clock
        self._tree = Tree()
        self._live = Live(console=console, auto_refresh=False, transient=False, redirect_stdout=False)
        self._drawing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._live.start()
        self._drawing = asyncio.create_task(self._draw())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._drawing is not None:
            self._drawing.cancel()
            await asyncio.wait({self._drawing})
        self._live.update(self.frame(totals=False))
        self._live.stop()

    def show(self, item: StreamItem) -> None:
        """Take in the next item; it is drawn with the next frame."""
        self._tree.apply(item)

    def frame(self, *, totals: bool = True) -> Text:
        """Return what fits on the terminal now."""
        width, height = self._console.size
        lines = tree_lines(self._tree, width - 1, max(height - 2, 1))
        if totals and (line := totals_line(self._tree, self._clock())) is not None:
            line.truncate(width - 1, overflow="ellipsis")
            lines.append(line)
        return Text("\n", no_wrap=True, overflow="ellipsis").join(lines)

    async def _draw(self) -> None:
        while True:
            self._live.update(self.frame(), refresh=True)
            await asyncio.sleep(_FRAME_SECONDS)


def tree_lines(tree: Tree, width: int, height: int) -> list[Text]:
    """Return at most `height` lines, none wider than `width`."""
    rows, left_out = tree.visible(height)
    lines = _table(rows, width)
    if left_out:
        lines.append(Text(f"… {left_out} more", style="dim"))
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines


def totals_line(tree: Tree, now: float) -> Text | None:
    """Return what the tree consumed so far; `None` before its first item."""
    if (root := tree.root) is None:
        return None
    usage, cost = tree.spent
    seconds = max((root.ended or now) - (root.started or now), 0.0)
    return Text(totals_text(len(tree), usage, cost, seconds), style="dim")


def _table(rows: list[Row], width: int) -> list[Text]:
    names = [_name(row, width) for row in rows]
    columns = [
        [short_id(row.run_id) for row in rows],
        [_activity(row) for row in rows],
        [tokens_text(row.totals.usage) if row.totals else "" for row in rows],
        [money_text(row.totals.cost) if row.totals else "" for row in rows],
    ]
    widths = [max(map(cell_len, column), default=0) for column in columns]
    name_width = max(map(cell_len, names), default=0)
    # On a narrow terminal the ids go first, then the tools, then the figures; what a run says stays longest.
    shown = [number for number, column_width in enumerate(widths) if column_width]
    while shown and name_width + sum(widths[number] + 2 for number in shown) + 2 + _LEAST_TEXT > width:
        shown.pop(0)
    lines: list[Text] = []
    for index, row in enumerate(rows):
        symbol, colour = _SYMBOLS[row.state]
        line = Text("  " * row.depth, no_wrap=True)
        line.append(symbol + " ", style=colour)
        line.append(_padded(names[index], name_width)[2 * row.depth + 2 :], style="bold")
        for number in shown:
            cell = columns[number][index]
            space = " " * (widths[number] - cell_len(cell))
            line.append("  " + (space + cell if number >= 2 else cell + space), style=_style(number, cell))
        line.append("  ")
        said = _said(row)
        line.append(
            _end_of(said, width - line.cell_len) if row.state == "running" else said, style=_style_of_said(row, colour)
        )
        lines.append(line)
    return lines


def _name(row: Row, width: int) -> str:
    """The name with its indent and room for the symbol, and the number of an attempt after the first; at most a third of the line."""
    attempt = f" #{row.attempt}" if row.attempt > 1 else ""
    name = Text("  " * row.depth + "  " + printable(row.agent) + attempt)
    name.truncate(max(width // 3, 2 * row.depth + 6), overflow="ellipsis")
    return name.plain


def _activity(row: Row) -> str:
    activity = Text(printable(row.activity))
    activity.truncate(24, overflow="ellipsis")
    return activity.plain


def _said(row: Row) -> str:
    said = row.note if row.note and row.state != "completed" else row.thought or row.last_line
    return " ".join(printable(said).split())


def _style_of_said(row: Row, colour: str) -> str:
    if row.note and row.state != "completed":
        return colour
    return "dim italic" if row.thought else ""


def _end_of(text: str, room: int) -> str:
    """The end of a text that is still growing, so that one sees it grow."""
    if cell_len(text) <= room:
        return text
    start = max(len(text) - max(room, 1), 0)
    while cell_len(text[start:]) > room - 1 and start < len(text):
        start += 1
    return "…" + text[start:]


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))


def _style(column: int, cell: str) -> str:
    if column == 0:
        return "dim"
    if column == 1:
        return "cyan"
    return "dim" if cell == UNKNOWN else ""
