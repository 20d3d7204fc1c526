"""What a run consumed, kept as a cumulative snapshot."""

from collections.abc import Sequence
from decimal import Decimal

from ...messages.failure import FailureCode
from ...messages.model import ModelRequest
from ...messages.result import RunResult
from ...messages.usage import NO_COST, NO_USAGE, Cost, Totals, Usage
from ...providers.profile import ModelProfile
from .ports import Accounting

_NOT_BILLED: frozenset[FailureCode] = frozenset(
    {
        "authentication",
        "context_overflow",
        "invalid_request",
        "limit_exceeded",
        "missing_secret",
        "model_not_found",
        "overloaded",
        "quota",
        "rate_limit",
    }
)
"""Failures by which the provider refused the call before it worked on it."""

_BYTES_PER_TOKEN = 4

_NOTHING = Totals()


class Accounts:
    """The run's own usage and cost, and what is known here of its children's."""

    def __init__(self) -> None:
        self.usage: Usage = NO_USAGE
        self.cost: Cost = NO_COST
        self._below = Totals()
        self._version = 0
        self._reported: tuple[int, Totals] | None = None

    def add_model_call(self, usage: Usage, cost: Cost) -> None:
        """Count a model call."""
        self.usage += usage.model_copy(update={"model_calls": 1, "tool_calls": 0})
        self.cost += cost
        self._version += 1

    def add_tool_calls(self, count: int) -> None:
        """Count executed tool calls; a negative number takes back what was refused after all."""
        self.usage = self.usage.model_copy(update={"tool_calls": self.usage.tool_calls + count})
        self._version += 1

    def add_child(self, result: RunResult) -> None:
        """Remember what a child's sub-tree consumed."""
        self._below = Totals(
            total_usage=self._below.total_usage + result.total_usage,
            total_cost=self._below.total_cost + result.total_cost,
        )
        self._version += 1

    @property
    def alone(self) -> bool:
        """Whether no child has been counted: then what is known here is all there is."""
        return self._below == _NOTHING

    async def report(self, port: Accounting) -> Totals:
        """Report, if anything changed since the last report, and return the totals.

        If the supervisor does not answer, the totals are what is known here: nothing is lost, reports are cumulative.
        """
        if self._reported is not None and self._reported[0] == self._version:
            return self._reported[1]
        version = self._version
        try:
            totals = await port.report(self.usage, self.cost)
        except Exception:  # noqa: BLE001  # the next report carries everything again
            return self.local_totals()
        self._reported = (version, totals)
        return totals

    def local_totals(self) -> Totals:
        """Return the totals as far as they are known without asking."""
        return Totals(
            usage=self.usage,
            cost=self.cost,
            total_usage=self.usage + self._below.total_usage,
            total_cost=self.cost + self._below.total_cost,
        )


def price(profile: ModelProfile, usage: Usage, reported: Cost | None = None) -> Cost:
    """Return what a call costs: as the provider said, else by the price list, else unknown."""
    if reported is not None:
        return reported
    if profile.price is not None:
        return profile.price.cost_of(usage)
    return Cost(amount=Decimal(0)) if not usage.tokens and usage.precision == "exact" else Cost(precision="unknown")


def usage_of_broken_call(request: ModelRequest, received: int, last: Usage | None, code: FailureCode | None) -> Usage:
    """Return what a call without an answer consumed: as reported, else estimated from the bytes sent and received.

    Args:
        request: What was sent.
        received: Characters that came back.
        last: Usage the provider reported on the way.
        code: How the call failed; `None` if it was stopped from here.
    """
    if last is not None and last.precision != "unknown":
        if last.output_tokens or not received:
            return last
        return last.model_copy(update={"output_tokens": _tokens(received), "precision": "estimated"})
    if received == 0 and code in _NOT_BILLED:
        return NO_USAGE
    return Usage(input_tokens=_tokens(_size(request)), output_tokens=_tokens(received), precision="estimated")


def _size(request: ModelRequest) -> int:
    parts: Sequence[str] = [message.to_json() for message in request.messages]
    return sum(map(len, parts)) + len(request.instructions) + sum(len(tool.to_json()) for tool in request.tools)


def _tokens(size: int) -> int:
    return -(-size // _BYTES_PER_TOKEN)
