"""Calls of runs: reserved at their upper bound before they are made, settled at what they used, refused where a bound forbids them.

What was used plus what is reserved never exceeds a bound. A call that only reservations of others stand against waits; so does one whose model is
bounded over the namespace. Nobody overtakes: who waits for a bound comes before all that ask later for the same bound.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from ...messages.control import GrantOrder
from ...messages.failure import Failure
from ...messages.reservations import ReserveReply, ReserveRequest
from .answers import remember
from .bounds import over, stopped
from .changes import BegunCall, Permit
from .lines import Line, Ticket, Tickets, Waiter
from .mailboxes import Mailboxes
from .model_limits import Gate, ModelLimits, earlier
from .records import Run
from .scopes import Reservation

KEPT_DECISIONS: Final = 16
"""Answers that are remembered for each run beyond its open reservations: only a call whose answer was lost asks again, and does so soon."""


class Reservations:
    """Decides on calls. What has to survive a restart is in the runs' `reservations`, `doubts`, `waiting` and `decisions`."""

    def __init__(self, mailboxes: Mailboxes, tickets: Tickets, models: ModelLimits) -> None:
        self._mailboxes = mailboxes
        self._tickets = tickets
        self._models = models

    def reserve(self, run: Run, request: ReserveRequest, now: float) -> ReserveReply:
        """Decide on a request, or have it wait; asked again it gets the same answer."""
        if request.attempt != run.stamp.attempt:
            return ReserveReply(error=over(run))
        known = self._known(run, request.number)
        if known is not None:
            return known
        ticket = self._tickets.draw()
        outcome = self._decide(run, request, ticket, now)
        if isinstance(outcome, ReserveReply):
            return outcome
        waiter = run.waiting[request.number] = Waiter(run, request, ticket)
        outcome.add(waiter)
        self._tickets.keep(waiter)
        run.touch()
        return ReserveReply(waits_for=outcome.reason)

    def settle(self, run: Run, settled: Mapping[int, int]) -> list[Reservation]:
        """End reservations, at the tokens they used; what still waits is taken back. Returns what was open; `drain` is to follow."""
        ended: list[Reservation] = []
        for number, tokens in settled.items():
            reservation = run.reservations.pop(number, None)
            run.touch()
            if reservation is not None:
                self._free(run, reservation, tokens)
                ended.append(reservation)
            elif run.doubts.pop(number, None) is None and number not in run.decisions:
                self._decided(run, number, ReserveReply(error=_taken_back(number)))
        return ended

    def close(self, run: Run, *, doubtful: bool) -> None:
        """End all that a run has reserved or waits for: it is over. `drain` is to follow.

        Args:
            run: The run.
            doubtful: Nobody can tell what its open calls used: they count as all that was reserved.
        """
        for waiter in run.waiting.values():
            waiter.line = None
        for number, reservation in run.reservations.items():
            self._free(run, reservation, None)
            if doubtful:
                run.doubts[number] = reservation
        run.waiting.clear()
        run.reservations.clear()
        run.touch()

    def refuse(self, run: Run, failure: Failure) -> None:
        """Refuse all that a run waits for, and tell it. `drain` is to follow."""
        for number, waiter in list(run.waiting.items()):
            self._deliver(waiter, self._decided(run, number, ReserveReply(error=failure)))

    def drain(self, run: Run, now: float) -> None:
        """Decide on what waited for bounds over a run, after something of it was settled or taken back."""
        for scope in run.scopes:
            self.drain_line(scope.line, now)

    def drain_models(self, now: float) -> None:
        """Decide on what waited for models, after a call has ended, a bound has changed or time has passed."""
        for gate in self._models.gates():
            self.drain_line(gate.line, now)

    def drain_line(self, line: Line, now: float) -> None:
        """Decide on waiters from the head of a line on, until one has to wait on."""
        while (waiter := line.head()) is not None:
            assert isinstance(waiter.request, ReserveRequest)
            outcome = self._decide(waiter.run, waiter.request, waiter.ticket, now)
            if outcome is line:
                return
            if isinstance(outcome, ReserveReply):
                self._deliver(waiter, outcome)
            else:
                outcome.add(waiter)

    def restore(self, runs: Iterable[Run], begun: Mapping[Permit, BegunCall]) -> None:
        """Take up the reservations and waiters of runs after a restart."""
        waiters: list[Waiter] = []
        for run in runs:
            for reservation in run.reservations.values():
                for scope in run.scopes:
                    scope.reserve(reservation)
                gate = self._models.gate(reservation.request.model)
                if gate is not None and reservation.reply.granted_model_calls:
                    permit = _permit(reservation.request)
                    gate.go_on(begun.get(permit) or earlier(permit, gate.key))
            waiters.extend(run.waiting.values())
        for waiter in sorted(waiters, key=lambda each: each.ticket):
            self._tickets.keep(waiter)
            self._blocking(waiter).add(waiter)

    def _blocking(self, waiter: Waiter) -> Line:
        """Return a line that a waiter can stand in until something happens: as a rule where it has to wait."""
        run, request = waiter.run, waiter.request
        assert isinstance(request, ReserveRequest)
        gate = self._models.gate(request.model)
        fitting = _fitting(run, request, gate)
        if not isinstance(fitting, Failure):
            for scope in run.scopes:
                if scope.crowded(request, fitting, waiter.ticket):
                    return scope.line
        # It waited for its model; its bounds are known again, or gone.
        return self._models.opened(request.model or "").line

    def _known(self, run: Run, number: int) -> ReserveReply | None:
        if number in run.reservations:
            return run.reservations[number].reply
        waiter = run.waiting.get(number)
        if waiter is not None and waiter.line is not None:
            return ReserveReply(waits_for=waiter.line.reason)
        return run.decisions.get(number)

    def _decide(self, run: Run, request: ReserveRequest, ticket: Ticket, now: float) -> ReserveReply | Line:
        """Grant or refuse a request, which is then the answer to it; or return the line it has to stand in."""
        error = stopped(run, request.attempt, now)
        if error is not None:
            return self._decided(run, request.number, ReserveReply(error=error))
        gate = self._models.gate(request.model) if request.model_calls else None
        calls, output_tokens = request.model_calls, request.output_tokens
        if calls:
            fitting = _fitting(run, request, gate)
            if isinstance(fitting, Failure):
                calls, error = 0, fitting
            else:
                output_tokens = fitting
                shortened = (scope.shortens(request, fitting) for scope in run.scopes)
                error = next((failure for failure in shortened if failure is not None), None)
        if calls:
            for scope in run.scopes:
                if scope.crowded(request, output_tokens, ticket):
                    return scope.line
            if gate is not None and gate.crowded(request.input_tokens + output_tokens, ticket, now):
                return gate.line
        tools, refused = _tool_calls(run, request.tool_calls)
        bounded = any(scope.bounds_answers for scope in run.scopes) or (gate is not None and gate.bounds_answers)
        reply = ReserveReply(
            granted_model_calls=calls,
            granted_tool_calls=tools,
            output_tokens=output_tokens if calls and bounded else None,
            error=error or refused,
        )
        if calls or tools:
            self._grant(run, Reservation(request=request, reply=reply), gate if calls else None, now)
        return self._decided(run, request.number, reply)

    def _grant(self, run: Run, reservation: Reservation, gate: Gate | None, now: float) -> None:
        number = reservation.request.number
        run.reservations[number] = reservation
        for scope in run.scopes:
            scope.reserve(reservation)
        if gate is not None:
            gate.enter(_permit(reservation.request), reservation.tokens, now)

    def _free(self, run: Run, reservation: Reservation, tokens: int | None) -> None:
        for scope in run.scopes:
            scope.reserve(reservation, -1)
        gate = self._models.gate(reservation.request.model)
        if gate is not None:
            gate.leave(_permit(reservation.request), tokens)

    def _decided(self, run: Run, number: int, reply: ReserveReply) -> ReserveReply:
        waiter = run.waiting.pop(number, None)
        if waiter is not None:
            waiter.line = None
        remember(run.decisions, number, reply, KEPT_DECISIONS)
        run.touch()
        return reply

    def _deliver(self, waiter: Waiter, reply: ReserveReply) -> None:
        run = waiter.run
        waiter.line = None
        assert isinstance(waiter.request, ReserveRequest)
        order = GrantOrder(run_id=run.run_id, attempt=run.stamp.attempt, number=waiter.request.number, reply=reply)
        self._mailboxes.put(run.lease.actor, order)


def _fitting(run: Run, request: ReserveRequest, gate: Gate | None) -> int | Failure:
    """Return the answer that fits every bound, given what was used; or which bound refuses the call."""
    output_tokens = request.output_tokens
    for scope in run.scopes:
        fitting = scope.fit(request, output_tokens)
        if isinstance(fitting, Failure):
            return fitting
        output_tokens = fitting
    return output_tokens if gate is None else gate.fit(request, output_tokens)


def _tool_calls(run: Run, asked: int) -> tuple[int, Failure | None]:
    granted, error = asked, None
    for scope in run.scopes:
        left = scope.tool_calls_left()
        if left is not None and left < granted:
            granted, error = left, scope.failure("max_tool_calls")
    return granted, error


def _permit(request: ReserveRequest) -> Permit:
    return request.run_id, request.attempt, request.number


def _taken_back(number: int) -> Failure:
    return Failure(code="cancelled", message=f"reservation {number} was taken back before it was decided")
