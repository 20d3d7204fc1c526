"""The last step of the stream: frames become items, each number once, every gap marked."""

import time
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from ...messages.codec import Frame
from ...messages.items import ItemsDropped, Stamp, StreamItem


class FrameReader:
    """Decodes the frames of one tree in order."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], int] = {}

    def last_of(self, run_id: str) -> tuple[int, int]:
        """Return the newest attempt that was read of a run, and the number of its last item; before its first item that is -1."""
        return max(((attempt, seq) for (run, attempt), seq in self._last.items() if run == run_id), default=(1, -1))

    def read(self, frames: Sequence[bytes], large: Mapping[str, bytes] = MappingProxyType({})) -> Iterator[StreamItem]:
        """Yield the items; repeated ones are left out and missing ones stand as `items_dropped`.

        Args:
            frames: As they came from the lane.
            large: The lines that the frames refer to, by reference.
        """
        for data in frames:
            frame = Frame.from_bytes(data)
            key = (frame.stamp.run_id, frame.stamp.attempt)
            last = self._last.get(key, -1)
            if frame.last_seq <= last:
                continue
            if frame.first_seq <= last:
                frame = frame.after(last)
            elif frame.first_seq > last + 1:
                yield _gap(frame.stamp, last + 1, frame.first_seq - 1)
            self._last[key] = frame.last_seq
            yield from frame.items(large)


def _gap(stamp: Stamp, first: int, last: int) -> ItemsDropped:
    return ItemsDropped(
        **dict(stamp), seq=last, time=time.time(), count=last - first + 1, first_seq=first, last_seq=last
    )
