"""The supervisor as its callers see it: typed calls, bounded in time, patient with a restart."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from ..messages.control import (
    AdmitReply,
    AdmitRequest,
    CancelOrder,
    CancelRequest,
    DriverHello,
    EndReport,
    LaneAddress,
    OpenLane,
    Order,
    PollReply,
    RunReport,
)
from ..messages.errors import RuntreeError
from ..messages.loss import LossReport, LossVerdict
from ..messages.overview import NamespaceView, SupervisorInfo
from ..messages.reservations import Budget, ReserveReply, ReserveRequest, SlotRequest, ThrottleReport
from ..messages.result import CancelReport, RunInfo, RunRecord
from ..messages.usage import Totals
from ..messages.version import VERSION, WIRE_VERSION
from . import supervisor
from .batcher import Batcher
from .remote import CALL_TIMEOUT, Handle, UnreachableError, call, create, find, kill, on_head_node
from .supervision.desk import Answer, Call

PART: Final = "supervisor"

_POLL_TIMEOUT: Final = 60.0
_RETRY_SECONDS: Final = 10.0
"""A killed supervisor is back within a second or two; who calls it meanwhile tries again for so long."""

_Answer = TypeVar("_Answer")


class SupervisorClient:
    """Calls to the supervisor of one namespace."""

    def __init__(self, handle: Handle, namespace: str) -> None:
        self._handle = handle
        self.namespace = namespace
        self._small: Batcher[Call, Answer] = Batcher(self._send, _size)

    @classmethod
    async def start(cls, namespace: str) -> "SupervisorClient":
        """Find the supervisor, or start it; it outlives the driver.

        Raises:
            VersionMismatchError: It runs another version.
        """
        handle = create(
            supervisor.Supervisor,
            namespace,
            groups=supervisor.GROUPS,
            name=supervisor.NAME,
            namespace=namespace,
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            num_cpus=0,
            **await on_head_node(),
        )
        client = cls(handle, namespace)
        await client._greet()
        return client

    @classmethod
    async def join(cls, namespace: str) -> "SupervisorClient":
        """Find the supervisor.

        Raises:
            ActorGoneError: There is none in this namespace.
            VersionMismatchError: It runs another version.
        """
        client = cls(await find(supervisor.NAME, namespace, PART), namespace)
        await client._greet()
        return client

    @classmethod
    async def known(cls, namespace: str) -> "SupervisorClient":
        """Find the supervisor from inside a run, without a greeting: the driver had one."""
        return cls(await find(supervisor.NAME, namespace, PART), namespace)

    async def down(self) -> None:
        """End the supervisor for good, and remove its store."""
        with contextlib.suppress(RuntreeError):  # one of an early version has none
            await call(self._handle, "retire", part=PART)
        await asyncio.to_thread(kill, self._handle)

    async def hello(self, hello: DriverHello) -> None:
        """Introduce a driver."""
        await self._ask("join", hello.to_json())

    async def leave(self, driver_id: str) -> None:
        """Take leave of a driver."""
        await self._ask("leave", driver_id)

    async def offer(self, driver_id: str, actor: str) -> None:
        """Add a warm actor to the driver's pool."""
        await self._ask("offer", driver_id, actor)

    async def withdraw(self, driver_id: str, actor: str) -> None:
        """Take an idle warm actor that is gone out of the pool."""
        await self._ask("withdraw", driver_id, actor)

    async def admit(self, request: AdmitRequest) -> AdmitReply:
        """Ask for the admission of children."""
        return AdmitReply.from_json(await self._ask("admit", request.to_json()))

    async def begin(self, run_id: str, attempt: int) -> str | None:
        """Tell that a run begins; returns the reason if it is cancelled already."""
        reason: str | None = await self._ask("begin", run_id, attempt)
        return reason

    async def stopped(self, run_id: str, attempt: int) -> str | None:
        """Return why a run that has not begun must not be started any more; `None` if it may."""
        reason: str | None = await self._ask("stopped", run_id, attempt)
        return reason

    async def reserve(self, request: ReserveRequest) -> ReserveReply:
        """Ask for calls that a bound stands over; the answer may be that it comes later, as a `GrantOrder`."""
        return ReserveReply.from_json(await self._ask("reserve", request.to_json()))

    async def slot(self, request: SlotRequest) -> ReserveReply:
        """Give a parallel slot back, or ask for it; the answer may be that it comes later, as a `GrantOrder`."""
        return ReserveReply.from_json(await self._ask("slot", request.to_json()))

    async def throttle(self, report: ThrottleReport) -> None:
        """Tell that a provider asked to be left alone."""
        await self._ask("throttle", report.to_json())

    async def budget(self, run_id: str) -> Budget:
        """Return what is left for a run."""
        return Budget.from_json(await self._ask("budget", run_id))

    async def report(self, report: RunReport) -> Totals:
        """Report accounts."""
        return Totals.from_json(await self._ask("report", report.to_json()))

    async def end(self, report: EndReport) -> None:
        """Report the end of a run."""
        await self._ask("end", report.to_json())

    async def killed(self, run_id: str) -> None:
        """Report that a condemned run's actor was killed."""
        await self._ask("killed", run_id)

    async def note_loss(self, report: LossReport) -> LaneAddress | None:
        """Report a lost run; returns its own lane, if it has one."""
        lane: str | None = await self._call("note_loss", report.to_json())
        return None if lane is None else LaneAddress.from_json(lane)

    async def lost(self, report: LossReport) -> LossVerdict:
        """Ask what follows a loss; returns when all below the run have ended."""
        return LossVerdict.from_json(await self._call("lost", report.to_json(), timeout=None))

    async def cancel(self, request: CancelRequest) -> CancelReport:
        """Cancel a run and all below it."""
        again = (request.model_copy(update={"repeated": True}).to_json(),)
        return CancelReport.from_json(await self._call("cancel", request.to_json(), timeout=None, again=again))

    async def totals(self, run_id: str) -> Totals:
        """Return a run's accounts."""
        return Totals.from_json(await self._ask("totals", run_id))

    async def ledger(self, run_id: str) -> tuple[RunRecord, ...]:
        """Return the records of a run and all below it."""
        return tuple(RunRecord.from_json(record) for record in await self._call("ledger", run_id))

    async def lanes(self, driver_id: str) -> tuple[OpenLane, ...]:
        """Return the lanes that live runs of a driver need, upstream lanes first."""
        return tuple(OpenLane.from_json(lane) for lane in await self._call("lanes", driver_id))

    async def runs(self, *, ended: bool) -> tuple[RunInfo, ...]:
        """Return the live runs, or all that are remembered."""
        return tuple(RunInfo.from_json(info) for info in await self._call("runs", ended))

    async def view(self, *, ended: bool, most: int) -> NamespaceView:
        """Return what runs, at most so many runs one by one."""
        return NamespaceView.from_json(await self._call("view", ended, most))

    async def describe(self) -> SupervisorInfo:
        """Return what the supervisor is, whatever its version."""
        return SupervisorInfo.from_json(await self._call("describe"))

    async def poll_for_ever(
        self,
        process: str,
        obey: Callable[[Order], Awaitable[None] | None],
        pause: float = 0.0,
        on_loss: Callable[[], None] | None = None,
    ) -> None:
        """Keep a long-poll open and hand every order to `obey`, until cancelled.

        Args:
            process: Whose orders.
            obey: Carries out an order.
            pause: Seconds between the order to cancel and the next poll.
            on_loss: Called once when the supervisor goes away: orders may be lost with it, and calls wait until it is back.
        """
        seen, away = 0, False
        while True:
            try:
                reply = PollReply.from_json(
                    await call(self._handle, "poll", process, seen, part=PART, timeout=_POLL_TIMEOUT)
                )
            except RuntreeError:
                if not away and on_loss is not None:
                    on_loss()
                away = True
                await asyncio.sleep(random.uniform(0.1, 0.5))
                continue
            if reply.superseded:
                return
            away = False
            for order in reply.orders:
                obeyed = obey(order)
                if obeyed is not None:
                    await obeyed
            seen = reply.version
            if any(isinstance(order, CancelOrder) for order in reply.orders):
                await asyncio.sleep(pause)

    async def _greet(self) -> None:
        await self._call("start", WIRE_VERSION, VERSION)

    async def _ask(self, method: str, *args: str | int) -> Any:
        """Make a small call, in one batch with what this process asks at the same time."""
        return await self._small.ask([method, *args])

    async def _send(self, calls: Sequence[Call]) -> Sequence[Answer]:
        answers: Sequence[Answer] = await self._call("batch", calls)
        return answers

    async def _call(
        self, method: str, *args: Any, timeout: float | None = CALL_TIMEOUT, again: Sequence[Any] | None = None
    ) -> Any:
        """Call a method; again if the supervisor is being restarted. Every call may be repeated: it is numbered or idempotent.

        Args:
            method: Its name.
            args: Its arguments.
            timeout: Seconds; `None` for a call that waits for runs.
            again: Its arguments when it is repeated, if they are others.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _RETRY_SECONDS
        while True:
            began = loop.time()
            try:
                return await call(self._handle, method, *args, part=PART, timeout=timeout)
            except UnreachableError:
                now = loop.time()
                if timeout is None and now - began > _RETRY_SECONDS:
                    deadline = now + _RETRY_SECONDS  # it was there until now
                if now >= deadline:
                    raise
                args = args if again is None else tuple(again)
                await asyncio.sleep(random.uniform(0.1, 0.4))


def _size(call: Call) -> int:
    return sum(len(arg) for arg in call if isinstance(arg, str))
