"""Who waits for what, in the order in which it was asked for."""

import heapq
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ...messages.control import ChildRequest
from ...messages.reservations import ReserveRequest, SlotRequest, WaitReason

if TYPE_CHECKING:
    from .records import Run

Ticket: TypeAlias = tuple[int, int]
"""Rank and number: what is smaller comes first."""

AT_ONCE = 0
"""Rank of runs that want to go on: they come before new ones."""

IN_TURN = 1
"""Rank of everything else."""


@dataclass(slots=True, eq=False)
class Waiter:
    """A request that is not decided yet. It stands in one line at a time, and keeps its ticket when it goes on to another."""

    run: "Run"
    """The run that asked: for an admission, the parent."""
    request: ReserveRequest | SlotRequest | ChildRequest
    ticket: Ticket
    line: "Line | None" = None


class Line:
    """Waiters for one thing. Those that left are dropped when they come to the head, so that leaving costs nothing."""

    __slots__ = ("_heap", "_orders", "reason")

    def __init__(self, reason: WaitReason) -> None:
        self.reason: WaitReason = reason
        self._heap: list[tuple[Ticket, int, Waiter]] = []
        self._orders = itertools.count()

    def add(self, waiter: Waiter) -> None:
        """Have a waiter stand here, by its ticket, and nowhere else."""
        waiter.line = self
        heapq.heappush(self._heap, (waiter.ticket, next(self._orders), waiter))

    def head(self) -> Waiter | None:
        """Return who is the first; `None` if nobody waits."""
        while self._heap:
            waiter = self._heap[0][2]
            if waiter.line is self:
                return waiter
            heapq.heappop(self._heap)
        return None

    def before(self, ticket: Ticket) -> bool:
        """Return whether somebody with an earlier ticket waits here."""
        head = self.head()
        return head is not None and head.ticket < ticket


class Tickets:
    """Numbers for waiters, and the times at which they stop to wait whatever happens."""

    def __init__(self) -> None:
        self._last = 0
        self._timed: list[tuple[float, int, Waiter]] = []

    def draw(self, rank: int = IN_TURN) -> Ticket:
        """Return the next ticket."""
        self._last += 1
        return rank, self._last

    def keep(self, waiter: Waiter) -> None:
        """Take up a waiter whose deadline, or that of its run, is to end its wait; its ticket may be of an earlier supervisor."""
        self._last = max(self._last, waiter.ticket[1])
        if waiter.run.deadline is not None:
            heapq.heappush(self._timed, (waiter.run.deadline, waiter.ticket[1], waiter))

    def next_deadline(self) -> float | None:
        """Return when the next wait ends by its deadline."""
        while self._timed and self._timed[0][2].line is None:
            heapq.heappop(self._timed)
        return self._timed[0][0] if self._timed else None

    def due(self, now: float) -> list[Waiter]:
        """Return those whose deadline has passed."""
        found: list[Waiter] = []
        while (time := self.next_deadline()) is not None and time <= now:
            found.append(heapq.heappop(self._timed)[2])
        return found
