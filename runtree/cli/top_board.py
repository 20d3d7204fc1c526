"""The state behind `runtree top`: views of the namespace and keys in, lines and wishes out. No terminal, no clock, no Ray."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final, Literal

from ..messages.overview import NamespaceView
from ..messages.result import RunInfo
from .ps import in_tree_order

_WINDOW: Final = 15.0
"""Seconds over which tokens a second are an average: usage arrives at the end of a model call and not with each token."""


@dataclass(frozen=True, slots=True)
class Line:
    """One run as it is shown."""

    info: RunInfo
    indent: int
    rate: float | None
    """Tokens a second of it and all below it; `None` before there is anything to compare with."""
    age: float | None
    """Seconds since it was last heard of; `None` for one that has ended."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a key asks for."""

    kind: Literal["quit", "look", "cancel"]
    run_id: str = ""


@dataclass(slots=True)
class _Meter:
    """Tokens over the last seconds."""

    seen: deque[tuple[float, int]] = field(default_factory=deque[tuple[float, int]])

    def add(self, now: float, tokens: int) -> None:
        self.seen.append((now, tokens))
        while len(self.seen) > 2 and self.seen[1][0] <= now - _WINDOW:
            self.seen.popleft()

    @property
    def rate(self) -> float | None:
        (first, before), (last, after) = self.seen[0], self.seen[-1]
        return None if last <= first else max(0.0, (after - before) / (last - first))


class Board:
    """What is on the screen."""

    def __init__(self, namespace: str, *, ended: bool = False) -> None:
        self.namespace = namespace
        self.ended = ended
        """Whether ended runs are shown."""
        self.view: NamespaceView | None = None
        self.problem = ""
        """Why the view is old, or missing."""
        self.note = ""
        """What the last key did."""
        self.asking: RunInfo | None = None
        """The root whose tree is to be cancelled, if that is confirmed."""
        self.lines: list[Line] = []
        self.page = 10
        """Lines that fit on the screen."""
        self.top = 0
        """First line on the screen."""
        self._selected: str | None = None
        self._meters: dict[str, _Meter] = {}
        self._whole = _Meter()

    @property
    def rate(self) -> float | None:
        """Tokens a second of the namespace."""
        return self._whole.rate if self._whole.seen else None

    @property
    def cursor(self) -> int:
        """Number of the selected line."""
        return next((at for at, line in enumerate(self.lines) if line.info.run_id == self._selected), 0)

    @property
    def selected(self) -> RunInfo | None:
        """The selected run."""
        return self.lines[self.cursor].info if self.lines else None

    def take(self, view: NamespaceView | None) -> None:
        """Take in a new view; `None`: there is no supervisor."""
        at = self.cursor
        self.view = view
        self.problem = ""
        if view is None:
            self.problem = (
                f"no supervisor in namespace {self.namespace}: nothing runs there, the next driver starts one"
            )
            self.lines, self._meters = [], {}
            return
        self._meters = {info.run_id: self._meters.get(info.run_id) or _Meter() for info in view.runs}
        for info in view.runs:
            self._meters[info.run_id].add(view.time, info.total_usage.tokens)
        self._whole.add(view.time, view.usage.tokens)
        self.lines = self._ordered(view)
        if self.lines and not any(line.info.run_id == self._selected for line in self.lines):
            # The selected run has gone: what stands in its place is selected now.
            self._selected = self.lines[min(at, len(self.lines) - 1)].info.run_id

    def fail(self, problem: str) -> None:
        """Note that there was no new view."""
        self.problem = problem

    def fit(self, height: int) -> list[Line]:
        """Return the lines for so much room, the selected one among them."""
        self.page = max(height, 1)
        at = self.cursor
        self.top = max(0, min(self.top, at, len(self.lines) - self.page), at - self.page + 1)
        return self.lines[self.top : self.top + self.page]

    def press(self, key: str) -> Wish | None:
        """Take in a key; returns what it asks for beyond the screen."""
        if key == "end of input":
            return Wish("quit")
        if self.asking is not None:
            root, self.asking = self.asking, None
            return self._cancel(root) if key in ("y", "Y") else None
        self.note = ""
        match key:
            case "q":
                return Wish("quit")
            case "e":
                self.ended = not self.ended
                return Wish("look")
            case "c":
                return self._cancel(self.selected)
            case "C":
                self.asking = self._root_of(self.selected)
                if self.asking is None and self.selected is not None:
                    self.note = "the root of this tree is not shown"
            case _:
                self._move(key)
        return None

    def _cancel(self, info: RunInfo | None) -> Wish | None:
        if info is None:
            return None
        self.note = f"cancelling {info.agent} {info.run_id} and all below it …"
        return Wish("cancel", info.run_id)

    def _root_of(self, info: RunInfo | None) -> RunInfo | None:
        if info is None:
            return None
        return next((line.info for line in self.lines if line.info.run_id == info.root_run_id), None)

    def _move(self, key: str) -> None:
        steps = {
            "up": -1,
            "k": -1,
            "down": 1,
            "j": 1,
            "page up": -self.page,
            "page down": self.page,
            "home": -len(self.lines),
            "g": -len(self.lines),
            "end": len(self.lines),
            "G": len(self.lines),
        }
        if self.lines and key in steps:
            at = min(max(self.cursor + steps[key], 0), len(self.lines) - 1)
            self._selected = self.lines[at].info.run_id

    def _ordered(self, view: NamespaceView) -> list[Line]:
        shown: dict[str, int] = {}
        lines: list[Line] = []
        for info in in_tree_order(view.runs):
            # A run whose parent is not among the lines stands at the margin.
            indent = shown[info.run_id] = shown.get(info.parent_run_id or "", -1) + 1
            age = None if info.ended is not None else max(0.0, view.time - (info.progress or info.started))
            lines.append(Line(info, indent, self._meters[info.run_id].rate, age))
        return lines
