"""A bounded FIFO of frames with one way out: a reader, or a relay to another queue."""

import time
from collections import deque
from dataclasses import dataclass

from ...messages.codec import Frame
from .lane_port import Flow, PushReply
from .signal import Signal

_WAKE_AT_LEAST = 8
_ITEMS_PER_WAITER = 32
"""Room goes to a few waiters at a time: waking a thousand for the room of ten costs a thousand calls."""


@dataclass(slots=True)
class _Slot:
    """A place in the lean part of a buffer, whose frame may grow."""

    frame: Frame


class Buffer:
    """Frames in order, bounded in items and in bytes, with the four ways to be full.

    Not thread-safe: it belongs to one event loop.
    """

    def __init__(self, max_items: int, max_bytes: int, flow: Flow = "block") -> None:
        self.max_items = max_items
        self.max_bytes = max_bytes
        self.flow: Flow = flow
        self.items = 0
        self.bytes = 0
        self.accepted = 0
        """Frames that ever came in."""
        self.left = 0
        """Frames that ever went out, dropped whole ones included."""
        self.dropped_items = 0
        self.data = Signal()
        """Notified when frames come in."""
        self.room = Signal()
        """Notified when frames go out or the flow changes."""
        self._lean: deque[_Slot] = deque()
        """The front, where it was thinned: frames without deltas."""
        self._gaps: dict[str, _Slot] = {}
        """The newest lean slot of each run, if it is a gap that a later gap can join."""
        self._frames: deque[Frame] = deque()
        """What follows."""

    def __len__(self) -> int:
        return len(self._lean) + len(self._frames)

    def credit(self, accepted: int = 0) -> PushReply:
        """Return the room that is left."""
        if self.flow != "block":
            return PushReply(accepted, self.max_items, self.max_bytes)
        return PushReply(accepted, max(0, self.max_items - self.items), max(0, self.max_bytes - self.bytes))

    def offer(self, frame: Frame) -> bool:
        """Take a frame, or refuse it because it has deltas for which there is no room.

        Frames without deltas are always taken: lifecycle, message, usage and terminal items are never lost, and how many there can be
        is bounded by the runs' own limits.
        """
        if self.flow == "void":
            self._count()
            self.left += 1
            return True
        if not self._fits(frame):
            if self.flow == "block" and frame.deltas:
                return False
            if self.flow == "collapse":
                frame = self._thin(frame)
        self._append(frame)
        if self.flow == "drop_oldest" and not self._within():
            self._shed()
        return True

    def take(self, max_items: int, max_bytes: int) -> list[Frame]:
        """Remove and return the oldest frames: at least one if there is any."""
        taken: list[Frame] = []
        items = size = 0
        while self._lean or self._frames:
            frame = self._lean[0].frame if self._lean else self._frames[0]
            if taken and (items + frame.count > max_items or size + len(frame.body) > max_bytes):
                break
            self._pop_front()
            taken.append(frame)
            items += frame.count
            size += len(frame.body)
        self.items -= items
        self.bytes -= size
        self.left += len(taken)
        if taken:
            self.room.notify(max(_WAKE_AT_LEAST, items // _ITEMS_PER_WAITER))
        return taken

    def give_back(self, frames: list[Frame]) -> None:
        """Put frames back to the front in their order: the way out did not take them."""
        for frame in reversed(frames):
            if frame.deltas:
                self._frames.extendleft(slot.frame for slot in reversed(self._lean))
                self._lean.clear()
                self._gaps.clear()
                self._frames.appendleft(frame)
            else:
                self._lean.appendleft(_Slot(frame))
            self.items += frame.count
            self.bytes += len(frame.body)
        self.left -= len(frames)

    def set_flow(self, flow: Flow) -> None:
        """Change what a full buffer does; deltas that wait are thinned out or thrown away accordingly."""
        self.flow = flow
        if flow == "void":
            self.left += len(self)
            self._lean.clear()
            self._gaps.clear()
            self._frames.clear()
            self.items = self.bytes = 0
        elif flow == "collapse" and len(self.room):
            # Somebody waits behind this buffer, so it is full: the deltas it holds stand in the way of the end.
            while self._frames:
                self._thin_front()
        self.room.notify()

    def _fits(self, frame: Frame) -> bool:
        return self.items + frame.count <= self.max_items and (
            self.bytes + len(frame.body) <= self.max_bytes or not len(self)
        )

    def _within(self) -> bool:
        return self.items <= self.max_items and self.bytes <= self.max_bytes

    def _append(self, frame: Frame) -> None:
        self._count()
        self._frames.append(frame)
        self.items += frame.count
        self.bytes += len(frame.body)

    def _count(self) -> None:
        self.accepted += 1
        self.data.notify()

    def _thin(self, frame: Frame) -> Frame:
        self.dropped_items += frame.deltas
        return frame.without_deltas(time.time())

    def _pop_front(self) -> None:
        if not self._lean:
            self._frames.popleft()
            return
        slot = self._lean.popleft()
        run_id = slot.frame.stamp.run_id
        if self._gaps.get(run_id) is slot:
            del self._gaps[run_id]

    def _shed(self) -> None:
        """Thin the oldest frames until the rest fits."""
        while self._frames and not self._within():
            self._thin_front()

    def _thin_front(self) -> None:
        """Move the oldest frame that may have deltas to the lean part.

        A gap joins the one its run already has there, if nothing else of the run stands between: other runs' items may, their order
        against a gap of this run means nothing.
        """
        frame = self._frames.popleft()
        thin = self._thin(frame)
        self.items += thin.count - frame.count
        self.bytes += len(thin.body) - len(frame.body)
        run_id = thin.stamp.run_id
        slot = self._gaps.get(run_id)
        if thin.is_gap and slot is not None and slot.frame.last_seq + 1 == thin.first_seq:
            joined = slot.frame.joined_gap(thin, time.time())
            self.items -= 1
            self.bytes += len(joined.body) - len(slot.frame.body) - len(thin.body)
            self.left += 1
            slot.frame = joined
            return
        slot = _Slot(thin)
        self._lean.append(slot)
        if thin.is_gap:
            self._gaps[run_id] = slot
        else:
            self._gaps.pop(run_id, None)
