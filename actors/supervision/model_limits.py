"""How much a model is used by the whole namespace, and until when its provider wants to be left alone.

Only what is under way is remembered over a restart; the calls of the last minute are not.
"""

import math
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

from ...messages.failure import Failure
from ...messages.limits import ModelLimit
from ...messages.reservations import ReserveRequest
from .lines import Line, Ticket
from .scopes import MINIMUM_ANSWER

WINDOW: Final = 60.0
"""Seconds over which requests and tokens are counted."""

LONGEST_PAUSE: Final = 300.0
"""Seconds for which one provider's word can stop a fleet."""

_PAUSE_STEP: Final = 0.25
"""Pauses end at multiples of these seconds, so that many reports of one moment are one pause."""

_UNBOUNDED: Final = ModelLimit()

Permit = tuple[str, int]
"""Run id and number of the reservation that holds it."""


class _Begun:
    """A call that counts for the last minute."""

    __slots__ = ("old", "time", "tokens")

    def __init__(self, time: float, tokens: int) -> None:
        self.time, self.tokens = time, tokens
        self.old = False


class Gate:
    """One model."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.limit = _UNBOUNDED
        self.paused_until = 0.0
        self.line = Line("model_limit")
        self._open: dict[Permit, _Begun] = {}
        self._window: deque[_Begun] = deque()
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
        call = self._open[permit] = _Begun(now, tokens)
        if self.limit.requests_per_minute is not None or self.limit.tokens_per_minute is not None:
            self._window.append(call)
            self._tokens += tokens
        else:
            call.old = True

    def leave(self, permit: Permit, tokens: int | None) -> None:
        """Count a call that is over at what it used; at its upper bound if that is not known."""
        call = self._open.pop(permit, None)
        if call is not None and tokens is not None and not call.old:
            self._tokens += tokens - call.tokens
            call.tokens = tokens

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

    def __init__(self) -> None:
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
        gate.paused_until = until
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
        return self._gates.setdefault(key, Gate(key))
