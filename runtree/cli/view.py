"""What a command shows of a run's stream, and which of the three ways suits its stdout."""

import time
from typing import Literal, Protocol, Self

from ..messages.items import StreamItem
from .output import stdout, write
from .plain import JsonView, PlainView

ViewKind = Literal["live", "plain", "json"]
"""A tree drawn in place, lines for people, lines for programs."""


class View(Protocol):
    """Shows a stream while it is entered."""

    async def __aenter__(self) -> Self:
        """Begin to show."""
        ...

    async def __aexit__(self, *_: object) -> None:
        """Show what is still held back, and end."""
        ...

    def show(self, item: StreamItem) -> None:
        """Take in the next item."""
        ...


def view_kind(as_json: bool) -> ViewKind:
    """Return the way that suits this process."""
    if as_json:
        return "json"
    return "live" if stdout().isatty() else "plain"


def make_view(kind: ViewKind) -> View:
    """Return a view that writes to stdout."""
    match kind:
        case "json":
            return JsonView(write)
        case "plain":
            return PlainView(write)
        case "live":
            from rich.console import Console

            from .live import LiveView

            return LiveView(Console(file=stdout(), highlight=False), time.time)
