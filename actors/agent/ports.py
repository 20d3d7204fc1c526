"""What a run asks of its surroundings. The loop knows only these; a RunActor, or a test, provides them.

Every method may be called from any task of the run's own event loop. None of them raises when the run is cancelled: the loop is told by
`AgentRun.cancel`.
"""

from collections.abc import Container, Mapping, Sequence
from typing import Any, Protocol

from ...messages.control import AdmitAnswer, Admitted, ChildRequest
from ...messages.items import Item, Stamp
from ...messages.limits import Limits
from ...messages.reservations import Budget, ReserveReply, ReserveRequest, SlotRequest, ThrottleReport
from ...messages.result import RunResult
from ...messages.usage import Cost, Totals, Usage
from .pauses import Pauses


class Emitting(Protocol):
    """The one place where items of the run come from."""

    def emit(self, item_type: type[Item], **fields: Any) -> None:
        """Stamp, number and queue an item that is not a delta. Never waits."""
        ...

    def emit_delta(self, kind: str, **fields: Any) -> None:
        """Stamp, number and queue a delta. Never waits; follow a burst of them by `ready`."""
        ...

    async def ready(self) -> None:
        """Return when the buffer has room: at once as a rule, late when the reader is slow."""
        ...

    async def delivered(self) -> bool:
        """Return when what was emitted before has been accepted by the parent's lane; False if it will not be: the attempt is over.

        For what must not happen unless others know of it. It takes as long as `ready`, plus one round trip.
        """
        ...

    @property
    def next_seq(self) -> int:
        """Number the next item will get."""
        ...


class Accounting(Protocol):
    """The run's accounts at the supervisor."""

    def next_number(self) -> int:
        """Return the next value of the run's call counter."""
        ...

    async def reserve(self, request: ReserveRequest) -> ReserveReply:
        """Ask whether calls may be made; the same request may be asked again. A decision that takes longer comes by `AgentRun.deliver`."""
        ...

    async def slot(self, request: SlotRequest) -> ReserveReply:
        """Give the parallel slot back, or ask for it; decided like a reservation."""
        ...

    async def report(self, usage: Usage, cost: Cost, settled: Mapping[int, int]) -> Totals:
        """Report the run's own cumulative accounts, and which reservations are over; returns them with those of the sub-tree."""
        ...

    async def throttle(self, report: ThrottleReport) -> None:
        """Tell that a provider asks to be left alone."""
        ...

    async def budget(self) -> Budget:
        """Return what the bounds over the run leave."""
        ...

    @property
    def limited_models(self) -> Container[str]:
        """Models whose calls have to be reserved whatever the run's own limits are, by `ModelProfile.key`; more may come while it runs."""
        ...

    @property
    def pauses(self) -> Pauses:
        """Models that are left alone for a while; shared by all runs of the process."""
        ...


class Spawning(Protocol):
    """Sub-agents."""

    async def admit(self, children: Sequence[ChildRequest]) -> Sequence[AdmitAnswer]:
        """Ask for the children of one fan-out in one call; the answers are in the order of the requests.

        The loop does not interrupt it, so it is answered promptly when the tree is cancelled: with refusals, or with admissions of runs
        whose flag is set. Every child that is admitted is then handed to `run_child`. What becomes of a postponed one comes by
        `AgentRun.deliver`, and is told when it is asked for again.
        """
        ...

    async def run_child(self, admitted: Admitted, agent_key: str, value: Any) -> RunResult:
        """Start an admitted child with its input and return its end, whatever it is.

        Returns only after the child's terminal item is in this run's lane. It is shielded from cancellation: a cancelled child has a
        flag of its own, and a child that does not heed it is killed.
        """
        ...

    async def cancel_reason(self) -> str | None:
        """Return why this run is cancelled, `None` if it is not, as whoever decides it knows: the order may be on its way here still."""
        ...

    async def cancel_run(self, run_id: str, reason: str, grace: float | None = None) -> None:
        """Set the flags of a run and all below it; returns when they are set."""
        ...


class RunHost(Emitting, Accounting, Spawning, Protocol):
    """All ports of a run."""

    @property
    def stamp(self) -> Stamp:
        """The run's lineage."""
        ...

    @property
    def limits(self) -> Limits:
        """The bounds that hold for the run's sub-tree."""
        ...

    @property
    def deadline(self) -> float | None:
        """Seconds since the epoch at which the run has to end."""
        ...
