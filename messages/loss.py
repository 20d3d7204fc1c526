"""What is said of a run whose process is gone: who saw it, what it counts as, and how it goes on."""

from typing import Literal

from .control import Admitted, LaneAddress
from .failure import Failure
from .value import Value


class LossReport(Value):
    """Somebody saw the call of a run fail because its process is gone."""

    run_id: str
    """The lost run."""
    attempt: int
    """The attempt that was lost."""
    reason: str
    """What was seen."""
    in_doubt: str | None = None
    """Name of a tool that must not run twice and whose call was open: the run can't be started again."""
    preempted: bool = False
    """Its actor was killed because of another run: does not count against its attempts."""
    error: Failure | None = None
    """What stood against the run, if it was not the loss of a process: another one would meet the same."""

    def failure(self) -> Failure:
        """Return what the loss is as the failure of the run."""
        if self.error is not None:
            return self.error
        return Failure(code="lost", message=f"the process of run {self.run_id} is gone: {self.reason}", retryable=True)


class LossVerdict(Value):
    """What a loss counts as, and which lanes hold items of the lost run's sub-tree."""

    status: Literal["cancelled", "failed"]
    """`cancelled` if a cancel was under way: then the kill was its consequence. Without meaning if the run is started again."""
    reason: str
    """Reason of the cancel, or of the loss."""
    forced: bool
    """The supervisor had it killed."""
    error: Failure | None = None
    """How the run ended; `None` if it is started again."""
    lanes: tuple[LaneAddress, ...] = ()
    """Own lanes of the lost run and of all below this attempt, deepest first."""
    below: tuple[str, ...] = ()
    """Runs below this attempt, whether or not they have said anything; only told if the run is started again."""
    preempted: bool = False
    """Its actor was killed because of another run: does not count against its attempts."""
    again: Admitted | None = None
    """The next attempt, if there is one: to be started once the lost one is fenced."""
