"""The small calls of the supervisor, by name: each is carried out at once, in the order in which it came, and is JSON in and out."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ...messages.control import AdmitRequest, DriverHello, EndReport, RunReport
from ...messages.errors import InternalError, RuntreeError
from ...messages.reservations import ReserveRequest, SlotRequest, ThrottleReport
from .registry import Registry

Call: TypeAlias = Sequence[Any]
"""Name of a method and its arguments, each of a kind that JSON has."""

Answer: TypeAlias = "str | int | list[str] | RuntreeError | None"
"""What a method returned, or its error."""

_ENDING: Final = frozenset({"leave", "end", "killed"})


class Desk:
    """Carries out what the processes of a namespace ask of the registry. It belongs to the registry's event loop, and nothing in it waits."""

    def __init__(self, registry: Registry, clock: Callable[[], float] = time.time) -> None:
        self._registry = registry
        self._clock = clock
        self._methods: Mapping[str, Callable[..., Any]] = {
            "join": self._join,
            "leave": self._leave,
            "offer": self._offer,
            "withdraw": self._withdraw,
            "admit": self._admit,
            "begin": self._begin,
            "stopped": registry.stopped,
            "reserve": self._reserve,
            "slot": self._slot,
            "throttle": self._throttle,
            "budget": self._budget,
            "report": self._report,
            "end": self._end,
            "killed": self._killed,
            "totals": self._totals,
        }

    def answer(self, calls: Sequence[Call]) -> list[Answer]:
        """Carry out calls in their order; an error takes the place of its call's answer, and the others go on."""
        return [self._answer(*call) for call in calls]

    @staticmethod
    def ends_runs(calls: Sequence[Call]) -> bool:
        """Return whether somebody who waits for ends should look again after these calls."""
        return any(call[0] in _ENDING for call in calls)

    def _answer(self, method: str, *args: Any) -> Answer:
        try:
            answer: Answer = self._methods[method](*args)
        except RuntreeError as error:
            return error
        except Exception as error:  # noqa: BLE001 - the other calls of the batch must not fail with it
            return InternalError(f"the supervisor's {method} raised {type(error).__name__}: {error}")
        return answer

    def _join(self, hello: str) -> None:
        self._registry.join(DriverHello.from_json(hello), self._clock())

    def _leave(self, driver_id: str) -> None:
        self._registry.leave(driver_id, self._clock(), "its Runtime was closed")

    def _offer(self, driver_id: str, actor: str) -> None:
        self._registry.driver(driver_id).leases.offer(actor, self._clock())

    def _withdraw(self, driver_id: str, actor: str) -> None:
        self._registry.driver(driver_id).leases.remove(actor)

    def _admit(self, request: str) -> str:
        return self._registry.admit(AdmitRequest.from_json(request), self._clock()).to_json()

    def _begin(self, run_id: str, attempt: int) -> str | None:
        flag = self._registry.begin(run_id, attempt)
        self._heard_of(run_id)
        return None if flag is None else flag.reason

    def _reserve(self, request: str) -> str:
        reservation = ReserveRequest.from_json(request)
        self._heard_of(reservation.run_id)
        return self._registry.reserve(reservation, self._clock()).to_json()

    def _slot(self, request: str) -> str:
        return self._registry.slot(SlotRequest.from_json(request), self._clock()).to_json()

    def _throttle(self, report: str) -> None:
        self._registry.throttle(ThrottleReport.from_json(report), self._clock())

    def _budget(self, run_id: str) -> str:
        return self._registry.budget(run_id).to_json()

    def _report(self, report: str) -> str:
        accounts = RunReport.from_json(report)
        self._heard_of(accounts.run_id)
        return self._registry.report(accounts, self._clock()).to_json()

    def _end(self, report: str) -> None:
        self._registry.end(EndReport.from_json(report), self._clock())

    def _killed(self, run_id: str) -> None:
        run = self._registry.find(run_id)
        if run is not None and run.forced:
            self._registry.killed(run, self._clock())

    def _totals(self, run_id: str) -> str:
        return self._registry.get(run_id).totals().to_json()

    def _heard_of(self, run_id: str) -> None:
        """Note that a run makes progress."""
        run = self._registry.find(run_id)
        if run is not None:
            run.progress = self._clock()
