"""Bounds of a tree or sub-tree of runs."""

from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, PositiveFloat, PositiveInt

from .value import Value


def _exact_decimal(value: Any) -> Any:
    # A float would carry its binary noise into the money: 2.3 is meant, not 2.29999999999999982236431605997495353221893310546875.
    return str(value) if isinstance(value, float) else value


Money = Annotated[Decimal, BeforeValidator(_exact_decimal), Field(gt=0)]
"""An amount of USD; text such as "2.50" is read exactly."""

_SMALLER = ("max_cost", "max_tokens", "max_model_calls", "max_tool_calls", "max_runs", "max_depth", "max_parallel",
            "deadline", "model_call_timeout", "tool_timeout", "stream_idle_timeout")  # fmt: skip


class Limits(Value):
    """Bounds of a whole tree (given at start) or of a sub-tree (given on an Agent). `None` is unbounded.

    The stricter of two always wins: a child can narrow what it inherits and never widen it.
    """

    model_config = ConfigDict(extra="forbid")

    max_cost: Money | None = None
    """USD over the tree."""
    max_tokens: PositiveInt | None = None
    """Input and output tokens over the tree."""
    max_model_calls: PositiveInt | None = None
    """Model calls over the tree, retries included."""
    max_tool_calls: PositiveInt | None = None
    """Executed tool calls over the tree, sub-agents included."""
    max_runs: PositiveInt | None = None
    """Runs over the tree, the root included."""
    max_depth: Annotated[int, Field(ge=0)] | None = 8
    """Depth of the deepest run that may start; the root of the tree has depth 0."""
    max_parallel: PositiveInt | None = None
    """Runs of the tree that are at work at once; a run that only waits for its children does not count."""
    deadline: PositiveFloat | None = None
    """Seconds from the start of the (sub-)tree until it is ended."""
    model_call_timeout: PositiveFloat | None = None
    """Seconds for one model call, from request to terminal event."""
    tool_timeout: PositiveFloat | None = None
    """Seconds for one tool call; a sub-agent called as a tool included."""
    stream_idle_timeout: PositiveFloat | None = None
    """Seconds without a byte from the provider before the call counts as stalled."""
    unpriced: Literal["refuse", "ignore"] | None = None
    """What `max_cost` does to a model call whose price is unknown: it is refused, or not counted. `None` is inherited, and `refuse` at the root."""

    def narrow(self, other: "Limits | None") -> "Limits":
        """Return the stricter of both for every bound."""
        if other is None:
            return self
        merged = {name: _stricter(getattr(self, name), getattr(other, name)) for name in _SMALLER}
        return Limits(**merged, unpriced=_stricter_policy(self.unpriced, other.unpriced))

    @property
    def bounds_model_calls(self) -> bool:
        """Whether model calls have to be reserved."""
        return self.max_cost is not None or self.max_tokens is not None or self.max_model_calls is not None


def _stricter(first: Any, second: Any) -> Any:
    if first is None:
        return second
    return first if second is None else min(first, second)


def _stricter_policy(
    first: Literal["refuse", "ignore"] | None, second: Literal["refuse", "ignore"] | None
) -> Literal["refuse", "ignore"] | None:
    return "refuse" if "refuse" in (first, second) else first or second


class ModelLimit(Value):
    """Bounds on the use of one model by all actors of a namespace together. `None` is unbounded."""

    model_config = ConfigDict(extra="forbid")

    concurrency: PositiveInt | None = None
    """Calls in flight at once."""
    requests_per_minute: PositiveInt | None = None
    """Calls begun within any 60 seconds."""
    tokens_per_minute: PositiveInt | None = None
    """Input and output tokens within any 60 seconds; counted at the upper bound until a call is settled."""

    def narrow(self, other: "ModelLimit") -> "ModelLimit":
        """Return the stricter of both for every bound."""
        names = type(self).model_fields
        return ModelLimit(**{name: _stricter(getattr(self, name), getattr(other, name)) for name in names})
