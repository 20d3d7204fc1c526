"""What a run consumed, kept as a cumulative snapshot."""

import asyncio

from ...messages.failure import FailureCode
from ...messages.model import ModelRequest
from ...messages.result import ModelCallRecord, RunResult
from ...messages.usage import NO_COST, NO_USAGE, Cost, Totals, Usage
from ...providers.estimate import tokens_of, tokens_of_request
from ...providers.profile import IMAGE_TOKENS
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
        "thinking_rejected",
    }
)
"""Failures by which the provider refused the call before it worked on it."""

_PRELIMINARY = 2
"""Estimated over reported tokens from which the report can't be of the whole answer."""

_NOTHING = Totals()


class Accounts:
    """The run's own usage and cost, and what is known here of its children's."""

    def __init__(self, before: Totals = _NOTHING) -> None:
        """Begin at zero.

        Args:
            before: What earlier attempts of the run, and the runs below them, have used up: part of the totals, but not of what is
                reported.
        """
        self._before = before
        self.usage: Usage = NO_USAGE
        self.cost: Cost = NO_COST
        self._model_calls: list[ModelCallRecord] = []
        self._below = Totals()
        self._version = 0
        self._reported: tuple[int, Totals] | None = None
        self._settled: dict[int, int] = {}
        self._reporting = asyncio.Lock()

    def add_model_call(self, record: ModelCallRecord) -> None:
        """Count one try of a model call, or a cached answer, which is free."""
        if record.cached:
            record = record.model_copy(update={"usage": NO_USAGE, "cost": NO_COST})
        else:
            usage = record.usage.model_copy(update={"model_calls": 1, "tool_calls": 0})
            record = record.model_copy(update={"usage": usage})
        self._model_calls.append(record)
        self.usage += record.usage
        self.cost += record.cost
        self._version += 1

    @property
    def model_calls(self) -> tuple[ModelCallRecord, ...]:
        """Every model call so far, in the order of their ends."""
        return tuple(self._model_calls)

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

    def settle(self, number: int, tokens: int) -> None:
        """Note that a reservation is over, and what its model call used; the next report says so."""
        self._settled[number] = tokens
        self._version += 1

    @property
    def alone(self) -> bool:
        """Whether no child has been counted: then what is known here is all there is."""
        return self._below == _NOTHING

    async def report(self, port: Accounting) -> Totals:
        """Report, if anything changed since the last report, and return the totals.

        If the supervisor does not answer, the totals are what is known here: nothing is lost, reports are cumulative.
        """
        # One at a time: a snapshot that comes after a newer one is ignored, with what it settles.
        async with self._reporting:
            if self._reported is not None and self._reported[0] == self._version:
                return self._reported[1]
            version, settled = self._version, dict(self._settled)
            try:
                totals = await port.report(self.usage, self.cost, settled)
            except Exception:  # noqa: BLE001  # the next report carries everything again
                return self.local_totals()
            self._reported = (version, totals)
            for number in settled:
                del self._settled[number]
            return totals

    def local_totals(self) -> Totals:
        """Return the totals as far as they are known without asking."""
        before, below = self._before, self._below
        return Totals(
            usage=before.usage + self.usage,
            cost=before.cost + self.cost,
            total_usage=before.total_usage + self.usage + below.total_usage,
            total_cost=before.total_cost + self.cost + below.total_cost,
        )


def usage_of_broken_call(
    request: ModelRequest,
    received: int,
    last: Usage | None,
    code: FailureCode | None,
    image_tokens: int = IMAGE_TOKENS,
) -> Usage:
    """Return what a call without an answer consumed: as reported, and where nothing was, estimated from what was sent and received.

    What the provider reported stays. Only a count of the answer gives way to a higher estimate: one that is not exact, or so far below what
    came that it must be the preliminary count of a stream's start.

    Args:
        request: What was sent.
        received: Bytes of text, reasoning and arguments that came back.
        last: Usage the provider reported on the way.
        code: How the call failed; `None` if it was stopped from here.
        image_tokens: Tokens of one image; see `ModelProfile.image_tokens`.
    """
    known = last if last is not None else Usage(precision="unknown")
    entered, left = known.input_tokens, known.output_tokens
    if entered is None and left is None and received == 0 and code in _NOT_BILLED:
        return NO_USAGE
    seen = tokens_of(received)
    if entered is not None and left is not None and known.precision == "exact" and seen <= _PRELIMINARY * left:
        return known
    if entered is None:
        entered = tokens_of_request(request, image_tokens)
    figures = {"input_tokens": entered, "output_tokens": max(left or 0, seen), "precision": "estimated"}
    return known.model_copy(update=figures)
