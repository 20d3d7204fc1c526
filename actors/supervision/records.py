"""What the supervisor knows of one run and of one driver."""

from dataclasses import dataclass, field
from typing import Any

from ...messages.control import ChargeReply, ChildRequest, DriverHello, LaneAddress
from ...messages.failure import Failure
from ...messages.items import Stamp
from ...messages.limits import Limits
from ...messages.loss import LossReport, LossVerdict
from ...messages.result import AttemptRecord, RunInfo, RunRecord, RunStatus
from ...messages.usage import NO_COST, NO_USAGE, Cost, Totals, Usage
from .changes import Changes
from .leases import Lease, Leases

LIVE: frozenset[RunStatus] = frozenset({"pending", "running"})


@dataclass(frozen=True, slots=True)
class Flag:
    """A cancel that reached a run."""

    reason: str
    grace: float
    since: float
    """When its grace began: when it was set, or when its last child ended."""


@dataclass(slots=True)
class Driver:
    """A Runtime that joined."""

    hello: DriverHello
    leases: Leases = field(default_factory=Leases)
    next_queue: int = 0
    seen: float = 0.0
    """When it last polled."""
    gone: bool = False
    """It left, or was given up; it is remembered for as long as one of its trees is."""
    trees: int = 0
    """Trees of it that are remembered."""
    changes: Changes = field(default_factory=Changes, repr=False)

    def __post_init__(self) -> None:
        self.leases.on_change = self._touch_actor

    def next_queue_name(self) -> str:
        """Return the queue actor for a new lane, each in turn."""
        self.next_queue += 1
        self.touch()
        return self.hello.queues[self.next_queue % len(self.hello.queues)]

    def touch(self) -> None:
        """Note that a fact of it has changed, so that it is saved."""
        self.changes.drivers[self.hello.driver_id] = self

    def _touch_actor(self, name: str) -> None:
        self.changes.actors[self.hello.driver_id, name] = self
        self.touch()

    @property
    def label(self) -> str:
        """Host and process, for people."""
        return f"{self.hello.host}:{self.hello.pid}"


@dataclass(slots=True, eq=False)
class Run:
    """One run, from its admission until its tree is forgotten.

    Whoever changes a fact of it calls `touch`; what is not a fact is listed in `facts.DERIVED_OF_RUN`.
    """

    stamp: Stamp
    agent: str
    call_id: str | None
    driver: Driver
    parent: "Run | None"
    lane: LaneAddress
    own_limits: Limits | None
    limits: Limits
    deadline: float | None
    started: float
    lease: Lease
    request: ChildRequest
    """What was asked for."""
    parent_attempt: int = 1
    """The attempt of the parent that asked for it."""
    model: str = ""
    """Name of its agent's model, as far as the agent tells."""
    progress: float = 0.0
    """When it was last heard of."""
    ordinal: int = 0
    """Its place in the order of admissions."""
    own_lane: LaneAddress | None = None
    status: RunStatus = "pending"
    ended: float | None = None
    error: Failure | None = None
    flag: Flag | None = None
    forced: bool = False
    """It was condemned: its actor is being killed, or was."""
    preempted: bool = False
    """The actor it shared was killed because of another run."""
    children: list["Run"] = field(default_factory=list["Run"])
    live_below: int = 0
    """Runs below it that have not ended."""
    attempt_started: float = 0.0
    """When the current attempt was admitted."""
    lost: LossReport | None = None
    """The current attempt's process is gone, and what follows is not decided yet: the run is live, but does nothing."""
    lost_attempts: tuple[AttemptRecord, ...] = ()
    """The attempts before the current one."""
    verdicts: dict[int, LossVerdict] = field(default_factory=dict[int, LossVerdict])
    """What was decided of lost attempts."""
    usage: Usage = NO_USAGE
    """Its own, of all attempts."""
    cost: Cost = NO_COST
    """Its own, of all attempts."""
    attempt_usage: Usage = NO_USAGE
    """Of the current attempt."""
    attempt_cost: Cost = NO_COST
    """Of the current attempt."""
    report_number: int = -1
    refusals: dict[str, Failure] = field(default_factory=dict[str, Failure])
    """Why children were refused, by run id."""
    charges: dict[int, ChargeReply] = field(default_factory=dict[int, ChargeReply])
    granted_model_calls: int = 0
    """Model calls granted to the sub-tree."""
    granted_tool_calls: int = 0
    """Tool calls granted to the sub-tree."""
    admitted_runs: int = 1
    """Runs of the sub-tree, itself included, ended ones too."""
    tokens: int = 0
    """Tokens of the sub-tree, as far as they are known."""
    _totals: Totals | None = None
    changes: Changes = field(default_factory=Changes, repr=False)

    @property
    def run_id(self) -> str:
        """Its id."""
        return self.stamp.run_id

    @property
    def live(self) -> bool:
        """Whether it has not ended."""
        return self.status in LIVE

    def touch(self) -> None:
        """Note that a fact of it has changed, so that it is saved."""
        self.changes.runs[self.stamp.run_id] = self

    def take_own_lane(self) -> LaneAddress:
        """Return its own lane, which it has from its first child on."""
        if self.own_lane is None:
            queue = self.driver.next_queue_name() if self.driver.hello.spread_lanes else self.lane.queue
            self.own_lane = LaneAddress(queue=queue, lane=self.run_id)
            self.touch()
        return self.own_lane

    def lineage(self) -> list["Run"]:
        """Return the run and its ancestors, up to the root."""
        line: list[Run] = []
        run: Run | None = self
        while run is not None:
            line.append(run)
            run = run.parent
        return line

    def subtree(self) -> list["Run"]:
        """Return the run and all below it, deepest last."""
        found: list[Run] = [self]
        for run in found:
            found.extend(run.children)
        return found

    def works(self, attempt: int) -> bool:
        """Whether an attempt is the one that is at work."""
        return self.live and self.stamp.attempt == attempt and self.lost is None

    def account(self, usage: Usage, cost: Cost) -> None:
        """Take a cumulative snapshot of the current attempt's own accounts."""
        self.attempt_usage, self.attempt_cost = usage, cost
        for lost in self.lost_attempts:
            usage, cost = lost.usage + usage, lost.cost + cost
        self.account_whole(usage, cost)

    def account_whole(self, usage: Usage, cost: Cost) -> None:
        """Take the run's own accounts over all attempts."""
        more = usage.tokens - self.usage.tokens
        self.usage, self.cost = usage, cost
        self.touch()
        for run in self.lineage():
            run.tokens += more
            run._totals = None

    def adopt(self, child: "Run") -> None:
        """Take note of a child that was admitted."""
        self.children.append(child)
        for run in self.lineage():
            run.live_below += 1
            run.admitted_runs += 1
            run._totals = None

    def totals(self) -> Totals:
        """Return the run's own accounts and those of its sub-tree, which are the sum of its runs' at every moment."""
        if self._totals is None:
            total_usage, total_cost = self.usage, self.cost
            for child in self.children:
                below = child.totals()
                total_usage += below.total_usage
                total_cost += below.total_cost
            self._totals = Totals(usage=self.usage, cost=self.cost, total_usage=total_usage, total_cost=total_cost)
        return self._totals

    def record(self) -> RunRecord:
        """Return its line of the ledger."""
        return RunRecord(**self._fields())

    def info(self) -> RunInfo:
        """Return its line of `runtree ps`."""
        totals = self.totals()
        return RunInfo(
            **self._fields(),
            driver=self.driver.label,
            cancelling=self.live and self.flag is not None,
            model=self.model,
            progress=self.progress,
            total_usage=totals.total_usage,
            total_cost=totals.total_cost,
        )

    def _fields(self) -> dict[str, Any]:
        return {
            **dict(self.stamp),
            "agent": self.agent,
            "status": self.status,
            "usage": self.usage,
            "cost": self.cost,
            "lost_attempts": self.lost_attempts,
            "started": self.started,
            "ended": self.ended,
            "error": self.error,
        }
