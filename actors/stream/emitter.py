"""Where the items of a run come from: stamped, numbered, and pushed in natural batches.

While one push is in flight the next batch gathers; when none is, an item leaves at once. No timer is involved: an idle stream has no delay and a
busy one grows its batches by itself.
"""

import asyncio
import time
from bisect import bisect_right
from collections import deque
from typing import Any, Final, NamedTuple

from pydantic_core import to_json

from ...messages.codec import MAX_LINE_BYTES, Frame, Mark, encode_item, reference_line
from ...messages.errors import InternalError, RuntreeError
from ...messages.items import Item, Stamp
from .lane_port import EmitterPort, PushReply

MAX_FRAME_BYTES: Final = 64_000
"""Ray sends arguments below 100 KB inside the call; larger ones take a detour over the object store. The header comes on top: a mark takes less
than half of its line."""

_FIRST_CREDIT: Final = PushReply(0, 64, MAX_FRAME_BYTES)
"""What may be pushed before a lane has told its room."""


class _Switch(NamedTuple):
    """Where the items from a number on go."""

    seq: int
    port: EmitterPort
    lane: str


class Emitter:
    """The items of one attempt of a run, on their way to a lane. It belongs to the run's event loop."""

    def __init__(
        self, stamp: Stamp, port: EmitterPort, lane: str, *, high_items: int = 1024, high_bytes: int = 512 * 1024
    ) -> None:
        """Make an emitter.

        Args:
            stamp: Lineage of the run.
            port: The queue of the lane.
            lane: The parent's lane, until `switch` leads elsewhere.
            high_items: Items that may gather before `ready` waits.
            high_bytes: Bytes that may gather before `ready` waits.
        """
        self.stamp = stamp
        self.next_seq = 0
        self.error: RuntreeError | None = None
        """Why the lane can't be reached any more."""
        self._port, self._lane = port, lane
        self._high_items, self._high_bytes = high_items, high_bytes
        self._lines: list[bytes] = []
        self._marks: list[tuple[int, Mark]] = []
        self._first_seq = 0
        self._bytes = 0
        self._large: deque[int] = deque()
        """Numbers of lines that are too large for a buffer."""
        self._thinning = False
        self._refused = False
        self._fenced = False
        self._closed = False
        self._credit = _FIRST_CREDIT
        self._switch: _Switch | None = None
        self._pushing: asyncio.Task[None] | None = None
        self._waiting: asyncio.Task[PushReply] | None = None
        self._moved = asyncio.Event()
        self._common = dict(stamp)

    def emit(self, item_type: type[Item], **fields: Any) -> None:
        """Queue an item that is not a delta. Never waits."""
        seq = self.next_seq
        item = item_type(**self._common, seq=seq, time=time.time(), **fields)
        line, mark = encode_item(item)
        self._queue(line, mark)

    def emit_delta(self, kind: str, **fields: Any) -> None:
        """Queue a delta: the hot path of every token. Never waits; follow a burst by `ready`."""
        fields["kind"] = kind
        fields["seq"] = self.next_seq
        fields["time"] = time.time()
        self._queue(to_json(fields))

    async def ready(self) -> None:
        """Return when there is room for more; at once unless the lane is full and has been for a while."""
        while not self._has_room():
            self._moved.clear()
            await self._moved.wait()

    async def flush(self) -> None:
        """Return when the lane has accepted everything that was emitted before the call."""
        await self._accepted(self.next_seq)

    @property
    def is_heard(self) -> bool:
        """Whether the lane still takes what is emitted: it can be reached, and the attempt is not over."""
        return not self._stopped()

    async def switch(self, port: EmitterPort, lane: str) -> None:
        """Go through another lane from now on; what was emitted before is accepted by the old one first."""
        self._switch = _Switch(self.next_seq, port, lane)
        self._follow_switch()
        await self._accepted(self.next_seq)

    def thin(self) -> None:
        """Stop waiting for room: deltas that the lane has no room for are dropped from now on, and marked."""
        self._thinning = True
        if self._waiting is not None:
            self._waiting.cancel()
        self._moved.set()

    async def aclose(self) -> None:
        """Give up what is not accepted yet and end the push task."""
        self._closed = True
        self._drop_all()
        if self._pushing is not None:
            self._pushing.cancel()
            await asyncio.wait({self._pushing})

    def _queue(self, line: bytes, mark: Mark | None = None) -> None:
        seq = self.next_seq
        self.next_seq += 1
        if self._stopped():
            return
        if mark is not None:
            self._marks.append((seq, mark))
        self._lines.append(line)
        self._bytes += len(line)
        if len(line) > MAX_LINE_BYTES:
            self._large.append(seq)
        if self._pushing is None:
            self._pushing = asyncio.get_running_loop().create_task(self._push_all())

    def _stopped(self) -> bool:
        return self._fenced or self._closed or self.error is not None

    def _has_room(self) -> bool:
        return (
            (len(self._lines) < self._high_items and self._bytes < self._high_bytes)
            or self._thinning
            or self._stopped()
        )

    async def _accepted(self, seq: int) -> None:
        """Return when everything below a number was accepted, or nothing more will be."""
        while self._first_seq < seq and not self._stopped():
            self._moved.clear()
            await self._moved.wait()

    async def _push_all(self) -> None:
        try:
            while self._lines and not self._stopped():
                if self._large:
                    await self._put_aside()
                else:
                    await self._push_some()
        except RuntreeError as error:
            self.error = error
        except Exception as error:  # noqa: BLE001 - whoever waits for the lane must be told, whatever it was
            self.error = InternalError(f"a push to lane {self._lane} raised {type(error).__name__}: {error}")
        finally:
            self._pushing = None
            if self._stopped():
                self._drop_all()
            self._moved.set()

    async def _put_aside(self) -> None:
        """Put the oldest large line where the lane's queue keeps such, and a reference in its place."""
        seq = self._large[0]
        line = self._lines[seq - self._first_seq]
        reference = await self._port.store(self._lane, f"{self.stamp.run_id}:{self.stamp.attempt}:{seq}", line)
        if not self._stopped():
            self._large.popleft()
            short = self._lines[seq - self._first_seq] = reference_line(line, reference)
            self._bytes += len(short) - len(line)

    async def _push_some(self) -> None:
        full = self._refused or self._credit.items <= 0 or self._credit.bytes <= 0
        if self._thinning and full:
            frame = self._front(len(self._lines), MAX_FRAME_BYTES).without_deltas(time.time())
        else:
            frame = self._front(self._credit.items, min(MAX_FRAME_BYTES, self._credit.bytes))
        reply = await self._port.push(self._lane, [frame.to_bytes()])
        self._credit = reply
        self._fenced = self._fenced or reply.fenced
        self._refused = not reply.accepted
        if reply.accepted:
            self._forget(frame.last_seq)
        elif not self._thinning:
            self._credit = await self._wait_for_credit()

    def _front(self, max_items: int, max_bytes: int) -> Frame:
        """Return as many of the oldest lines as the bounds and a pending switch allow; at least one."""
        if self._switch is not None:
            max_items = min(max_items, self._switch.seq - self._first_seq)
        count = 0
        while count < len(self._lines) and count < max(1, max_items):
            max_bytes -= len(self._lines[count]) + 1
            if count and max_bytes < 0:
                break
            count += 1
        last = self._first_seq + count - 1
        marks = [
            Mark(seq - self._first_seq, mark.kind, mark.call_id, mark.first_seq, mark.tool_name)
            for seq, mark in self._marks[: self._marked(last)]
        ]
        return Frame.of(self.stamp, self._first_seq, last, self._lines[:count], marks)

    def _forget(self, last_seq: int) -> None:
        if self._closed:
            return
        count = last_seq - self._first_seq + 1
        self._bytes -= sum(map(len, self._lines[:count]))
        del self._lines[:count]
        del self._marks[: self._marked(last_seq)]
        self._first_seq = last_seq + 1
        self._follow_switch()
        self._moved.set()

    def _marked(self, last_seq: int) -> int:
        """Return how many marks there are up to a number."""
        return bisect_right(self._marks, last_seq, key=lambda entry: entry[0])

    def _follow_switch(self) -> None:
        switch = self._switch
        if switch is not None and self._first_seq >= switch.seq:
            self._port, self._lane, self._credit = switch.port, switch.lane, _FIRST_CREDIT
            self._refused, self._switch = False, None

    def _drop_all(self) -> None:
        self._lines.clear()
        self._large.clear()
        self._marks.clear()
        self._bytes = 0
        self._moved.set()

    async def _wait_for_credit(self) -> PushReply:
        self._waiting = asyncio.ensure_future(self._port.wait_for_credit(self._lane, self.stamp.run_id))
        try:
            return await self._waiting
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._thinning and (task is None or not task.cancelling()):
                return self._credit
            raise
        finally:
            self._waiting = None
