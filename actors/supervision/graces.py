"""When the graces of cancelled runs end, soonest first, so that ten thousand of them cost no more to look at than one."""

import heapq

from .lending import NEVER
from .records import Run


class Graces:
    """The flagged runs that are live. One is watched anew whenever the end of its grace moves; what was noted before is passed over."""

    def __init__(self) -> None:
        self._ends: list[tuple[float, int, Run]] = []
        self._times: dict[int, float] = {}
        """What holds of the entries, by the runs' ordinals."""

    def __len__(self) -> int:
        return len(self._times)

    def watch(self, run: Run) -> None:
        """Note when the grace of a run ends; it may not have begun yet. One that is condemned has none any more."""
        if run.forced:
            return
        time = kill_time(run)
        self._times[run.ordinal] = time
        if time != NEVER:
            heapq.heappush(self._ends, (time, run.ordinal, run))
            self._tidy()

    def forget(self, run: Run) -> None:
        """Forget a run that has ended."""
        if self._times.pop(run.ordinal, None) is not None:
            self._tidy()

    def due(self, now: float) -> list[Run]:
        """Return the runs whose grace is over, and forget them."""
        runs: list[Run] = []
        while self.next_time() <= now:
            run = heapq.heappop(self._ends)[2]
            del self._times[run.ordinal]
            runs.append(run)
        return runs

    def next_time(self) -> float:
        """Return when the next grace ends; infinity if none does."""
        while self._ends:
            time, ordinal, run = self._ends[0]
            if self._times.get(ordinal) == time and not run.forced:
                return time
            heapq.heappop(self._ends)
        return NEVER

    def _tidy(self) -> None:
        """Let go of what holds no more, once it is more than what does."""
        if len(self._ends) > 2 * len(self._times) + 16 or not self._times:
            self._ends = [entry for entry in self._ends if self._times.get(entry[1]) == entry[0]]
            heapq.heapify(self._ends)


def kill_time(run: Run) -> float:
    """Return when the grace of a flagged run ends: it begins when all below it have ended, so kills go bottom-up."""
    if run.flag is None or run.live_below:
        return NEVER
    return run.flag.since + run.flag.grace
