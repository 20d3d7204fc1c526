"""The lanes of one queue: where parents' items are ordered, bounded, fenced and, if need be, finished.

A lane belongs to a parent: a run, or the driver for the root. Lanes whose items leave this queue by the same way share one buffer, so that a
relay from a lane to its parent's costs nothing and keeps the order; a lane whose parent's lane is in another queue has a buffer of its own,
which is relayed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...messages.codec import Frame
from ...messages.control import LaneAddress
from ...messages.errors import InternalError
from ...messages.items import Stamp
from .buffer import Buffer
from .lane_port import Flow, PushReply
from .tracking import Ending, Standing, Track, Tracks


@dataclass(frozen=True, slots=True)
class Bounds:
    """The size of a buffer and what it does when it is full."""

    items: int = 4096
    bytes: int = 16 * 1024 * 1024
    flow: Flow = "block"


class Depth(NamedTuple):
    """How full the lanes of a queue are."""

    items: int
    """Items that wait."""
    bytes: int
    """Bytes that wait."""
    dropped: int
    """Items that were thrown away since the queue's start."""


@dataclass(frozen=True, slots=True)
class Opening:
    """A lane as it is to be made."""

    lane: str
    root_run_id: str
    bounds: Bounds
    upstream: LaneAddress | None = None


@dataclass(slots=True)
class _Way:
    """What lanes whose items leave the queue by the same way share.

    Runs are tracked for each way: the items of one may come through a queue twice, on their way up through another one.
    """

    buffer: Buffer
    tracks: Tracks = field(default_factory=Tracks)


@dataclass(slots=True)
class _Lane:
    root_run_id: str
    way: _Way


class Lanes:
    """The state of a queue; no I/O. It belongs to one event loop."""

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self._lanes: dict[str, _Lane] = {}
        self._dropped_before = 0
        """Items thrown away by buffers that are gone."""
        self._holed: set[str] = set()
        """Trees that lost a queue."""

    def open(self, lane: str, root_run_id: str, bounds: Bounds, upstream: LaneAddress | None = None) -> Buffer | None:
        """Make a lane; does nothing if it exists.

        Args:
            lane: Its id.
            root_run_id: The tree it belongs to.
            bounds: The size of its buffer, if it needs one of its own.
            upstream: The lane its items go to; `None` if a reader takes them here.

        Returns:
            The buffer that has to be relayed to `upstream`, if the lane made one.
        """
        if lane in self._lanes:
            return None
        if upstream is not None and upstream.queue == self._queue:
            self._lanes[lane] = _Lane(root_run_id, self._way(upstream.lane))
            return None
        buffer = Buffer(bounds.items, bounds.bytes, bounds.flow)
        self._lanes[lane] = _Lane(root_run_id, _Way(buffer))
        return None if upstream is None else buffer

    def let_holes_pass(self, root_run_ids: Iterable[str]) -> None:
        """Take items behind a hole from now on: these trees lost a queue, and what it held comes no more.

        What other queues wrote for a run without knowing how far it had come is numbered anew.
        """
        self._holed.update(root_run_ids)

    def buffer(self, lane: str) -> Buffer:
        """Return the buffer behind a lane.

        Raises:
            InternalError: There is no such lane.
        """
        return self._way(lane).buffer

    def root_of(self, lane: str) -> str | None:
        """Return the tree a lane belongs to; `None` if there is no such lane any more."""
        found = self._lanes.get(lane)
        return None if found is None else found.root_run_id

    def push(self, lane: str, frames: Sequence[bytes]) -> PushReply:
        """Take frames from the front as far as there is room; duplicates count as taken."""
        if lane not in self._lanes:
            # The tree was dropped: its driver has seen the end and wants nothing more.
            return PushReply(len(frames), 0, 0, fenced=True)
        way = self._way(lane)
        buffer = way.buffer
        holed = self._lanes[lane].root_run_id in self._holed
        fenced = False
        for index, data in enumerate(frames):
            frame = Frame.from_bytes(data)
            track = way.tracks.of(frame.stamp)
            if track is None or track.sealed:
                fenced = True
                continue
            fresh = self._fresh_part(track, frame, holed=holed)
            if fresh is None:
                continue
            # A run whose first items went through another queue begins here in the middle; a hole in what came through here does not pass.
            in_order = fresh.first_seq == track.last_seq + 1 or track.last_seq < 0 or holed
            if not in_order or not buffer.offer(fresh):
                return buffer.credit(index)
            track.follow(fresh)
        return buffer.credit(len(frames))._replace(fenced=fenced)

    def close(self, stamp: Stamp, lane: str, ending: Ending, *, known_only: bool = False) -> None:
        """Finish a run that can't do it itself, and all below it, or discard an attempt that is followed by another; idempotent.

        Later pushes of what was closed are refused, also of runs below it that had said nothing yet. What is missing is written behind what
        the lanes already hold: the ends of descendants first, deepest before shallower, then the run's own.

        Args:
            stamp: The run and the attempt that is over.
            lane: Its parent's lane, or one further down through which items of its sub-tree come.
            ending: What to write.
            known_only: The lane is one further down: finish only the run that owns it and what is below that, as far as the lane has seen
                items of them. For the others another lane may still have some.
        """
        if lane not in self._lanes:
            return
        way = self._way(lane)
        # What is below a lost run is cancelled for it; its accounts are kept elsewhere.
        reason = ending.reason if ending.cancelled else f"run {stamp.run_id} was lost"
        below = Ending(cancelled=True, reason=reason, forced=True)
        way.tracks.refuse(ending.below)
        for track in way.tracks.below(lane if known_only else stamp.run_id):
            _finish(way.buffer, track, below)
        if known_only and lane != stamp.run_id:
            owner = way.tracks.get(lane)
            if owner is not None:
                _finish(way.buffer, owner, below)
            return
        known = way.tracks.get(stamp.run_id)
        if known is not None and known.stamp.attempt > stamp.attempt:
            return
        if known is not None and known.stamp.attempt == stamp.attempt:
            _finish(way.buffer, known, ending)
        elif not known_only and (new := way.tracks.of(stamp)) is not None:
            _finish(way.buffer, new, ending)

    def standing(self, stamp: Stamp, lane: str, *, seal: bool) -> Standing:
        """Return how far an attempt of a run has come through a lane.

        Args:
            stamp: The attempt.
            lane: The run's parent's lane, or its own.
            seal: From now on refuse what the attempt itself pushes here: it is about to be closed. What others push of it is taken.
        """
        known = self._lanes.get(lane)
        tracks = Tracks() if known is None else known.way.tracks
        holed = known is not None and known.root_run_id in self._holed
        track = tracks.of(stamp) if seal else tracks.get(stamp.run_id)
        if track is None or track.stamp.attempt != stamp.attempt:
            return Standing({}, frozenset(), certain=not holed)
        track.sealed = track.sealed or seal
        return track.standing._replace(certain=track.whole or not holed)

    def end_of(self, stamp: Stamp, lane: str) -> bytes | None:
        """Return the terminal item of a run's attempt, as a frame; `None` if it has not come through this lane."""
        track = self._lanes[lane].way.tracks.get(stamp.run_id) if lane in self._lanes else None
        return track.end if track is not None and track.stamp.attempt == stamp.attempt else None

    def set_flow(self, root_run_id: str, flow: Flow) -> None:
        """Change what the full buffers of a tree do."""
        for way in {id(lane.way): lane.way for lane in self._of(root_run_id)}.values():
            way.buffer.set_flow(flow)

    def drop(self, root_run_id: str) -> list[Buffer]:
        """Forget a tree; returns its buffers, whose waiters have to be woken."""
        buffers = [lane.way.buffer for lane in self._of(root_run_id)]
        self._dropped_before += sum(buffer.dropped_items for buffer in {id(each): each for each in buffers}.values())
        self._holed.discard(root_run_id)
        for name in [name for name, lane in self._lanes.items() if lane.root_run_id == root_run_id]:
            del self._lanes[name]
        for buffer in buffers:
            buffer.set_flow("void")
            buffer.data.notify()
        return buffers

    def depth(self) -> Depth:
        """Return how full the lanes are."""
        buffers = {id(lane.way): lane.way.buffer for lane in self._lanes.values()}.values()
        return Depth(
            sum(buffer.items for buffer in buffers),
            sum(buffer.bytes for buffer in buffers),
            self._dropped_before + sum(buffer.dropped_items for buffer in buffers),
        )

    def __len__(self) -> int:
        return len(self._lanes)

    def _of(self, root_run_id: str) -> list[_Lane]:
        return [lane for lane in self._lanes.values() if lane.root_run_id == root_run_id]

    def _way(self, lane: str) -> _Way:
        try:
            return self._lanes[lane].way
        except KeyError:
            raise InternalError(f"queue {self._queue} has no lane {lane}") from None

    def _fresh_part(self, track: Track, frame: Frame, *, holed: bool) -> Frame | None:
        if track.ended:
            return None
        if frame.last_seq <= track.last_seq:
            return frame.end_at(track.last_seq + 1) if holed else None
        return frame if frame.first_seq > track.last_seq else frame.after(track.last_seq)


def _finish(buffer: Buffer, track: Track, ending: Ending) -> None:
    if not track.ended and not track.fenced:
        frame = Frame.of_items(track.closing_items(ending))
        buffer.offer(frame)
        track.follow(frame)
    track.fenced = True
