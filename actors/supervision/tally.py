"""What happened since the supervisor started, as plain numbers: metrics are made of them now and then, off the path of any run."""

from collections import Counter
from decimal import Decimal
from typing import Final

from ...messages.result import RunStatus
from ...messages.usage import Cost, Precision, Usage

_MOST_AGENTS: Final = 50
"""Names told apart. Programs may make up agents, and each name is a time series that Prometheus keeps."""

OTHERS: Final = "(others)"
"""Agents beyond that."""


class Tally:
    """Counts that only grow, but for `live`."""

    def __init__(self) -> None:
        self.live: Counter[str] = Counter()
        """Live runs by agent; an agent without any stays, with 0."""
        self.started: Counter[str] = Counter()
        """Admitted runs by agent."""
        self.ended: Counter[tuple[str, RunStatus, Precision]] = Counter()
        """Ended runs by agent, status, and how exactly their cost is known."""
        self.tokens: Counter[tuple[str, str]] = Counter()
        """Known tokens by agent and direction, `input` or `output`."""
        self.money: dict[str, Decimal] = {}
        """Known USD by agent."""
        self.leases: Counter[str] = Counter()
        """Runs for which a warm actor would do, by whether there was one: `hit` or `miss`."""
        self.cancel_seconds: list[float] = []
        """How long cancels took, since somebody last took the list."""

    def begin(self, agent: str, *, poolable: bool, warm: bool) -> None:
        """Count an admission."""
        name = self._bounded(agent)
        self.started[name] += 1
        self.live[name] += 1
        if poolable:
            self.leases["hit" if warm else "miss"] += 1

    def go_on(self, agent: str) -> None:
        """Count a run that was admitted by an earlier supervisor and lives."""
        self.live[self._bounded(agent)] += 1

    def end(self, agent: str, status: RunStatus, cost: Cost) -> None:
        """Count an end."""
        name = self._bounded(agent)
        self.live[name] -= 1
        self.ended[name, status, cost.precision] += 1

    def spend(self, agent: str, usage: tuple[Usage, Usage], cost: tuple[Cost, Cost]) -> None:
        """Count what a run's accounts have grown by.

        Args:
            agent: Name of its agent.
            usage: Before and after.
            cost: Before and after.
        """
        name = self._bounded(agent)
        for direction in ("input", "output"):
            before, after = (getattr(each, f"{direction}_tokens") or 0 for each in usage)
            if after > before:
                self.tokens[name, direction] += after - before
        more = (cost[1].amount or Decimal(0)) - (cost[0].amount or Decimal(0))
        if more > 0:
            self.money[name] = self.money.get(name, Decimal(0)) + more

    def take_cancel_seconds(self) -> list[float]:
        """Return the latencies of the cancels since the last call."""
        taken, self.cancel_seconds = self.cancel_seconds, []
        return taken

    def _bounded(self, agent: str) -> str:
        return agent if agent in self.started or len(self.started) < _MOST_AGENTS else OTHERS
