"""What a call consumed: tokens in one normal form, and money; each exact, estimated or unknown."""

from datetime import date
from decimal import Decimal
from typing import Literal

from pydantic import Field, NonNegativeInt

from .value import Value

_PRECISIONS = ("exact", "estimated", "unknown")

Precision = Literal["exact", "estimated", "unknown"]
"""How far a figure can be trusted; the worst part decides for a sum."""


def worst(first: Precision, second: Precision) -> Precision:
    """Return the less trustworthy of two precisions."""
    return first if _PRECISIONS.index(first) >= _PRECISIONS.index(second) else second


def _absent(value: object) -> bool:
    return value is None


def _add(first: int | None, second: int | None) -> int | None:
    if first is None:
        return second
    return first if second is None else first + second


class Usage(Value):
    """Tokens and calls of one model call, one run or one tree.

    The normal form: `input_tokens` is gross (cache reads and writes included) and `output_tokens` is gross (reasoning included).
    `None` means that nobody reported the figure; it is never shown as zero. In a sum, a `None` part adds nothing and the precision
    says that the sum is incomplete.
    """

    input_tokens: NonNegativeInt | None = None
    """Tokens of the prompt, cached ones included."""
    output_tokens: NonNegativeInt | None = None
    """Tokens of the answer, reasoning included."""
    cache_read_tokens: NonNegativeInt | None = None
    """Part of the input that was read from the provider's cache."""
    cache_write_tokens: NonNegativeInt | None = None
    """Part of the input that was written to the provider's cache."""
    cache_write_1h_tokens: NonNegativeInt | None = Field(default=None, exclude_if=_absent)
    """Part of the cache writes that is kept for an hour, where the provider tells and charges it apart."""
    reasoning_tokens: NonNegativeInt | None = None
    """Part of the output that was reasoning."""
    model_calls: NonNegativeInt = 0
    """Requests sent to a model, failed ones included."""
    tool_calls: NonNegativeInt = 0
    """Tool calls executed, sub-agents included."""
    precision: Precision = "exact"
    """Whether input and output are reported, estimated, or (partly) unknown."""

    def __add__(self, other: "Usage") -> "Usage":
        """Return the sum; a figure that only one side knows is kept."""
        return Usage(
            input_tokens=_add(self.input_tokens, other.input_tokens),
            output_tokens=_add(self.output_tokens, other.output_tokens),
            cache_read_tokens=_add(self.cache_read_tokens, other.cache_read_tokens),
            cache_write_tokens=_add(self.cache_write_tokens, other.cache_write_tokens),
            cache_write_1h_tokens=_add(self.cache_write_1h_tokens, other.cache_write_1h_tokens),
            reasoning_tokens=_add(self.reasoning_tokens, other.reasoning_tokens),
            model_calls=self.model_calls + other.model_calls,
            tool_calls=self.tool_calls + other.tool_calls,
            precision=worst(self.precision, other.precision),
        )

    @property
    def tokens(self) -> int:
        """Input and output tokens together, as far as they are known."""
        return (self.input_tokens or 0) + (self.output_tokens or 0)


PriceSource = Literal["provider", "override", "profile", "genai-prices"]
"""Who said what a call costs: the provider as a charge, the user, the model's profile, or the price list of that name."""


class Pricing(Value):
    """Where the cost of one call comes from."""

    source: PriceSource
    """Who said it."""
    as_of: date | None = Field(default=None, exclude_if=_absent)
    """Day from which the price holds; for an undated entry of a list, a day since which the list has it."""
    entry: str | None = Field(default=None, exclude_if=_absent)
    """Entry of the price list, as `PROVIDER/MODEL`."""
    version: str | None = Field(default=None, exclude_if=_absent)
    """Version of the price list."""


class Cost(Value):
    """Money in USD."""

    amount: Decimal | None = None
    """The sum of what is known; `None` when nothing is."""
    precision: Precision = "exact"
    """`unknown` when a part has no price: the amount is then a lower bound."""
    priced: Pricing | None = Field(default=None, exclude_if=_absent)
    """Where the cost of one call comes from; a sum has none, its parts tell."""

    def __add__(self, other: "Cost") -> "Cost":
        """Return the sum; an unknown part adds nothing but marks the sum as unknown."""
        if self.amount is None or other.amount is None:
            amount = self.amount if other.amount is None else other.amount
        else:
            amount = self.amount + other.amount
        return Cost(amount=amount, precision=worst(self.precision, other.precision))


NO_USAGE = Usage(input_tokens=0, output_tokens=0)
"""The neutral element of addition: a run that has not called a model yet."""

NO_COST = Cost(amount=Decimal(0))
"""The neutral element of addition: nothing was bought yet."""


class Totals(Value):
    """The accounts of one run: its own, and those of the sub-tree below and including it."""

    usage: Usage = NO_USAGE
    """What the run itself consumed."""
    cost: Cost = NO_COST
    """What the run itself cost."""
    total_usage: Usage = NO_USAGE
    """What the run and all runs below it consumed."""
    total_cost: Cost = NO_COST
    """What the run and all runs below it cost."""
