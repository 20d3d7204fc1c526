"""Parallel slots: how many runs of a (sub-)tree are at work at once.

A run has a slot from its admission to its end, but for the time in which it only waits for its children. One that goes on comes before new ones; a
cancelled one, or one past its deadline, has its slot at once, so that it can end.
"""

from collections.abc import Callable, Iterable

from ...messages.control import Admission, AdmissionOrder, ChildRequest, GrantOrder, Refused
from ...messages.failure import Failure
from ...messages.reservations import ReserveReply, SlotRequest
from .answers import remember
from .bounds import over, stopped
from .lines import AT_ONCE, Line, Ticket, Tickets, Waiter
from .mailboxes import Mailboxes
from .records import Run
from .scopes import Scope

Admit = Callable[[Run, ChildRequest, float], Admission]
"""Admits a child for which there is a slot, or refuses it."""


class Slots:
    """Decides who is at work. What has to survive a restart is in the runs' `at_work`, `wants_slot` and `postponed`."""

    def __init__(self, mailboxes: Mailboxes, tickets: Tickets, admit: Admit) -> None:
        self._mailboxes = mailboxes
        self._tickets = tickets
        self._admit = admit
        self._children: dict[str, Waiter] = {}
        """Postponed children by the ids they will have."""

    def take(self, run: Run) -> None:
        """Count a run as at work, whether or not there is a slot."""
        if not run.at_work:
            run.at_work = True
            run.touch()
            for scope in run.slot_scopes:
                scope.working += 1

    def give_back(self, run: Run) -> None:
        """Count a run as not at work; `drain` is to follow."""
        if run.at_work:
            run.at_work = False
            run.touch()
            for scope in run.slot_scopes:
                scope.working -= 1

    def ask(self, run: Run, request: SlotRequest, now: float) -> ReserveReply:
        """Take a slot back, or give one; asked again it gets the same answer."""
        if not run.works(request.attempt):
            return ReserveReply(error=over(run))
        if request.number <= run.slot_number:
            wants = run.wants_slot is not None and request.number == run.slot_number
            return ReserveReply(waits_for="parallel" if wants else None)
        run.slot_number = request.number
        run.touch()
        wanted = self._unwant(run)
        if request.waiting:
            self.give_back(run)
            self.drain(run, now)
        elif not run.at_work:
            line = None if stopped(run, request.attempt, now) is not None else _full(run.slot_scopes)
            if line is not None:
                ticket = self._tickets.draw(AT_ONCE) if wanted is None else wanted
                waiter = run.wants_slot = Waiter(run, request, ticket)
                line.add(waiter)
                self._tickets.keep(waiter)
                return ReserveReply(waits_for="parallel")
            self.take(run)
        return ReserveReply()

    def postponed(self, run_id: str) -> bool:
        """Return whether a child waits for its admission."""
        return run_id in self._children

    def postpone(self, parent: Run, child: ChildRequest) -> bool:
        """Have a child wait if there is no slot for it; returns whether it has to."""
        line = _full(parent.slot_scopes)
        if line is None:
            return False
        waiter = Waiter(parent, child, self._tickets.draw())
        self._children[child.run_id] = parent.postponed[child.run_id] = waiter
        line.add(waiter)
        self._tickets.keep(waiter)
        parent.touch()
        return True

    def force(self, run: Run) -> None:
        """Let a run that wants its slot go on."""
        if run.wants_slot is not None:
            self._grant(run.wants_slot)

    def refuse(self, parent: Run, failure: Failure) -> None:
        """Refuse the children of a run that wait, and tell it."""
        for run_id in list(parent.postponed):
            self.refuse_child(run_id, failure)

    def refuse_child(self, run_id: str, failure: Failure) -> None:
        """Refuse one child that waits, if it does, and tell its parent."""
        waiter = self._children.get(run_id)
        if waiter is not None:
            self._forget(run_id)
            self._tell(waiter, Refused(run_id=run_id, error=failure))

    def close(self, run: Run) -> None:
        """End all that a run holds or waits for: it is over, and there is nobody to tell. `drain` is to follow."""
        self.stop(run)
        self.give_back(run)

    def stop(self, run: Run) -> None:
        """Forget all that a run waits for: there is nobody to tell."""
        self._unwant(run)
        for run_id in list(run.postponed):
            self._forget(run_id)

    def drain(self, run: Run, now: float) -> None:
        """Let in who waits for slots over a run, first who came first, after something was given back or refused."""
        self._drain(run.slot_scopes, now)

    def restore(self, runs: Iterable[Run]) -> None:
        """Take up slots and waiters of runs after a restart."""
        waiters: list[Waiter] = []
        for run in runs:
            if run.at_work:
                for scope in run.slot_scopes:
                    scope.working += 1
            if run.wants_slot is not None:
                waiters.append(run.wants_slot)
            waiters.extend(run.postponed.values())
            self._children.update(run.postponed)
        for waiter in waiters:
            self._tickets.keep(waiter)
            scopes = waiter.run.slot_scopes
            (_full(scopes) or scopes[0].slots).add(waiter)

    def _drain(self, scopes: tuple[Scope, ...], now: float) -> None:
        while True:
            first: Waiter | None = None
            for scope in scopes:
                head = None if scope.full else scope.slots.head()
                if head is not None and (first is None or head.ticket < first.ticket):
                    first = head
            if first is None:
                return
            line = _full(first.run.slot_scopes)
            if line is not None:
                line.add(first)
            elif isinstance(first.request, ChildRequest):
                self._forget(first.request.run_id)
                self._tell(first, self._admit(first.run, first.request, now))
            else:
                self._grant(first)

    def _grant(self, waiter: Waiter) -> None:
        run = waiter.run
        self._unwant(run)
        self.take(run)
        order = GrantOrder(run_id=run.run_id, attempt=run.stamp.attempt, number=run.slot_number, reply=ReserveReply())
        self._mailboxes.put(run.lease.actor, order)

    def _tell(self, waiter: Waiter, admission: Admission) -> None:
        parent = waiter.run
        if isinstance(admission, Refused):
            remember(parent.refusals, admission.run_id, admission.error)
            parent.touch()
        order = AdmissionOrder(run_id=parent.run_id, attempt=parent.stamp.attempt, admission=admission)
        self._mailboxes.put(parent.lease.actor, order)

    def _forget(self, run_id: str) -> None:
        waiter = self._children.pop(run_id)
        waiter.run.postponed.pop(run_id, None)
        waiter.run.touch()
        waiter.line = None

    def _unwant(self, run: Run) -> Ticket | None:
        """Take back a wish to go on; returns its ticket."""
        waiter, run.wants_slot = run.wants_slot, None
        if waiter is None:
            return None
        waiter.line = None
        run.touch()
        return waiter.ticket


def _full(scopes: tuple[Scope, ...]) -> Line | None:
    return next((scope.slots for scope in scopes if scope.full), None)
