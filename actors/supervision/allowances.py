"""What runs may do: calls within budgets and model limits, and parallel slots. The registry asks here, and tells here what has ended."""

from collections.abc import Iterable, Iterator, Sequence

from ...messages.control import ChildRequest, RunReport
from ...messages.failure import Failure
from ...messages.reservations import Budget, ReserveReply, ReserveRequest, SlotRequest
from ...messages.usage import Cost, Usage
from .bounds import passed
from .lines import Tickets
from .mailboxes import Mailboxes
from .model_limits import ModelLimits, ModelUse
from .records import Run
from .reservations import Reservations
from .scopes import Reservation
from .slots import Admit, Slots


class Allowances:
    """Reservations, slots and model limits of a namespace; whoever waits for one of them is decided on by `drain`."""

    def __init__(self, mailboxes: Mailboxes, admit: Admit) -> None:
        self.models = ModelLimits(mailboxes.changes)
        self._tickets = Tickets()
        self._calls = Reservations(mailboxes, self._tickets, self.models)
        self._slots = Slots(mailboxes, self._tickets, admit)

    # Asking

    def begin(self, run: Run) -> None:
        """Give a new run, or one that is started again, its slot."""
        self._slots.take(run)

    def reserve(self, run: Run, request: ReserveRequest, now: float) -> ReserveReply:
        """Reserve calls, or have them wait."""
        return self._calls.reserve(run, request, now)

    def slot(self, run: Run, request: SlotRequest, now: float) -> ReserveReply:
        """Take a slot back, or give it again."""
        return self._slots.ask(run, request, now)

    def postpone(self, parent: Run, child: ChildRequest) -> bool:
        """Have a child wait if there is no slot for it; returns whether it has to."""
        return self._slots.postpone(parent, child)

    def postponed(self, run_id: str) -> bool:
        """Return whether a child waits for its admission."""
        return self._slots.postponed(run_id)

    # What has ended; `drain` is to follow

    def account(self, run: Run, report: RunReport, *, whole: bool) -> list[Reservation]:
        """Take over a snapshot, unless it is older than the last; returns the reservations that it settles.

        Args:
            run: The run.
            report: Its report.
            whole: The accounts are those of all attempts, and not of the current one.
        """
        settled = self._calls.settle(run, report.settled)
        if whole:
            run.account_whole(report.usage, report.cost)
        elif report.number > run.report_number:
            run.report_number = report.number
            run.touch()
            run.account(report.usage, report.cost)
        elif report.settled:
            run.recount()
        return settled

    def doubt(self, run: Run) -> None:
        """Count what a run whose process is gone may have used beyond what it could report."""
        if run.status != "running":
            return
        self._calls.close(run, doubtful=True)
        # Where every call is reserved, what is open is all that can be in doubt.
        if not run.limits.bounds_model_calls:
            usage, cost = run.reported
            run.reported = usage + Usage(precision="unknown"), cost + Cost(precision="unknown")
        run.recount()

    def close(self, run: Run) -> None:
        """Free all that a run holds or waits for: it is over."""
        self._calls.close(run, doubtful=False)
        self._slots.close(run)

    def stop(self, run: Run) -> None:
        """Free what the calls of a run hold, and forget what it waits for: its process is gone. Its slot stays its own until it is over."""
        self._calls.close(run, doubtful=False)
        self._slots.stop(run)

    def refuse(self, run: Run, failure: Failure) -> None:
        """Decide on all that a run waits for, so that it can end."""
        self._calls.refuse(run, failure)
        self._slots.refuse(run, failure)
        self._slots.force(run)

    def refuse_child(self, run_id: str, failure: Failure) -> None:
        """Refuse one child that waits, if it does."""
        self._slots.refuse_child(run_id, failure)

    def drain(self, run: Run, now: float) -> None:
        """Decide on what waited for something that a run has freed."""
        self._calls.drain(run, now)
        self._calls.drain_models(now)
        self._slots.drain(run, now)

    # Time

    def next_time(self, now: float) -> float | None:
        """Return when `advance` has something to do; `None` if nothing waits for time to pass."""
        times = (self._tickets.next_deadline(), self.models.next_time(now))
        return min((time for time in times if time is not None), default=None)

    def advance(self, now: float) -> None:
        """Decide on what has waited for time to pass: pauses and minutes of models, and deadlines."""
        for waiter in self._tickets.due(now):
            self.refuse(waiter.run, passed())
            self.drain(waiter.run, now)
        self._calls.drain_models(now)

    def restore(self, runs: Sequence[Run], use: ModelUse) -> None:
        """Take up what runs hold and wait for after a restart; nothing is decided before something happens, or time passes."""
        self.models.restore(use)
        self._slots.restore(runs)
        self._calls.restore(runs, {call.permit: call for call in use.calls})

    # Views

    def overruns(self, run: Run, settled: Iterable[Reservation]) -> Iterator[tuple[Run, str]]:
        """Mark the bounds that are exceeded because a call used more than it had reserved; yields the tops to be stopped, and why."""
        if not any(reservation.reply.granted_model_calls for reservation in settled):
            return
        for scope in run.scopes:
            names = tuple(name for name in scope.overrun() if name not in scope.run.overrun)
            if names:
                scope.run.overrun += names
                scope.run.touch()
                why = f"{scope.failure(names[0]).message}, and a provider billed more than the upper bound of its call"
                yield scope.run, why


def budget(run: Run) -> Budget:
    """Return what is left for a run."""
    return Budget(lines=tuple(line for scope in run.bounds for line in scope.lines()), deadline=run.deadline)
