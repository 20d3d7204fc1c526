"""The last step of the stream: frames become items, each number once, every gap marked."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from ...messages.codec import Frame
from ...messages.items import StreamItem
from ...messages.result import RunRecord
from .mending import Mender, lost_gap
from .seen import SeenRuns


class FrameReader:
    """Decodes the frames of one tree in order."""

    def __init__(self) -> None:
        self._seen = SeenRuns()

    def attempt_of(self, run_id: str) -> int:
        """Return the newest attempt that was read of a run."""
        run = self._seen.get(run_id)
        return 1 if run is None else run.stamp.attempt

    def read(
        self,
        frames: Sequence[bytes],
        large: Mapping[str, bytes] = MappingProxyType({}),
        ledger: Mapping[str, RunRecord] | None = None,
    ) -> Iterator[StreamItem]:
        """Yield the items; repeated ones are left out and missing ones stand as `items_dropped`.

        Args:
            frames: As they came from the lane.
            large: The lines that the frames refer to, by reference.
            ledger: The records of the tree, if it has lost a queue: then missing ends are written by them.
        """
        mender = None if ledger is None else Mender(self._seen, ledger)
        for data in frames:
            frame = Frame.from_bytes(data)
            if mender is not None and self._seen.is_over(frame.stamp):
                # A queue that was lost took with it the memory of what it had closed.
                continue
            if mender is not None:
                yield from mender.before(frame.stamp)
            run = self._seen.of(frame.stamp)
            if frame.last_seq <= run.last_seq:
                # Number of an end that somebody wrote without knowing how far the run had come; the gap before it says so.
                end = None if mender is None else frame.end_at(run.last_seq + 2)
                if end is None:
                    continue
                frame = end
            elif frame.first_seq <= run.last_seq:
                frame = frame.after(run.last_seq)
            if frame.first_seq > run.last_seq + 1:
                yield lost_gap(frame.stamp, run.last_seq + 1, frame.first_seq - 1)
            run.follow(frame)
            items = frame.items(large)
            yield from items if mender is None else mender.mended(run, items)
