"""A registry with one driver, a clock that stands still, and names instead of requests."""

import itertools
from decimal import Decimal
from typing import Any

from runtree.actors.supervision.mailboxes import Mailboxes
from runtree.actors.supervision.records import Run
from runtree.actors.supervision.registry import Registry
from runtree.messages import Cost, Failure, Usage
from runtree.messages.control import (
    AdmissionOrder,
    AdmitAnswer,
    AdmitReply,
    AdmitRequest,
    Admitted,
    CancelOrder,
    ChildRequest,
    DriverHello,
    EndReport,
    GrantOrder,
    Order,
    Refused,
    RunReport,
)
from runtree.messages.loss import LossReport, LossVerdict
from runtree.messages.reservations import ReserveReply, ReserveRequest, SlotRequest
from runtree.messages.result import RunStatus

from .kept import watch

DRIVER = "driver"


def hello(
    driver_id: str = DRIVER, *, queues: tuple[str, ...] = ("q0",), spread: bool = False, **fields: Any
) -> DriverHello:
    """Return the introduction of a driver."""
    shown: dict[str, Any] = {"host": "host", "pid": 1, "version": "1", "wire_version": 1}
    return DriverHello(driver_id=driver_id, queues=queues, spread_lanes=spread, **{**shown, **fields})


def spent(tokens: int) -> dict[str, Any]:
    """Return the accounts of a run that has used so many tokens, a cent each."""
    return {"usage": Usage(input_tokens=tokens, output_tokens=0), "cost": Cost(amount=Decimal(tokens) / 100)}


class World:
    """The registry under test."""

    def __init__(self, *, watched: bool = True, **options: Any) -> None:
        self.mailboxes = Mailboxes()
        self.registry = Registry("test", self.mailboxes)
        if watched:
            watch(self.registry)
        self.registry.join(hello(**options), 0.0)
        self.now = 0.0
        self._numbers = itertools.count(1)
        self._seen: dict[str, int] = {}

    def admit(
        self, parent: str | None, *names: str, number: int | None = None, attempt: int = 1, **fields: Any
    ) -> AdmitReply:
        """Ask for runs."""
        children = tuple(ChildRequest(**{"agent": "agent", **fields, "run_id": name}) for name in names)
        request = AdmitRequest(
            driver_id=DRIVER,
            parent_run_id=parent,
            attempt=attempt,
            number=next(self._numbers) if number is None else number,
            children=children,
        )
        return self.registry.admit(request, self.now)

    def start(self, parent: str | None, name: str, **fields: Any) -> Admitted:
        """Ask for a run that is admitted, and begin it."""
        (admission,) = self.admit(parent, name, **fields).admissions
        assert isinstance(admission, Admitted), admission
        self.registry.begin(name, 1)
        return admission

    def refused(self, parent: str | None, name: str, **fields: Any) -> Failure:
        """Ask for a run that is refused; returns why."""
        (admission,) = self.admit(parent, name, **fields).admissions
        assert isinstance(admission, Refused), admission
        return admission.error

    def reserve(
        self, name: str, output: int = 0, *, number: int | None = None, attempt: int = 1, **fields: Any
    ) -> tuple[int, ReserveReply]:
        """Ask for a model call whose tokens cost a cent each; returns its number and the answer."""
        number = next(self._numbers) if number is None else number
        cents = {"input_cost": Decimal(fields.get("input_tokens", 0)) / 100, "output_price": Decimal("0.01")}
        request = ReserveRequest(
            **{"model_calls": 1, **cents, **fields},
            run_id=name,
            attempt=attempt,
            number=number,
            output_tokens=output,
        )
        return number, self.registry.reserve(request, self.now)

    def granted(self, name: str, output: int = 0, **fields: Any) -> int:
        """Ask for a model call that is granted; returns its number."""
        number, reply = self.reserve(name, output, **fields)
        assert reply.granted_model_calls, reply
        return number

    def waits(self, name: str, output: int = 0, **fields: Any) -> int:
        """Ask for a model call that has to wait; returns its number."""
        number, reply = self.reserve(name, output, **fields)
        assert reply.waits_for is not None, reply
        return number

    def settle(self, name: str, *numbers: int, tokens: int = 0, calls: int = 0) -> None:
        """Report that calls are over, each of which has used so many tokens, and all accounts of the run."""
        run = self.run(name)
        usage, _ = run.reported
        used = usage.tokens + tokens * len(numbers)
        accounts = spent(used)
        accounts["usage"] = accounts["usage"].model_copy(update={"model_calls": usage.model_calls + calls})
        report = RunReport(
            run_id=name,
            attempt=1,
            number=next(self._numbers),
            settled=dict.fromkeys(numbers, tokens),
            **accounts,
        )
        self.registry.report(report, self.now)

    def slot(self, name: str, *, waiting: bool, number: int | None = None) -> ReserveReply:
        """Give the slot of a run back, or ask for it."""
        number = next(self._numbers) if number is None else number
        request = SlotRequest(run_id=name, attempt=1, number=number, waiting=waiting)
        return self.registry.slot(request, self.now)

    def advance(self, now: float) -> None:
        """Let time pass."""
        self.now = now
        self.registry.advance(now)

    def grants(self, name: str) -> dict[int, ReserveReply]:
        """Return what the process of a run is told of its requests."""
        return {order.number: order.reply for order in self._orders_for(name) if isinstance(order, GrantOrder)}

    def admissions(self, name: str) -> dict[str, str]:
        """Return what the process of a run is told of its children: "admitted", or the code of the refusal."""
        told = [order.admission for order in self._orders_for(name) if isinstance(order, AdmissionOrder)]
        return {each.run_id if isinstance(each, Refused) else each.stamp.run_id: code(each) for each in told}

    def _orders_for(self, name: str) -> list[Order]:
        return [order for order in self.orders(self.run(name).lease.actor) if getattr(order, "run_id", name) == name]

    def report(self, name: str, tokens: int, *, number: int | None = None) -> None:
        """Report accounts."""
        number = next(self._numbers) if number is None else number
        self.registry.report(RunReport(run_id=name, attempt=1, number=number, **spent(tokens)), self.now)

    def end(
        self, name: str, tokens: int = 0, *, status: RunStatus = "completed", attempt: int = 1, **fields: Any
    ) -> None:
        """End a run."""
        number = next(self._numbers)
        report = {"run_id": name, "attempt": attempt, "number": number, "status": status, **spent(tokens), **fields}
        self.registry.end(EndReport(**report), self.now)

    def lose(self, name: str, attempt: int = 1, **fields: Any) -> LossReport:
        """Lose a run's process."""
        report = LossReport(**{"run_id": name, "attempt": attempt, "reason": "killed", **fields})
        self.registry.lose(report, self.now)
        return report

    def judge(self, report: LossReport) -> LossVerdict:
        """Ask what follows a loss."""
        return self.registry.judge(report, self.now)

    def lose_for_good(self, name: str, attempt: int = 1, **fields: Any) -> LossVerdict:
        """Lose a run's process and ask at once what follows, also while runs below it live."""
        return self.judge(self.lose(name, attempt, **fields))

    def cancel(self, name: str, grace: float = 2.0, reason: str = "user") -> list[str]:
        """Cancel; returns the names of the live runs."""
        return [run.run_id for run in self.registry.cancel(name, reason, grace, self.now)]

    def condemned(self, now: float) -> list[str]:
        """Let the time pass; returns the names of those to be killed."""
        self.now = now
        return [kill.run.run_id for kill in self.registry.condemn_due(now)]

    def kill(self, name: str) -> None:
        """Report a condemned run's actor as killed."""
        self.registry.killed(self.run(name), self.now)

    def run(self, name: str) -> Run:
        """Return a run."""
        return self.registry.get(name)

    def orders(self, process: str) -> list[Order]:
        """Poll and acknowledge."""
        reply = self.mailboxes.collect(process, self._seen.get(process, 0))
        self._seen[process] = reply.version
        return list(reply.orders)

    def told(self, name: str) -> bool:
        """Whether the process of a run is told that the run is cancelled."""
        return any(
            isinstance(order, CancelOrder) and order.run_id == name for order in self.orders(self.run(name).lease.actor)
        )


def code(answer: AdmitAnswer) -> str:
    """Return "admitted" or "postponed", or the code of the refusal."""
    return answer.error.code if isinstance(answer, Refused) else answer.kind
