"""What a model can do, as data."""

from datetime import date
from decimal import Decimal
from typing import Annotated, TypeAlias

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from ..messages.usage import Cost, Usage
from ..messages.value import Value
from .call_ids import CallIdRule

Money: TypeAlias = Annotated[Decimal, Field(ge=0, allow_inf_nan=False)]
"""USD, never negative."""

IMAGE_TOKENS = 1600
"""Tokens an image is taken for: about the most that the large providers charge for one in their usual resolution."""

OUTPUT_TOKENS = 8192
"""Tokens an answer is taken for at most where nobody says: nearly every model with a window of today accepts this limit, few need more for a turn."""


class Price(Value):
    """What a model costs: USD per million tokens, but for `per_request`."""

    input: Money
    """Prompt tokens that are not in the cache."""
    output: Money
    """Answer tokens."""
    cache_read: Money | None = None
    """Prompt tokens read from the cache; the input price where absent."""
    cache_write: Money | None = None
    """Prompt tokens written to the cache; the input price where absent."""
    cache_write_1h: Money | None = None
    """Those of them that are kept for an hour; the price of other writes where absent."""
    reasoning: Money | None = None
    """Reasoning tokens; the output price where absent."""
    per_request: Money | None = None
    """USD for each request beside its tokens."""
    as_of: date | None = None
    """Day from which the price holds; shown with what it is applied to."""

    def cost_of(self, usage: Usage) -> Cost:
        """Return what the usage of one call costs; a lower bound, marked as unknown, if input or output are unknown.

        A part that is reported larger than its whole counts as the whole. Reasoning is a part of the output and is charged once.
        """
        if usage.input_tokens is None and usage.output_tokens is None:
            return Cost(precision="unknown")
        complete = usage.input_tokens is not None and usage.output_tokens is not None
        entered, left = usage.input_tokens or 0, usage.output_tokens or 0
        read = min(usage.cache_read_tokens or 0, entered)
        hour = usage.cache_write_1h_tokens or 0
        written = min(max(usage.cache_write_tokens or 0, hour), entered - read)
        hour = min(hour, written)
        reasoning = min(usage.reasoning_tokens or 0, left)
        write_price = _first(self.cache_write, self.input)
        amount = (
            (entered - read - written) * self.input
            + read * _first(self.cache_read, self.input)
            + (written - hour) * write_price
            + hour * _first(self.cache_write_1h, write_price)
            + (left - reasoning) * self.output
            + reasoning * _first(self.reasoning, self.output)
        )
        amount = amount / 1_000_000 + (self.per_request or 0)
        return Cost(amount=amount, precision=usage.precision if complete else "unknown")


def _first(price: Decimal | None, fallback: Decimal) -> Decimal:
    return fallback if price is None else price


class ModelProfile(Value):
    """Facts of a model that the agent loop and the accounts need."""

    provider: str
    """Family of the provider; thinking blocks go back only to the family that made them.

    A vendor whose protocols keep different things with a block has a family for each of them.
    """
    vendor: str | None = None
    """Whose prices count, where that is not the word in `provider`."""
    model: str = ""
    """Default model name."""
    tools: bool = True
    """Whether it can call tools."""
    images: bool = True
    """Whether it can be shown images."""
    image_tokens: PositiveInt = IMAGE_TOKENS
    """Tokens an image is taken for in an estimate; its bytes say nothing about them."""
    max_output_tokens: PositiveInt = OUTPUT_TOKENS
    """Tokens that are reserved for an answer, and sent as its limit, where a bound stands over the call and its settings name none.

    Not more than the model accepts. Raise it for a model that thinks long; a smaller one lets more calls run side by side within a bound.
    """
    tools_overhead: NonNegativeInt = 64
    """Tokens that the server adds to a prompt with tools, beside their definitions."""
    call_ids: CallIdRule = CallIdRule()
    """Ids of calls that it accepts in a history."""
    native_output_schema: bool = False
    """Whether `output_schema` of a request is honoured; else structured output goes through a tool."""
    price: Price | None = None
    """What tokens cost; `None`: unknown, unless the provider reports a charge."""
    silence: PositiveFloat | None = None
    """Seconds this model may be silent: it lengthens a shorter `stream_idle_timeout`."""

    @property
    def biller(self) -> str:
        """Whose prices count."""
        return self.vendor or self.provider

    @property
    def key(self) -> str:
        """Name under which its use is bounded over a namespace, as `PROVIDER:MODEL`."""
        return f"{self.biller}:{self.model}"
