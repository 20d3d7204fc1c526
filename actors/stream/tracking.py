"""What a queue knows of the runs whose items pass through it: enough to write the end of a run that can't."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from pydantic_core import from_json

from ...messages.codec import Frame
from ...messages.failure import Failure
from ...messages.items import (
    TERMINAL_KINDS,
    AttemptDiscarded,
    Item,
    RunCancelled,
    RunFailed,
    Stamp,
    ToolCallCompleted,
)
from ...messages.transcript import ToolOutcome
from ...messages.usage import Cost, Totals, Usage
from ...messages.value import Value

UNKNOWN_TOTALS = Totals(
    usage=Usage(precision="unknown"),
    cost=Cost(precision="unknown"),
    total_usage=Usage(precision="unknown"),
    total_cost=Cost(precision="unknown"),
)
"""The accounts of a run whose end is written by somebody who does not keep them."""


class Ending(Value):
    """How a run that can't say so itself has ended."""

    cancelled: bool
    """Cancelled rather than failed."""
    reason: str
    """Reason of the cancel, or what was seen of the loss."""
    forced: bool = False
    """Its process was killed."""
    totals: Totals = UNKNOWN_TOTALS
    """The accounts of the run, from the supervisor."""
    error: Failure | None = None
    """The failure, unless it was cancelled; a loss by default."""
    again: bool = False
    """The run is started again: this attempt is discarded, and what is written is not the run's end."""
    below: tuple[str, ...] = ()
    """With `again`: all runs below this attempt, so that none of them begins to speak below the next one."""


class Standing(NamedTuple):
    """How far an attempt of a run has come, as the items told that passed one queue."""

    open_calls: dict[str, str]
    """Names of the tools whose calls have started and not completed, by call id."""
    completed: frozenset[str]
    """Calls that have completed here, but have started elsewhere."""
    certain: bool = True
    """False if the tree has lost a queue, which may have known of more."""


@dataclass(slots=True)
class Track:
    """One attempt of a run, as its frames told."""

    stamp: Stamp
    last_seq: int = -1
    end: bytes | None = None
    """The terminal item, as a frame of its own."""
    fenced: bool = False
    """Nothing more of it is taken: it was finished by others, or discarded."""
    whole: bool = False
    """All that it said has passed here, from the start."""
    sealed: bool = False
    """Nothing more is taken that it says itself."""
    discarded: bool = False
    """The run is started again."""
    open_calls: dict[str, str] = field(default_factory=dict[str, str])
    """Names of the tools whose calls have started and not completed, by call id."""
    completed_elsewhere: set[str] = field(default_factory=set[str])
    """Calls that completed here and have started in another queue."""

    def follow(self, frame: Frame) -> None:
        """Take note of an accepted frame."""
        self.whole = frame.first_seq == self.last_seq + 1 and (self.whole or self.last_seq < 0)
        self.last_seq = frame.last_seq
        for mark in frame.marks:
            if mark.kind == "tool_call_started" and mark.call_id is not None:
                self.open_calls[mark.call_id] = mark.tool_name or ""
            elif mark.kind == "tool_call_completed" and mark.call_id is not None:
                if self.open_calls.pop(mark.call_id, None) is None:
                    self.completed_elsewhere.add(mark.call_id)
            elif mark.kind == "attempt_discarded" and from_json(frame.line(mark.index))["scope"] == "run":
                self.discarded = self.fenced = True
            elif mark.kind in TERMINAL_KINDS:
                self.end = frame.after(frame.last_seq - 1).to_bytes()

    @property
    def ended(self) -> bool:
        """Whether its terminal item has come."""
        return self.end is not None

    @property
    def standing(self) -> Standing:
        """How far it has come."""
        return Standing(dict(self.open_calls), frozenset(self.completed_elsewhere))

    def closing_items(self, ending: Ending) -> list[Item]:
        """Return what is missing of the attempt: a completion for each open call, then the terminal item, or that the attempt is discarded."""
        now = time.time()
        stamp = dict(self.stamp)
        outcome: ToolOutcome = "cancelled" if ending.cancelled else "lost"
        seq = self.last_seq
        items: list[Item] = []
        for call_id, tool_name in self.open_calls.items():
            seq += 1
            items.append(
                ToolCallCompleted(
                    **stamp,
                    seq=seq,
                    time=now,
                    call_id=call_id,
                    tool_name=tool_name,
                    outcome=outcome,
                    message=ending.reason,
                )
            )
        totals = dict(ending.totals)
        seq += 1
        if ending.again:
            end: Item = AttemptDiscarded(
                **stamp,
                seq=seq,
                time=now,
                scope="run",
                discarded_attempt=self.stamp.attempt,
                first_seq=0,
                last_seq=seq - 1,
                reason=ending.reason,
            )
        elif ending.cancelled:
            end = RunCancelled(**stamp, seq=seq, time=now, reason=ending.reason, forced=ending.forced, **totals)
        else:
            error = ending.error or Failure(code="lost", message=ending.reason, retryable=True)
            end = RunFailed(**stamp, seq=seq, time=now, error=error, **totals)
        return [*items, end]


class Tracks:
    """The runs whose items have come one way through a queue, by id."""

    def __init__(self) -> None:
        self._tracks: dict[str, Track] = {}
        self._children: dict[str, list[str]] = {}
        self._refused: set[str] = set()
        """Runs that must not begin any more: they were below an attempt that was discarded."""

    def get(self, run_id: str) -> Track | None:
        """Return the newest attempt that was seen of a run."""
        return self._tracks.get(run_id)

    def of(self, stamp: Stamp) -> Track | None:
        """Return the track of a frame's attempt, a new one for a new attempt, `None` if the attempt is over."""
        track = self._tracks.get(stamp.run_id)
        if track is not None and stamp.attempt < track.stamp.attempt:
            return None
        if track is None or stamp.attempt > track.stamp.attempt:
            if track is None and stamp.parent_run_id is not None:
                self._children.setdefault(stamp.parent_run_id, []).append(stamp.run_id)
            parent = None if stamp.parent_run_id is None else self._tracks.get(stamp.parent_run_id)
            # Below a run that was closed nothing begins any more: its end stands behind it already. Below one that is started again new runs
            # may speak here before their parent does, and the old ones are known by their ids.
            over = parent is not None and parent.fenced and not parent.discarded
            track = Track(stamp, fenced=over or stamp.run_id in self._refused)
            self._tracks[stamp.run_id] = track
        return None if track.fenced else track

    def refuse(self, run_ids: Iterable[str]) -> None:
        """Take no items of runs that have not spoken yet."""
        self._refused.update(run_id for run_id in run_ids if run_id not in self._tracks)

    def below(self, run_id: str) -> Iterator[Track]:
        """Yield the run's descendants, depth first, deepest before shallower; the run itself is left out."""
        for child in self._children.get(run_id, ()):
            yield from self.below(child)
            yield self._tracks[child]
