"""The run's parallel slot: given back while every call of the run waits for sub-agents, taken again before the run goes on.

Without that, a chain of runs that is longer than there are slots would never end.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...messages.reservations import SlotRequest

if TYPE_CHECKING:
    from .state import RunState


class Slot:
    """The slot of one run; without effect where `max_parallel` bounds nothing."""

    def __init__(self, state: "RunState") -> None:
        self._state = state
        self._host = state.host
        self._bounded = state.host.limits.max_parallel is not None
        self._at_work = 0
        self._waiting = 0
        self._held = True
        self._wanted = True
        self._changed = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    @contextmanager
    def call(self) -> Generator[None]:
        """Count a call while it is at work; while there are calls, the run itself only waits for them."""
        self._at_work += 1
        try:
            yield
        finally:
            self._at_work -= 1
            self._look()

    def begin_wait(self) -> None:
        """Note that a call waits for sub-agents."""
        self._waiting += 1
        self._look()

    def end_wait(self) -> None:
        """Note that it does not any more; it goes on once `take` has returned."""
        self._waiting -= 1

    async def take(self) -> None:
        """Return when the run may go on."""
        if not self._bounded or (self._held and self._wanted):
            return
        self._wanted = True
        self._notify()
        try:
            while self._state.stop is None and not (self._held and self._wanted):
                changed = self._changed
                await changed.wait()
        except BaseException:
            self._look()
            raise

    def wake(self) -> None:
        """Let everything go on that waits for the slot: the run has to end."""
        if self._bounded:
            self._notify()

    def close(self) -> None:
        """Stop asking: the run is over, and its slot free."""
        self._bounded = False
        if self._keeper is not None:
            self._keeper.cancel()

    def _look(self) -> None:
        """Give the slot back if nothing is done with it."""
        if self._bounded and 0 < self._at_work == self._waiting and self._wanted:
            self._wanted = False
            self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
        if self._keeper is None or self._keeper.done():
            self._keeper = self._state.in_background(self._keep)

    async def _keep(self) -> None:
        """Tell the supervisor what is wanted until that is how it is."""
        while self._held != self._wanted:
            if self._wanted:
                await self._acquire()
            else:
                await self._ask(waiting=True)
                self._held = False

    async def _acquire(self) -> None:
        asking = asyncio.ensure_future(self._ask(waiting=False))
        try:
            while not asking.done() and self._wanted:
                changed = asyncio.ensure_future(self._changed.wait())
                await asyncio.wait((asking, changed), return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
        finally:
            asking.cancel()
        # Also where it is not wanted any more: what is asked for later has a higher number, and that counts.
        self._held = True
        self._changed.set()
        self._changed = asyncio.Event()

    async def _ask(self, *, waiting: bool) -> None:
        stamp, number = self._host.stamp, self._host.next_number()
        request = SlotRequest(run_id=stamp.run_id, attempt=stamp.attempt, number=number, waiting=waiting)
        try:
            await self._state.waits.grant(number, lambda: self._host.slot(request), "to go on")
        except Exception:  # noqa: BLE001  # without a supervisor nobody counts; what the run does next asks it again
            return
