"""What is kept of a run, a driver and an actor: their own facts as frozen values, which are JSON in the store.

What can be computed from these is not kept: totals, counts over a sub-tree, who is below whom, which leases are held.
A field of `RunFacts`, `DriverFacts` or `ActorFacts` has the name of the field it keeps; `tests/supervision/test_facts.py` compares the two.
"""

from operator import attrgetter
from typing import Any, Final, Generic, TypeVar, get_origin

from pydantic import Field

from ...messages.control import ChildRequest, DriverHello, LaneAddress
from ...messages.failure import Failure
from ...messages.items import Stamp
from ...messages.limits import Limits
from ...messages.loss import LossReport, LossVerdict
from ...messages.reservations import ReserveReply, ReserveRequest, SlotRequest
from ...messages.result import AttemptRecord, RunStatus
from ...messages.usage import NO_COST, NO_USAGE, Cost, Usage
from ...messages.value import Value, set_extra, set_field_names, set_fields, set_private
from .leases import Lease, Leases, Packing
from .lending import NEVER
from .lines import Ticket, Waiter
from .records import Driver, Flag, Run
from .scopes import Reservation

_Request = TypeVar("_Request", ReserveRequest, SlotRequest, ChildRequest)

DERIVED_OF_RUN: Final = frozenset(
    {
        "driver",  # `driver_id`, a column of its own
        "parent",  # in the stamp
        "changes",  # of the process
        "progress",  # begins anew: while nobody could report, silence meant nothing
        "children",
        "live_below",
        "admitted_runs",
        "sums",
        "bounds",
        "scopes",
        "slot_scopes",
        "_totals",
    }
)
"""Fields of a run that are not kept, since they follow from those that are."""

DERIVED_OF_DRIVER: Final = frozenset(
    {
        "leases",  # `lease_numbers`, `pool_shrunk`, and the facts of its actors
        "seen",  # begins anew: while nobody could poll, silence meant nothing
        "trees",
        "changes",  # of the process
    }
)
"""Fields of a driver that are not kept, since they follow from those that are."""


class Asked(Value, Generic[_Request]):
    """A request that is not decided yet."""

    request: _Request
    ticket: Ticket


class RunFacts(Value):
    """A run's own facts."""

    ordinal: int
    """Its place in the order of admissions."""
    stamp: Stamp
    agent: str
    call_id: str | None
    driver_id: str
    lane: LaneAddress
    own_limits: Limits | None
    limits: Limits
    deadline: float | None
    started: float
    lease: Lease
    request: ChildRequest
    parent_attempt: int = 1
    model: str = ""
    own_lane: LaneAddress | None = None
    status: RunStatus = "pending"
    ended: float | None = None
    error: Failure | None = None
    last_seq: int | None = None
    flag: Flag | None = None
    forced: bool = False
    preempted: bool = False
    attempt_started: float = 0.0
    lost: LossReport | None = None
    lost_attempts: tuple[AttemptRecord, ...] = ()
    verdicts: dict[int, LossVerdict] = Field(default_factory=dict[int, LossVerdict])
    usage: Usage = NO_USAGE
    cost: Cost = NO_COST
    attempt_usage: Usage = NO_USAGE
    attempt_cost: Cost = NO_COST
    reported: tuple[Usage, Cost] = (NO_USAGE, NO_COST)
    report_number: int = -1
    refusals: dict[str, Failure] = Field(default_factory=dict[str, Failure])
    overrun: tuple[str, ...] = ()
    reservations: dict[int, Reservation] = Field(default_factory=dict[int, Reservation])
    doubts: dict[int, Reservation] = Field(default_factory=dict[int, Reservation])
    decisions: dict[int, ReserveReply] = Field(default_factory=dict[int, ReserveReply])
    at_work: bool = False
    slot_number: int = -1
    waiting: dict[int, Asked[ReserveRequest]] = Field(default_factory=dict[int, Asked[ReserveRequest]])
    wants_slot: Asked[SlotRequest] | None = None
    postponed: dict[str, Asked[ChildRequest]] = Field(default_factory=dict[str, Asked[ChildRequest]])


class DriverFacts(Value):
    """A driver's own facts."""

    hello: DriverHello
    next_queue: int = 0
    gone: bool = False
    lease_numbers: int = 0
    """Number of its last lease."""
    pool_shrunk: bool = False
    """Its pool gave actors up, and has not been asked for one since."""


class ActorFacts(Value):
    """What a driver's leases know of an actor: it waits for a run, or runs hold it."""

    idle_since: float | None = None
    """Since when it waits; `None` if it does not."""
    of_driver: bool = True
    returns: bool = True
    packing: Packing | None = None
    warm: bool = True
    holders: tuple[Lease, ...] = ()
    condemned: tuple[int, ...] = ()
    draining: bool = False
    kill_at: float = NEVER


WAITERS: Final = frozenset({"waiting", "wants_slot", "postponed"})
"""Fields of a run that are kept as `Asked`, and restored by `restore_waiters`."""

_OF_LEASES: Final = frozenset({"lease_numbers", "pool_shrunk"})
_RUN_FIELDS: Final = tuple(name for name in RunFacts.model_fields if name not in {"driver_id", *WAITERS})
_of_run: Final = attrgetter(*_RUN_FIELDS)
_ALL_RUN_FIELDS: Final = set(RunFacts.model_fields)
_GROWING: Final = tuple(
    name for name in _RUN_FIELDS if get_origin(RunFacts.model_fields[name].annotation) in {dict, list, set}
)
"""Fields that are changed in place: the facts have copies of them."""
_DRIVER_FIELDS: Final = tuple(name for name in DriverFacts.model_fields if name not in _OF_LEASES)


def facts_of_run(run: Run) -> RunFacts:
    """Return what is kept of a run."""
    fields: dict[str, Any] = dict(zip(_RUN_FIELDS, _of_run(run), strict=True))
    for name in _GROWING:
        fields[name] = fields[name].copy()
    fields["driver_id"] = run.driver.hello.driver_id
    fields["waiting"] = {number: Asked[ReserveRequest](**_asked(waiter)) for number, waiter in run.waiting.items()}
    fields["wants_slot"] = None if run.wants_slot is None else Asked[SlotRequest](**_asked(run.wants_slot))
    fields["postponed"] = {run_id: Asked[ChildRequest](**_asked(waiter)) for run_id, waiter in run.postponed.items()}
    # Made at each change of a run from values that were checked before: checked again, it takes three times as long.
    facts = RunFacts.__new__(RunFacts)
    set_fields(facts, fields)
    set_field_names(facts, _ALL_RUN_FIELDS)
    set_extra(facts, None)
    set_private(facts, None)
    return facts


def restore_waiters(run: Run, facts: RunFacts) -> None:
    """Give a run back what it waits for; `Allowances.restore` has it stand in line again."""
    run.waiting = {number: _waiter(run, asked) for number, asked in facts.waiting.items()}
    run.wants_slot = None if facts.wants_slot is None else _waiter(run, facts.wants_slot)
    run.postponed = {run_id: _waiter(run, asked) for run_id, asked in facts.postponed.items()}


def _asked(waiter: Waiter) -> Any:
    return {"request": waiter.request, "ticket": waiter.ticket}


def _waiter(run: Run, asked: Asked[Any]) -> Waiter:
    return Waiter(run, asked.request, asked.ticket)


def facts_of_driver(driver: Driver) -> DriverFacts:
    """Return what is kept of a driver."""
    kept = {name: getattr(driver, name) for name in _DRIVER_FIELDS}
    numbers, shrunk = driver.leases.numbers()
    return DriverFacts(lease_numbers=numbers, pool_shrunk=shrunk, **kept)


def facts_of_actor(leases: Leases, name: str) -> ActorFacts | None:
    """Return what is kept of an actor; `None` if it is gone."""
    lent = leases.lent(name)
    if lent is not None:
        return ActorFacts(
            of_driver=lent.of_driver,
            returns=lent.returns,
            packing=lent.packing,
            warm=lent.warm,
            holders=tuple(lent.holders.values()),
            condemned=tuple(lent.condemned),
            draining=lent.draining,
            kill_at=lent.kill_at,
        )
    since = leases.idle_since(name)
    return None if since is None else ActorFacts(idle_since=since)
