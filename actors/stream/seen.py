"""What a reader has seen of the runs of its tree: enough to notice what is missing."""

from dataclasses import dataclass, field

from pydantic_core import from_json

from ...messages.codec import Frame
from ...messages.items import TERMINAL_KINDS, Stamp


@dataclass(slots=True)
class SeenRun:
    """One attempt of a run."""

    stamp: Stamp
    last_seq: int = -1
    ended: bool = False
    discarded: bool = False
    """Another attempt follows."""
    open_calls: dict[str, str] = field(default_factory=dict[str, str])
    """Names of the tools whose calls have started, and neither completed nor had a chance to in a gap, by call id."""

    def follow(self, frame: Frame) -> None:
        """Take note of a frame that is passed on."""
        if frame.first_seq > self.last_seq + 1:
            self.open_calls.clear()
        self.last_seq = frame.last_seq
        for mark in frame.marks:
            if mark.kind == "tool_call_started" and mark.call_id is not None:
                self.open_calls[mark.call_id] = mark.tool_name or ""
            elif mark.kind == "tool_call_completed" and mark.call_id is not None:
                self.open_calls.pop(mark.call_id, None)
            elif mark.kind == "attempt_discarded" and from_json(frame.line(mark.index))["scope"] == "run":
                self.discarded = True
            elif mark.kind in TERMINAL_KINDS:
                self.ended = True


class SeenRuns:
    """The runs of a tree."""

    def __init__(self) -> None:
        self._attempts: dict[tuple[str, int], SeenRun] = {}
        self._newest: dict[str, SeenRun] = {}
        self._below: dict[str, list[str]] = {}

    def get(self, run_id: str) -> SeenRun | None:
        """Return the newest attempt that was seen of a run."""
        return self._newest.get(run_id)

    def below(self, run_id: str) -> list[str]:
        """Return the children that were seen of a run."""
        return self._below.get(run_id, [])

    def of(self, stamp: Stamp) -> SeenRun:
        """Return what was seen of an attempt; it counts as seen from now on."""
        run = self._attempts.get((stamp.run_id, stamp.attempt))
        if run is None:
            run = self._attempts[stamp.run_id, stamp.attempt] = SeenRun(stamp)
            newest = self._newest.get(stamp.run_id)
            if newest is None and stamp.parent_run_id is not None:
                self._below.setdefault(stamp.parent_run_id, []).append(stamp.run_id)
            if newest is None or newest.stamp.attempt < stamp.attempt:
                self._newest[stamp.run_id] = run
        return run

    def is_over(self, stamp: Stamp) -> bool:
        """Return whether nothing of an attempt may follow any more: it, its run or the run above has ended, or there is a newer attempt."""
        own = self._newest.get(stamp.run_id)
        if own is not None and (own.ended or own.stamp.attempt > stamp.attempt):
            return True
        if own is not None and own.discarded and own.stamp.attempt == stamp.attempt:
            return True
        above = None if stamp.parent_run_id is None else self._newest.get(stamp.parent_run_id)
        return above is not None and above.ended
