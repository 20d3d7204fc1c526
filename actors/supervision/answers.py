"""Answers of the registry: what a run is told when it is admitted, and replies that are remembered so that a repeated call gets the same one."""

from typing import Final, TypeVar

from ...messages.control import Admitted
from ...messages.limits import Limits
from ...messages.usage import Totals
from .records import Run

KEPT_REPLIES: Final = 64
"""Answers that are remembered for each run; a refusal counts for each child."""

_Key = TypeVar("_Key", int, str)
_Reply = TypeVar("_Reply")


def admitted(run: Run) -> Admitted:
    """Return what a run is told when it, or another attempt of it, is admitted."""
    lease = run.lease
    return Admitted(
        stamp=run.stamp,
        lane=run.lane,
        limits=run.limits,
        deadline=run.deadline,
        actor=lease.actor if lease.warm else None,
        actor_name=lease.actor,
        lease=lease.number,
        shared=lease.shared,
        spent=run.totals() if run.lost_attempts else Totals(),
    )


def sooner(inherited: float | None, own: Limits | None, now: float) -> float | None:
    """Return the earlier of an inherited deadline and a run's own."""
    mine = None if own is None or own.deadline is None else now + own.deadline
    if inherited is None:
        return mine
    return inherited if mine is None else min(inherited, mine)


def remember(replies: dict[_Key, _Reply], key: _Key, reply: _Reply, kept: int = KEPT_REPLIES) -> None:
    """Keep a reply, and forget the oldest if there are too many."""
    replies[key] = reply
    if len(replies) > kept:
        del replies[next(iter(replies))]
