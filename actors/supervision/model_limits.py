"""How much a model is used by the whole namespace, and until when its provider wants to be left alone.

Pauses and the calls of the last minute are kept over a restart; time that passes meanwhile counts.
"""

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ...messages.failure import Failure
from ...messages.limits import ModelLimit
from ...messages.reservations import ReserveRequest
from .changes import BegunCall, Changes, Permit
from .lines import Line, Ticket
from .scopes import MINIMUM_ANSWER

WINDOW: Final = 60.0
"""Seconds over which requests and tokens are counted."""

LONGEST_PAUSE: Final = 300.0
"""Seconds for which one provider's word can stop a fleet."""

_PAUSE_STEP: Final = 0.25
"""Pauses end at multiples of these seconds, so that many reports of one moment are one pause."""

_UNBOUNDED: Final = ModelLimit()


class ModelUse(NamedTuple):
    """What is kept over a restart."""

    pauses: Mapping[str, float]
    """Models, and until when they are left alone."""
    calls: Sequence[BegunCall]
    """In the order in which they began; those of more than a minute ago may be among them."""


UNUSED: Final = ModelUse({}, ())
"""No model has been called."""


class Gate:
    """One model."""

    def __init__(self, key: str, changes: Changes) -> None:
        self.key = key
        self.limit = _UNBOUNDED
        self.paused_until = 0.0
        self.line = Line("model_limit")
        self._changes = changes
        self._open: dict[Permit, BegunCall] = {}
        self._window: deque[BegunCall] = deque()
        self._tokens = 0

    @property
    def in_flight(self) -> int:
        """Calls under way."""
        return len(self._open)

    @property
    def bounds_answers(self) -> bool:
        """Whether the length of answers is bounded."""
        return self.limit.tokens_per_minute is not None

    def used(self, now: float) -> tuple[int, int]:
        """Return requests and tokens of the last minute."""
        while self._window and self._window[0].time + WINDOW <= now:
            call = self._window.popleft()
            call.old = True
            self._tokens -= call.tokens
        return len(self._window), self._tokens

    def fit(self, request: ReserveRequest, output_tokens: int) -> int | Failure:
        """Return the answer a call may have, at most that many tokens; or why it can never be made."""
        allowed = self.limit.tokens_per_minute
        if allowed is None:
            return output_tokens
        left = allowed - request.input_tokens
        if left < min(MINIMUM_ANSWER, request.output_tokens):
            text = f"limit tokens_per_minute of {self.key} (allowed: {allowed}) is less than the prompt alone"
            return Failure(code="limit_exceeded", message=text, limit="tokens_per_minute")
        return min(output_tokens, left)

    def crowded(self, tokens: int, ticket: Ticket, now: float) -> bool:
        """Return whether a call has to wait."""
        if now < self.paused_until or self.line.before(ticket):
            return True
        limit = self.limit
        if limit.concurrency is not None and len(self._open) >= limit.concurrency:
            return True
        requests, used = self.used(now)
        if limit.requests_per_minute is not None and requests >= limit.requests_per_minute:
            return True
        return limit.tokens_per_minute is not None and used + tokens > limit.tokens_per_minute

    def enter(self, permit: Permit, tokens: int, now: float) -> None:
        """Count a call that begins, at its upper bound."""
        call = self._open[permit] = BegunCall(permit, self.key, now, tokens)
        if self.limit.requests_per_minute is not None or self.limit.tokens_per_minute is not None:
            self.count(call)
            self._changes.calls[permit] = call
        else:
            call.old = True

    def leave(self, permit: Permit, tokens: int | None) -> None:
        """Count a call that is over at what it used; at its upper bound if that is not known."""
        call = self._open.pop(permit, None)
        if call is not None and tokens is not None and not call.old:
            self._tokens += tokens - call.tokens
            call.tokens = tokens
            self._changes.calls[permit] = call

    def count(self, call: BegunCall) -> None:
        """Count a call for the minute in which it began; the earliest first."""
        self._window.append(call)
        self._tokens += call.tokens

    def go_on(self, call: BegunCall) -> None:
        """Have a call that began under an earlier supervisor count as under way."""
        self._open[call.permit] = call

    def next_time(self, now: float) -> float | None:
        """Return when time alone may let the next call through; `None` if nobody waits, or only for the end of another call."""
        if self.line.head() is None:
            return None
        if now < self.paused_until:
            return self.paused_until
        self.used(now)
        return self._window[0].time + WINDOW if self._window else None


class ModelLimits:
    """All models that are bounded, or paused."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._gates: dict[str, Gate] = {}
        self.limited: tuple[str, ...] = ()
        """Models whose calls have to be reserved."""

    def gate(self, key: str | None) -> Gate | None:
        """Return what stands before the calls of a model; `None` if nothing does."""
        return None if key is None else self._gates.get(key)

    def gates(self) -> Iterable[Gate]:
        """Return all."""
        return self._gates.values()

    def bound(self, limits: Iterable[Mapping[str, ModelLimit]]) -> None:
        """Take the limits of all drivers: the strictest hold, and those of a driver that left do not."""
        merged: dict[str, ModelLimit] = {}
        for each in limits:
            for key, limit in each.items():
                merged[key] = merged.get(key, _UNBOUNDED).narrow(limit)
        for key in merged:
            self.opened(key)
        for key, gate in self._gates.items():
            gate.limit = merged.get(key, _UNBOUNDED)
        self.limited = tuple(sorted(merged))

    def pause(self, key: str, seconds: float, now: float) -> float | None:
        """Let no call of a model begin for some time; returns until when, if that is later than was known."""
        until = math.ceil((now + min(seconds, LONGEST_PAUSE)) / _PAUSE_STEP) * _PAUSE_STEP
        gate = self.opened(key)
        if until <= max(gate.paused_until, now):
            return None
        gate.paused_until = self._changes.pauses[key] = until
        return until

    def paused(self, now: float) -> dict[str, float]:
        """Return the models that are paused, and until when."""
        return {key: gate.paused_until for key, gate in self._gates.items() if now < gate.paused_until}

    def next_time(self, now: float) -> float | None:
        """Return when time alone may let a call through."""
        times = [time for gate in self._gates.values() if (time := gate.next_time(now)) is not None]
        return min(times, default=None)

    def opened(self, key: str) -> Gate:
        """Return what stands before the calls of a model, also if that is nothing yet."""
        gate = self._gates.get(key)
        if gate is None:
            gate = self._gates[key] = Gate(key, self._changes)
        return gate

    def restore(self, use: ModelUse) -> None:
        """Take up what an earlier supervisor knew."""
        for key, until in use.pauses.items():
            self.opened(key).paused_until = until
        for call in use.calls:
            self.opened(call.model).count(call)


def earlier(permit: Permit, key: str) -> BegunCall:
    """Return a call that is under way but counts for no minute: it began too long ago, or when none was bounded."""
    call = BegunCall(permit, key, float("-inf"), 0)
    call.old = True
    return call
