"""Sums of the accounts of many runs, moved by differences: a report costs the depth of its run, however many runs a tree has."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, TypeAlias

from ...messages.usage import Cost, Precision, Usage

_OPTIONAL = (
    "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cache_write_1h_tokens", "reasoning_tokens",
)  # fmt: skip
_N = len(_OPTIONAL)
_MODEL_CALLS, _TOOL_CALLS, _ESTIMATED, _UNKNOWN = range(2 * _N, 2 * _N + 4)
_AMOUNT, _AMOUNT_KNOWN, _COST_ESTIMATED, _COST_UNKNOWN = range(2 * _N + 4, 2 * _N + 8)

Change: TypeAlias = Sequence[tuple[int, Any]]
"""What is to be added to which figure."""

_EMPTY = [0] * (2 * _N + 4) + [Decimal(0), 0, 0, 0]


def _figures(usage: Usage, cost: Cost) -> list[Any]:
    """Return accounts as figures that can be added: a value and whether it is known count apart."""
    parts = (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.cache_write_1h_tokens,
        usage.reasoning_tokens,
    )
    return [
        *(part or 0 for part in parts),
        *(part is not None for part in parts),
        usage.model_calls,
        usage.tool_calls,
        usage.precision == "estimated",
        usage.precision == "unknown",
        Decimal(0) if cost.amount is None else cost.amount,
        cost.amount is not None,
        cost.precision == "estimated",
        cost.precision == "unknown",
    ]


def change(before: tuple[Usage, Cost] | None, after: tuple[Usage, Cost]) -> Change:
    """Return what turns a sum with the accounts of before, if there were any, into one with those of after."""
    old = _EMPTY if before is None else _figures(*before)
    return [
        (index, new - was) for index, (was, new) in enumerate(zip(old, _figures(*after), strict=True)) if was != new
    ]


class Sums:
    """The sum of the accounts of some runs."""

    __slots__ = ("_cached", "_figures")

    def __init__(self) -> None:
        self._figures: list[Any] = list(_EMPTY)
        self._cached: tuple[Usage, Cost] | None = None

    def move(self, by: Change) -> None:
        """Add a change."""
        figures = self._figures
        for index, more in by:
            figures[index] += more
        self._cached = None

    @property
    def tokens(self) -> int:
        """Input and output tokens, as far as they are known."""
        total: int = self._figures[0] + self._figures[1]
        return total

    @property
    def amount(self) -> Decimal:
        """USD, as far as they are known."""
        total: Decimal = self._figures[_AMOUNT]
        return total

    @property
    def model_calls(self) -> int:
        """Requests sent to a model."""
        total: int = self._figures[_MODEL_CALLS]
        return total

    @property
    def tool_calls(self) -> int:
        """Executed tool calls."""
        total: int = self._figures[_TOOL_CALLS]
        return total

    def accounts(self) -> tuple[Usage, Cost]:
        """Return the sum as it would come of adding up usages and costs."""
        if self._cached is None:
            figures = self._figures
            parts = {name: figures[i] if figures[_N + i] else None for i, name in enumerate(_OPTIONAL)}
            usage = Usage(
                **parts,
                model_calls=figures[_MODEL_CALLS],
                tool_calls=figures[_TOOL_CALLS],
                precision=_precision(figures[_ESTIMATED], figures[_UNKNOWN]),
            )
            cost = Cost(
                amount=figures[_AMOUNT] if figures[_AMOUNT_KNOWN] else None,
                precision=_precision(figures[_COST_ESTIMATED], figures[_COST_UNKNOWN]),
            )
            self._cached = usage, cost
        return self._cached


def _precision(estimated: int, unknown: int) -> Precision:
    if unknown:
        return "unknown"
    return "estimated" if estimated else "exact"
