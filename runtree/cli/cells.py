"""What the views tell of the cells of an agent with a REPL."""

from collections.abc import Iterator
from typing import Self

from pydantic import BaseModel, ValidationError

from ..messages.items import Custom, ReplCall
from .figures import seconds_text


class CellReport(BaseModel):
    """The `repl_cell` item of a cell that has ended."""

    cell: int
    """Its number."""
    stdout: str = ""
    """What it printed."""
    value: str | None = None
    """Value of its last line."""
    error: str | None = None
    """What it raised, or what has stopped it."""
    answered: bool = False
    """It gave the answer."""
    elapsed: float = 0.0
    """Seconds."""

    @classmethod
    def of(cls, item: Custom) -> Self | None:
        """Return what an item reports; `None` if that is something else, as whatever a cell emits under this name."""
        try:
            return cls.model_validate(item.data) if item.name == "repl_cell" else None
        except ValidationError:
            return None

    def line(self) -> str:
        """Return it in one line: the error, or the last that was printed, or the value."""
        printed = self.stdout.strip().splitlines()[-1:]
        what = self.error or "".join(printed) or self.value or ("answered" if self.answered else "no output")
        return f"cell {self.cell}: {what}"

    def lines(self) -> Iterator[str]:
        """Yield what was printed, and how it ended."""
        yield from (f"> {line}" for line in self.stdout.splitlines())
        if self.value is not None and self.error is None:
            yield from (f"= {line}" for line in self.value.splitlines())
        how = "failed" if self.error is not None else "answered" if self.answered else "ok"
        reason = f": {' '.join(self.error.split())}" if self.error else ""
        yield f"cell {self.cell} {how} after {seconds_text(self.elapsed)}{reason}"


def shows_by_itself(item: ReplCall) -> bool:
    """Return whether nothing else in the stream tells of a call of a cell; those of tools and agents have items of their own."""
    return not item.name or item.outcome in ("invalid", "refused")


def call_label(item: ReplCall) -> str:
    """Return the name of what a cell calls."""
    return item.name or item.call_kind.removesuffix("_batched")
