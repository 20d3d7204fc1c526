"""What a run may consume: it is reserved before it is used, and settled after it by the `RunReport` that names the reservation.

Every request is numbered: asked again it gets the same answer, or meanwhile the decision.
"""

from decimal import Decimal
from typing import Literal

from pydantic import Field, NonNegativeInt

from .failure import Failure
from .value import Value

WaitReason = Literal["budget", "model_limit", "parallel"]
"""What a call or a run waits for: reservations of others, a bound on the model over the namespace, or a parallel slot."""


class ReserveRequest(Value):
    """A run is about to make calls that a bound stands over, and says what they may consume at most.

    Needed for model calls where `Limits` bound money, tokens or model calls, or where the model is one of `Admitted.limited_models` or of a `LimitOrder`; for tool calls
    where `Limits` bound them. Each retry and each fallback reserves anew.
    """

    run_id: str
    """The run."""
    attempt: int
    """Its attempt."""
    number: int
    """Its call counter; also the name of the reservation."""
    model_calls: NonNegativeInt = 0
    """Model calls, 0 or 1."""
    tool_calls: NonNegativeInt = 0
    """Tool calls; granted in part where only part is left, and never made to wait."""
    model: str | None = None
    """`ModelProfile.key` of the model that is called."""
    input_tokens: NonNegativeInt = 0
    """Upper bound of the prompt."""
    output_tokens: NonNegativeInt = 0
    """Upper bound of the answer that is wished for; may be granted in part."""
    input_cost: Decimal | None = None
    """Upper bound in USD of what the call costs without its answer; `None` without a known price."""
    output_price: Decimal | None = None
    """Upper bound in USD of what one token of the answer costs; `None` without a known price."""


class ReserveReply(Value):
    """How much of it may be done, or that it has to wait."""

    granted_model_calls: NonNegativeInt = 0
    """At most as many as asked for."""
    granted_tool_calls: NonNegativeInt = 0
    """At most as many as asked for."""
    output_tokens: NonNegativeInt | None = None
    """Tokens the answer may have, to be sent as its limit; `None` where nothing bounds them."""
    error: Failure | None = None
    """Which bound stands against the rest, also against a longer answer; code `cancelled` if the run is cancelled or over."""
    waits_for: WaitReason | None = None
    """Nothing is decided yet: a `GrantOrder` will tell, and so does the same request, asked again."""


class SlotRequest(Value):
    """A run gives its parallel slot back because it only waits for its children, or takes it again.

    Needed where `Limits` bound `max_parallel`. Answered like a reservation: giving back is granted at once; taking may have to wait, but comes before
    new runs. A cancelled run has its slot at once, so that it can end.
    """

    run_id: str
    """The run."""
    attempt: int
    """Its attempt."""
    number: int
    """Its call counter. Of two requests the one with the higher number counts."""
    waiting: bool
    """True: gives it back. False: wants to go on."""


class ThrottleReport(Value):
    """A provider asked to be left alone: the whole fleet slows down, not only the run that heard it."""

    model: str
    """`ModelProfile.key`."""
    seconds: float = Field(ge=0)
    """For how long from now."""


class BudgetLine(Value):
    """One bound over a run, and how far it is used."""

    limit: str
    """Name of the field of `Limits`."""
    scope: str
    """Whose bound it is: `tree`, or `sub-tree of` an agent."""
    scope_run_id: str
    """The run at the top of that scope."""
    allowed: Decimal
    """The bound: USD, tokens, calls or runs."""
    settled: Decimal
    """What was used, by all runs of the scope."""
    reserved: Decimal
    """What calls under way may use at most."""

    @property
    def left(self) -> Decimal:
        """What is left for new calls."""
        return max(Decimal(0), self.allowed - self.settled - self.reserved)


class Budget(Value):
    """What is left for a run: every bound that stands over it, outermost first."""

    lines: tuple[BudgetLine, ...] = ()
    """The bounds that can be used up."""
    deadline: float | None = None
    """Seconds since the epoch at which the run ends."""

    def left(self, limit: str) -> Decimal | None:
        """Return what the strictest bound of that name leaves; `None` without one."""
        return min((line.left for line in self.lines if line.limit == limit), default=None)
