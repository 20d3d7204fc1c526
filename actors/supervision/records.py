"""What the supervisor knows of one run and of one driver."""

from dataclasses import dataclass, field
from typing import Any

from ...messages.control import ChildRequest, DriverHello, LaneAddress, OpenLane
from ...messages.failure import Failure
from ...messages.items import Stamp
from ...messages.limits import Limits
from ...messages.loss import LossReport, LossVerdict
from ...messages.reservations import ReserveReply, WaitReason
from ...messages.result import AttemptRecord, RunInfo, RunRecord, RunStatus
from ...messages.usage import NO_COST, NO_USAGE, Cost, Totals, Usage
from .changes import Changes
from .leases import Lease, Leases
from .lines import Waiter
from .scopes import Reservation, Scope, doubt
from .sums import Change, Sums, change

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
    last_seq: int | None = None
    """Number of its terminal item, if it could tell."""
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
    """Of the current attempt: what it reported, and what is in doubt."""
    attempt_cost: Cost = NO_COST
    """Of the current attempt, like `attempt_usage`."""
    reported: tuple[Usage, Cost] = (NO_USAGE, NO_COST)
    """The last snapshot of the current attempt."""
    report_number: int = -1
    refusals: dict[str, Failure] = field(default_factory=dict[str, Failure])
    """Why children were refused, by run id."""
    admitted_runs: int = 1
    """Runs of the sub-tree, itself included, ended ones too."""
    overrun: tuple[str, ...] = ()
    """Bounds of its sub-tree that a provider's bill exceeded."""
    reservations: dict[int, Reservation] = field(default_factory=dict[int, Reservation])
    """Calls under way, by number."""
    doubts: dict[int, Reservation] = field(default_factory=dict[int, Reservation])
    """Calls that were under way when its process was lost: what they used nobody can tell, so they count as all that was reserved."""
    decisions: dict[int, ReserveReply] = field(default_factory=dict[int, ReserveReply])
    """The last answers to its reservations."""
    waiting: dict[int, Waiter] = field(default_factory=dict[int, Waiter])
    """Its requests for calls that are not decided."""
    wants_slot: Waiter | None = None
    """Its request for its slot, if that is not decided."""
    postponed: dict[str, Waiter] = field(default_factory=dict[str, Waiter])
    """Its children that wait for a slot."""
    at_work: bool = False
    """It holds a parallel slot."""
    slot_number: int = -1
    """Number of the last request about its slot."""
    sums: Sums = field(default_factory=Sums)
    """Accounts of the sub-tree, itself included."""
    bounds: tuple[Scope, ...] = ()
    """The limits that were given for it or above it, outermost first."""
    scopes: tuple[Scope, ...] = ()
    """Those that bound calls."""
    slot_scopes: tuple[Scope, ...] = ()
    """Those that bound how many runs are at work."""
    _totals: Totals | None = None
    changes: Changes = field(default_factory=Changes, repr=False)

    def __post_init__(self) -> None:
        above = self.parent
        if above is not None:
            self.bounds, self.scopes, self.slot_scopes = above.bounds, above.scopes, above.slot_scopes
        limits = self.own_limits
        if limits is not None:
            scope = Scope(self, limits)
            self.bounds = (*self.bounds, scope)
            if limits.bounds_model_calls or limits.max_tool_calls is not None:
                self.scopes = (*self.scopes, scope)
            if limits.max_parallel is not None:
                self.slot_scopes = (*self.slot_scopes, scope)
        self.sums.move(change(None, (self.usage, self.cost)))

    @property
    def run_id(self) -> str:
        """Its id."""
        return self.stamp.run_id

    @property
    def live(self) -> bool:
        """Whether it has not ended."""
        return self.status in LIVE

    @property
    def waits_for(self) -> WaitReason | None:
        """What a call of it, or its going on, waits for."""
        if self.wants_slot is not None:
            return "parallel"
        return next((waiter.line.reason for waiter in self.waiting.values() if waiter.line is not None), None)

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

    @property
    def tokens(self) -> int:
        """Tokens of the sub-tree, as far as they are known."""
        return self.sums.tokens

    def account(self, usage: Usage, cost: Cost) -> None:
        """Take a cumulative snapshot of the current attempt's own accounts."""
        self.reported = usage, cost
        self.recount()

    def recount(self) -> None:
        """Bring the accounts into line with the snapshot and with what is in doubt."""
        usage, cost = self.reported
        if self.doubts:
            more_usage, more_cost = doubt(self.doubts.values())
            usage, cost = usage + more_usage, cost + more_cost
        self.attempt_usage, self.attempt_cost = usage, cost
        for lost in self.lost_attempts:
            usage, cost = lost.usage + usage, lost.cost + cost
        self.account_whole(usage, cost)

    def account_whole(self, usage: Usage, cost: Cost) -> None:
        """Take the run's own accounts over all attempts."""
        by = change((self.usage, self.cost), (usage, cost))
        self.usage, self.cost = usage, cost
        self.touch()
        self._move(by)

    def adopt(self, child: "Run") -> None:
        """Take note of a child that was admitted."""
        self.children.append(child)
        by = change(None, (child.usage, child.cost))
        for run in self.lineage():
            run.live_below += 1
            run.admitted_runs += 1
        self._move(by)

    def _move(self, by: Change) -> None:
        run: Run | None = self
        while run is not None:
            run.sums.move(by)
            run._totals = None
            run = run.parent

    def totals(self) -> Totals:
        """Return the run's own accounts and those of its sub-tree, which are the sum of its runs' at every moment."""
        if self._totals is None:
            total_usage, total_cost = self.sums.accounts()
            self._totals = Totals(usage=self.usage, cost=self.cost, total_usage=total_usage, total_cost=total_cost)
        return self._totals

    def open_lane(self) -> OpenLane | None:
        """Return its own lane, if it has one and something may still come through it."""
        if self.own_lane is None or not (self.live or self.live_below):
            return None
        return OpenLane(lane=self.own_lane, root_run_id=self.stamp.root_run_id, upstream=self.lane)

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
            waits_for=self.waits_for,
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
            "overrun": self.overrun,
            "last_seq": self.last_seq,
            "parent_attempt": self.parent_attempt,
        }
