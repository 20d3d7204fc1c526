"""The long-polls of all processes: opened on the loop of their concurrency group, answered from the home loop of the supervisor's state.

Ten thousand of them are answered at once when a large tree is cancelled, so the two loops hand them over in lists: a hop for each would take longer
than all the rest. What waits is on either loop only a future.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ..messages.control import PollReply
from ..messages.errors import RuntreeError, StoreError

_STOPPING: Final = frozenset({"cancel", "kill"})


@dataclass(slots=True, eq=False)
class _Poll:
    process: str
    seen: int
    loop: asyncio.AbstractEventLoop
    """Where it waits."""
    answer: asyncio.Future[str] = field(init=False)

    def __post_init__(self) -> None:
        self.answer = self.loop.create_future()


class Polls:
    """The polls that wait. All but `wait` belongs to the home loop."""

    def __init__(
        self,
        collect: Callable[[str, int], PollReply],
        committed: Callable[[], Awaitable[None]],
        heard: Callable[[str], None],
    ) -> None:
        """Make it on the home loop.

        Args:
            collect: Returns what a process has to be told, given what it has seen.
            committed: Waits until all that was decided so far is in the store; raises if it can't be.
            heard: Called with the name of a process that polls.
        """
        self._home = asyncio.get_running_loop()
        self._collect = collect
        self._committed = committed
        self._heard = heard
        self._arriving: deque[_Poll] = deque()
        self._expected = False
        """The home loop will look at what arrives."""
        self._waiting: dict[str, _Poll] = {}
        self._woken: dict[str, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __contains__(self, process: str) -> bool:
        return process in self._waiting

    async def wait(self, process: str, seen: int, seconds: float) -> str:
        """Return what there is to tell a process, as JSON; empty when nothing comes in time. A newer poll of a process ends its older one.

        Args:
            process: The process.
            seen: Version of the last answer it has seen.
            seconds: How long to wait.
        """
        poll = _Poll(process, seen, asyncio.get_running_loop())
        self._arriving.append(poll)
        if not self._expected:
            # The home loop says that it expects nothing more before it looks: a poll that comes in between is seen now or calls again.
            self._expected = True
            self._home.call_soon_threadsafe(self._take_in)
        try:
            async with asyncio.timeout(seconds):
                return await poll.answer
        except TimeoutError:
            return PollReply(version=seen).to_json()
        finally:
            if poll.answer.cancelled():
                self._home.call_soon_threadsafe(self._forget, poll)

    def wake(self, process: str) -> None:
        """Answer the poll of a process: it has orders."""
        if process in self._waiting:
            if not self._woken:
                # Not at once: whoever has orders for one process has orders for others.
                self._home.call_soon(self._answer_woken)
            self._woken[process] = None

    def nudge(self, process: str) -> None:
        """Answer the poll of a process empty: if it lives, it asks again."""
        poll = self._waiting.pop(process, None)
        if poll is not None:
            _tell([(poll, PollReply(version=poll.seen).to_json())])

    def _take_in(self) -> None:
        self._expected = False
        superseded: list[tuple[_Poll, str]] = []
        ready: list[tuple[_Poll, PollReply]] = []
        while self._arriving:
            poll = self._arriving.popleft()
            self._heard(poll.process)
            older = self._waiting.get(poll.process)
            if older is not None:
                superseded.append((older, PollReply(version=older.seen, superseded=True).to_json()))
            self._waiting[poll.process] = poll
            reply = self._collect(poll.process, poll.seen)
            if reply.orders:
                ready.append((poll, reply))
        _tell(superseded)
        self._answer(ready)

    def _answer_woken(self) -> None:
        polls = [self._waiting[process] for process in self._woken if process in self._waiting]
        self._woken.clear()
        replies = ((poll, self._collect(poll.process, poll.seen)) for poll in polls)
        self._answer([(poll, reply) for poll, reply in replies if reply.orders])

    def _answer(self, ready: list[tuple[_Poll, PollReply]]) -> None:
        if ready:
            task = self._home.create_task(self._tell_committed(ready))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _tell_committed(self, ready: list[tuple[_Poll, PollReply]]) -> None:
        error: RuntreeError | None = None
        try:
            await self._committed()
        except StoreError as problem:
            error = problem
        answers: list[tuple[_Poll, str | RuntreeError]] = []
        for poll, reply in ready:
            # One that a newer poll ended meanwhile was told so.
            if self._waiting.get(poll.process) is poll:
                del self._waiting[poll.process]
                answers.append((poll, reply.to_json() if error is None or _is_urgent(reply) else error))
        _tell(answers)

    def _forget(self, poll: _Poll) -> None:
        if self._waiting.get(poll.process) is poll:
            del self._waiting[poll.process]


def _is_urgent(reply: PollReply) -> bool:
    """Whether a reply does not wait for a disk that fails: a full one keeps nobody from being stopped."""
    return all(order.kind in _STOPPING for order in reply.orders)


def _tell(answers: Sequence[tuple[_Poll, str | RuntreeError]]) -> None:
    """Give polls their answers, with one hop to each loop on which they wait."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[_Poll, str | RuntreeError]]] = {}
    for poll, answer in answers:
        loops.setdefault(poll.loop, []).append((poll, answer))
    for loop, own in loops.items():
        loop.call_soon_threadsafe(_settle, own)


def _settle(answers: Sequence[tuple[_Poll, str | RuntreeError]]) -> None:
    for poll, answer in answers:
        if poll.answer.done():
            continue
        if isinstance(answer, str):
            poll.answer.set_result(answer)
        else:
            poll.answer.set_exception(answer)
