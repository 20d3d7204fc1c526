"""What a model can do, as data."""

from decimal import Decimal

from pydantic import PositiveFloat

from ..messages.usage import Cost, Usage
from ..messages.value import Value
from .call_ids import CallIdRule


class Price(Value):
    """USD per million tokens."""

    input: Decimal
    """Prompt tokens that are not in the cache."""
    output: Decimal
    """Answer tokens."""
    cache_read: Decimal | None = None
    """Prompt tokens read from the cache; the input price where absent."""
    cache_write: Decimal | None = None
    """Prompt tokens written to the cache; the input price where absent."""
    reasoning: Decimal | None = None
    """Reasoning tokens; the output price where absent."""

    def cost_of(self, usage: Usage) -> Cost:
        """Return what the usage costs; unknown if input or output are.

        A part that is reported larger than its whole counts as the whole.
        """
        if usage.input_tokens is None or usage.output_tokens is None:
            return Cost(precision="unknown")
        read = min(usage.cache_read_tokens or 0, usage.input_tokens)
        write = min(usage.cache_write_tokens or 0, usage.input_tokens - read)
        reasoning = min(usage.reasoning_tokens or 0, usage.output_tokens)
        amount = (
            (usage.input_tokens - read - write) * self.input
            + read * _first(self.cache_read, self.input)
            + write * _first(self.cache_write, self.input)
            + (usage.output_tokens - reasoning) * self.output
            + reasoning * _first(self.reasoning, self.output)
        )
        return Cost(amount=amount / 1_000_000, precision=usage.precision)


def _first(price: Decimal | None, fallback: Decimal) -> Decimal:
    return fallback if price is None else price


class ModelProfile(Value):
    """Facts of a model that the agent loop and the accounts need."""

    provider: str
    """Family of the provider; thinking blocks go back only to the family that made them."""
    model: str = ""
    """Default model name."""
    tools: bool = True
    """Whether it can call tools."""
    images: bool = True
    """Whether it can be shown images."""
    call_ids: CallIdRule = CallIdRule()
    """Ids of calls that it accepts in a history."""
    native_output_schema: bool = False
    """Whether `output_schema` of a request is honoured; else structured output goes through a tool."""
    price: Price | None = None
    """What tokens cost; `None`: unknown, unless the provider reports a charge."""
    silence: PositiveFloat | None = None
    """Seconds this model may be silent: it lengthens a shorter `stream_idle_timeout`."""
