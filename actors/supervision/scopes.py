"""A bound over a run and all below it: what was used, what calls under way may use at most, and who waits for it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Final

from ...messages.errors import LimitExceededError
from ...messages.failure import Failure
from ...messages.limits import Limits
from ...messages.reservations import BudgetLine, ReserveReply, ReserveRequest
from ...messages.usage import Cost, Usage
from ...messages.value import Value
from .lines import Line, Ticket

if TYPE_CHECKING:
    from .records import Run

MINIMUM_ANSWER: Final = 16
"""Tokens of an answer below which a model call is refused rather than cut short: some providers take no smaller limit."""

_NOTHING: Final = Decimal(0)


class Reservation(Value):
    """Calls that were granted and are not settled, and what they may use at most."""

    request: ReserveRequest
    reply: ReserveReply

    @cached_property
    def output_tokens(self) -> int:
        """Upper bound of the answer."""
        if not self.reply.granted_model_calls:
            return 0
        granted = self.reply.output_tokens
        return self.request.output_tokens if granted is None else granted

    @cached_property
    def tokens(self) -> int:
        """Upper bound of the tokens."""
        return self.request.input_tokens + self.output_tokens if self.reply.granted_model_calls else 0

    @cached_property
    def cost(self) -> Decimal | None:
        """Upper bound in USD; `None` without a known price."""
        return cost_of(self.request, self.output_tokens) if self.reply.granted_model_calls else _NOTHING


def cost_of(request: ReserveRequest, output_tokens: int) -> Decimal | None:
    """Return what a call costs at most; `None` without a known price."""
    if request.input_cost is None or request.output_price is None:
        return None
    return request.input_cost + output_tokens * request.output_price


def doubt(reservations: Iterable[Reservation]) -> tuple[Usage, Cost]:
    """Return what calls count as of which nobody can tell what they used: all that was reserved."""
    usage, cost = Usage(input_tokens=0, output_tokens=0, precision="estimated"), Cost(precision="estimated")
    for each in reservations:
        model_calls = each.reply.granted_model_calls
        usage += Usage(
            input_tokens=each.request.input_tokens if model_calls else 0,
            output_tokens=each.output_tokens,
            model_calls=model_calls,
            tool_calls=each.reply.granted_tool_calls,
            precision="estimated",
        )
        cost += Cost(amount=each.cost, precision="unknown" if each.cost is None else "estimated")
    return usage, cost


@dataclass(slots=True, eq=False)
class Scope:
    """The run at the top of a (sub-)tree with limits of its own."""

    run: "Run"
    limits: Limits
    tokens: int = 0
    """Reserved tokens."""
    cost: Decimal = _NOTHING
    """Reserved USD."""
    model_calls: int = 0
    """Reserved model calls."""
    tool_calls: int = 0
    """Reserved tool calls."""
    working: int = 0
    """Runs that hold a parallel slot."""
    line: Line = field(default_factory=lambda: Line("budget"))
    """Model calls that wait for reservations to be settled."""
    slots: Line = field(default_factory=lambda: Line("parallel"))
    """Runs that wait for a parallel slot."""

    @property
    def name(self) -> str:
        """What people call it."""
        return "tree" if self.run.parent is None else f"sub-tree of {self.run.agent}"

    def failure(self, limit: str) -> Failure:
        """Return that a limit is reached."""
        return LimitExceededError(limit, str(getattr(self.limits, limit)), self.name).failure()

    # Parallel slots

    @property
    def full(self) -> bool:
        """Whether no parallel slot is free."""
        allowed = self.limits.max_parallel
        return allowed is not None and self.working >= allowed

    # Calls

    @property
    def bounds_answers(self) -> bool:
        """Whether the length of answers is bounded."""
        return self.limits.max_tokens is not None or self.limits.max_cost is not None

    def spent(self) -> str | None:
        """Return which bound on what was consumed is reached."""
        used, limits = self.run.sums, self.limits
        if limits.max_tokens is not None and used.tokens >= limits.max_tokens:
            return "max_tokens"
        if limits.max_cost is not None and used.amount >= limits.max_cost:
            return "max_cost"
        return None

    def overrun(self) -> Iterator[str]:
        """Yield the bounds on what was consumed that are exceeded."""
        used, limits = self.run.sums, self.limits
        if limits.max_tokens is not None and used.tokens > limits.max_tokens:
            yield "max_tokens"
        if limits.max_cost is not None and used.amount > limits.max_cost:
            yield "max_cost"

    def fit(self, request: ReserveRequest, output_tokens: int) -> int | Failure:
        """Return the answer a model call may have, given what was used, at most that many tokens; or which limit refuses the call."""
        used, limits = self.run.sums, self.limits
        least = min(MINIMUM_ANSWER, request.output_tokens)
        if limits.max_model_calls is not None and used.model_calls + request.model_calls > limits.max_model_calls:
            return self.failure("max_model_calls")
        if limits.max_tokens is not None:
            left = limits.max_tokens - used.tokens - request.input_tokens
            if left < least:
                return self.failure("max_tokens")
            output_tokens = min(output_tokens, left)
        if limits.max_cost is not None:
            if request.input_cost is None or request.output_price is None:
                return output_tokens if self.run.limits.unpriced == "ignore" else self._unpriced(request)
            money = limits.max_cost - used.amount - request.input_cost
            if money < least * request.output_price:
                return self.failure("max_cost")
            if output_tokens * request.output_price > money:
                output_tokens = int(money // request.output_price)
        return output_tokens

    def shortens(self, request: ReserveRequest, output_tokens: int) -> Failure | None:
        """Return which limit leaves no more than that for the answer, if one of this scope does."""
        if output_tokens >= request.output_tokens or self.fit(request, request.output_tokens) != output_tokens:
            return None
        limit = self.limits.max_tokens
        by_tokens = limit is not None and limit - self.run.sums.tokens - request.input_tokens == output_tokens
        return self.failure("max_tokens" if by_tokens else "max_cost")

    def crowded(self, request: ReserveRequest, output_tokens: int, ticket: Ticket) -> bool:
        """Return whether reservations, or somebody who came before, stand in the way of a model call that fits what was used."""
        if self.line.before(ticket):
            return True
        used, limits = self.run.sums, self.limits
        calls = used.model_calls + self.model_calls + request.model_calls
        if limits.max_model_calls is not None and calls > limits.max_model_calls:
            return True
        tokens = used.tokens + self.tokens + request.input_tokens + output_tokens
        if limits.max_tokens is not None and tokens > limits.max_tokens:
            return True
        cost = cost_of(request, output_tokens)
        return limits.max_cost is not None and cost is not None and used.amount + self.cost + cost > limits.max_cost

    def tool_calls_left(self) -> int | None:
        """Return how many tool calls may be granted; `None` if nothing bounds them."""
        allowed = self.limits.max_tool_calls
        return None if allowed is None else max(0, allowed - self.run.sums.tool_calls - self.tool_calls)

    def reserve(self, reservation: Reservation, times: int = 1) -> None:
        """Add a reservation; with -1, take it away."""
        reply = reservation.reply
        self.tool_calls += times * reply.granted_tool_calls
        if reply.granted_model_calls:
            self.model_calls += times * reply.granted_model_calls
            self.tokens += times * reservation.tokens
            self.cost += times * (reservation.cost or _NOTHING)

    def lines(self) -> Iterator[BudgetLine]:
        """Yield how far each bound is used."""
        used = self.run.sums
        for limit, settled, reserved in (
            ("max_cost", used.amount, self.cost),
            ("max_tokens", used.tokens, self.tokens),
            ("max_model_calls", used.model_calls, self.model_calls),
            ("max_tool_calls", used.tool_calls, self.tool_calls),
            ("max_runs", self.run.admitted_runs, 0),
        ):
            allowed = getattr(self.limits, limit)
            if allowed is not None:
                yield BudgetLine(
                    limit=limit,
                    scope=self.name,
                    scope_run_id=self.run.run_id,
                    allowed=Decimal(allowed),
                    settled=Decimal(settled),
                    reserved=Decimal(reserved),
                )

    def _unpriced(self, request: ReserveRequest) -> Failure:
        allowed = self.limits.max_cost
        text = (
            f"limit max_cost of the {self.name} (allowed: {allowed}) refuses a call of {request.model or 'a model'}, whose price is not known. "
            'Give its profile a price, or set Limits(unpriced="ignore")'
        )
        return Failure(code="limit_exceeded", message=text, limit="max_cost")
