"""A bounded FIFO of frames with one way out: a reader, or a relay to another queue."""

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from typing import Final

from ...messages.codec import Frame
from .lane_port import Flow, PushReply
from .signal import Signal

_WAKE_AT_LEAST: Final = 8
_ITEMS_PER_WAITER: Final = 32
"""Room goes to a few waiters at a time: waking a thousand for the room of ten costs a thousand calls."""

_WAKE_ON: Final = 2
"""Waiters that are woken when a push left room: those that were woken before had less to say than there was room for."""

_PATIENCE: Final = 0.05
"""Seconds for waiters that were woken to push something, before others are: the caller of a waiting call may be dead, and nobody can tell."""

_HEADER_BYTES: Final = 200
"""What a frame takes of a call beside its body."""


@dataclass(slots=True)
class Slot:
    """A frame in its place; thinning may shrink it, or grow it by a gap that comes later."""

    number: int
    """Counts the frames of a buffer; a gap that was joined has the number of its first part."""
    frame: Frame


class Buffer:
    """Frames in order, bounded in items and in bytes, with the four ways to be full.

    A single item always fits as long as there is any room, so that one beyond every bound gets through. Not thread-safe: it belongs to one event
    loop.
    """

    def __init__(self, max_items: int, max_bytes: int, flow: Flow = "block") -> None:
        self.max_items = max_items
        self.max_bytes = max_bytes
        self.flow: Flow = flow
        self.items = 0
        self.bytes = 0
        self.accepted = 0
        """Frames that ever came in: the number of the newest."""
        self.dropped_items = 0
        self.data = Signal()
        """Notified when frames come in."""
        self.room = Signal()
        """Notified when frames go out or the flow changes."""
        self.moved = Signal()
        """Notified when frames were thrown away, and by a relay when it delivered some."""
        self._lean: deque[Slot] = deque()
        """The front, where it was thinned: frames without deltas."""
        self._gaps: dict[str, Slot] = {}
        """The newest lean slot of each run, if it is a gap that a later gap can join."""
        self._slots: deque[Slot] = deque()
        """What follows."""

    def __len__(self) -> int:
        return len(self._lean) + len(self._slots)

    @property
    def oldest(self) -> int:
        """Number of the frame at the front; without one, of the next that comes in."""
        if self._lean:
            return self._lean[0].number
        return self._slots[0].number if self._slots else self.accepted + 1

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
        if self.flow == "block" and frame.deltas and not self._fits(frame):
            return False
        self.accepted += 1
        if self.flow != "void":
            self._slots.append(Slot(self.accepted, frame))
            self._count(frame, 1)
            if self.flow == "block":
                self._wake_on()
            else:
                self._shed()
        self.data.notify()
        return True

    def take(self, max_items: int, max_bytes: int) -> list[Frame]:
        """Remove and return the oldest frames within the bounds; at least one item if there is any."""
        return [slot.frame for slot in self.take_slots(max_items, max_bytes)]

    def take_slots(self, max_items: int, max_bytes: int) -> list[Slot]:
        """Like `take`, for somebody who may have to give frames back."""
        taken: list[Slot] = []
        items = size = 0
        while self._lean or self._slots:
            slot = self._lean[0] if self._lean else self._slots[0]
            frame = slot.frame
            if items + frame.count > max_items or size + len(frame.body) > max_bytes:
                if taken:
                    break
                slot = self._cut_front(max_items, max_bytes)
                frame = slot.frame
            else:
                self._pop_front()
            taken.append(slot)
            items += frame.count
            size += len(frame.body) + _HEADER_BYTES
            self._count(frame, -1)
        if taken:
            self.room.notify(max(_WAKE_AT_LEAST, items // _ITEMS_PER_WAITER))
        return taken

    def give_back(self, slots: list[Slot]) -> None:
        """Put frames back to the front in their order: the way out did not take them."""
        if self.flow == "void":
            self.moved.notify()
            return
        for slot in reversed(slots):
            if slot.frame.deltas:
                self._slots.extendleft(reversed(self._lean))
                self._lean.clear()
                self._gaps.clear()
                self._slots.appendleft(slot)
            else:
                self._lean.appendleft(slot)
            self._count(slot.frame, 1)

    def thin(self) -> None:
        """Drop the deltas it holds; gaps stand in their places."""
        while self._slots:
            self._thin_front()

    def set_flow(self, flow: Flow) -> None:
        """Change what a full buffer does; deltas that wait are thinned out or thrown away accordingly."""
        self.flow = flow
        if flow == "void":
            self._lean.clear()
            self._gaps.clear()
            self._slots.clear()
            self.items = self.bytes = 0
            self.moved.notify()
        elif flow == "collapse" and len(self.room):
            # Somebody waits behind this buffer, so it is full: the deltas it holds stand in the way of the end.
            self.thin()
        self.room.notify()

    async def wait_for_data(self, timeout: float) -> None:
        """Return when frames come in, or when the time ran out."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        wake = _WAKE_AT_LEAST
        while not len(self) and (left := deadline - loop.time()) > 0:
            if await self.data.wait(min(left, _PATIENCE) if len(self.room) else left):
                return
            self.room.notify(wake)
            wake *= 2

    def _fits(self, frame: Frame) -> bool:
        if frame.count == 1:
            return self._has_room()
        return self.items + frame.count <= self.max_items and self.bytes + len(frame.body) <= self.max_bytes

    def _has_room(self) -> bool:
        return self.items < self.max_items and self.bytes < self.max_bytes

    def _count(self, frame: Frame, sign: int) -> None:
        self.items += sign * frame.count
        self.bytes += sign * len(frame.body)

    def _wake_on(self) -> None:
        if len(self.room) and self._has_room():
            self.room.notify(_WAKE_ON)

    def _pop_front(self) -> None:
        if not self._lean:
            self._slots.popleft()
            return
        slot = self._lean.popleft()
        run_id = slot.frame.stamp.run_id
        if self._gaps.get(run_id) is slot:
            del self._gaps[run_id]

    def _cut_front(self, max_items: int, max_bytes: int) -> Slot:
        """Take the front of the front frame."""
        slot = self._lean[0] if self._lean else self._slots[0]
        head, tail = slot.frame.cut(max_items, max_bytes)
        number = slot.number
        if tail is None:
            self._pop_front()
            return slot
        self.bytes -= len(slot.frame.body) - len(head.body) - len(tail.body)
        slot.frame = tail
        return Slot(number, head)

    def _shed(self) -> None:
        """Thin the oldest frames until the rest fits."""
        while self._slots and (self.items > self.max_items or self.bytes > self.max_bytes):
            self._thin_front()

    def _thin_front(self) -> None:
        """Move the oldest frame that may have deltas to the lean part.

        A gap joins the one its run already has there, if nothing else of the run stands between: other runs' items may, their order
        against a gap of this run means nothing.
        """
        slot = self._slots.popleft()
        self._count(slot.frame, -1)
        self.dropped_items += slot.frame.deltas
        thin = slot.frame.without_deltas(time.time())
        run_id = thin.stamp.run_id
        before = self._gaps.get(run_id)
        if thin.is_gap and before is not None and _adjoin(before.frame, thin):
            self._count(before.frame, -1)
            before.frame = before.frame.joined_gap(thin, time.time())
            self._count(before.frame, 1)
            return
        slot.frame = thin
        self._count(thin, 1)
        self._lean.append(slot)
        if thin.is_gap:
            self._gaps[run_id] = slot
        else:
            self._gaps.pop(run_id, None)


def _adjoin(gap: Frame, later: Frame) -> bool:
    return gap.stamp.attempt == later.stamp.attempt and gap.last_seq + 1 == later.first_seq
