"""One cell while it is evaluated: the bridge between the worker's thread and the event loop, and the place where the cell is stopped."""

import asyncio
import functools
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from ...messages.errors import LimitExceededError
from ...messages.repl import ReplPolicy
from .functions import CellFunctions, Request, Told, describe_call
from .host import CellStopError
from .marshal import cut_text
from .worker import PENDING, Pending, Raised, Worker

_DROP_TIME: Final = 0.5
"""Seconds that calls get to end once their cell has."""

_GATHERED: Final = 64
"""Calls that begin together."""


@dataclass(frozen=True)
class Stop:
    """Why a cell does not end by itself."""

    kind: Literal["cancelled", "limit", "worker"]
    problem: str
    """The reason, or the name of the limit."""
    allowed: str = ""
    """What the limit allows."""


class Cell:
    """A cell between its sandbox, which waits in a thread, and its calls, which run on the event loop."""

    def __init__(self, functions: CellFunctions, policy: ReplPolicy) -> None:
        """Make a cell that no worker evaluates yet; on the session's event loop.

        Args:
            functions: What its calls mean.
            policy: Its bounds.
        """
        self._functions = functions
        self._policy = policy
        self._loop = asyncio.get_running_loop()
        self._todo: deque[tuple[int, Request | float] | Callable[[], None]] = deque()
        self._woken = False
        self._tasks: dict[int, asyncio.Task[Any]] = {}
        self._changed = threading.Condition()
        self._fresh: dict[int, Any] = {}
        self._answers: dict[int, Any] = {}
        self._worker: Worker | None = None
        self._over = False
        self._waited = 0.0
        self._printed: list[str] = []
        self._room = policy.output_bytes
        self.stopped: Stop | None = None

    @property
    def stdout(self) -> str:
        """What was printed."""
        return "".join(self._printed)

    # From any thread

    def stop(self, stop: Stop) -> None:
        """End the cell; the first reason stays, and after its end there is nothing to stop."""
        with self._changed:
            if self._over or self.stopped is not None:
                return
            self.stopped = stop
            self._changed.notify_all()
            if self._worker is not None:
                self._worker.kill()

    # From the worker's thread

    def attach(self, worker: Worker) -> None:
        """Name the process that a stop has to kill."""
        with self._changed:
            self._worker = worker
            if self.stopped is not None:
                worker.kill()

    def finish(self) -> bool:
        """Note that the evaluation is over; returns whether it came to that before it was stopped."""
        with self._changed:
            self._over = True
            return self.stopped is None

    def write(self, text: str) -> None:
        """Keep what is printed; more than allowed stops the cell while it prints."""
        if self.stopped is not None:
            return
        size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
        if size > self._room:
            text = cut_text(text, self._room)
            self.stop(Stop("limit", "output_bytes", str(self._policy.output_bytes)))
        self._room = max(0, self._room - size)
        self._printed.append(text)

    def call(self, number: int, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any | Raised | Pending:
        """Answer a call at once, or begin it."""
        try:
            found = self._functions.ask(name, args, kwargs)
        except LimitExceededError as error:
            self._post(self._functions.refusal(name, error))
            self.stop(Stop("limit", error.limit, error.allowed))
            return None
        except (TypeError, ValueError) as error:
            return Raised(type(error).__name__, str(error).replace("CellFunctions._", ""))
        if isinstance(found, Request):
            # Like any coroutine it begins when the cell waits for it, or when many are gathered: a wake for each would have the thread and
            # the loop take turns at Python's lock.
            self._todo.append((number, found))
            if len(self._todo) >= _GATHERED:
                self._wake()
            return PENDING
        if isinstance(found, Told):
            self._post(found.tell)
            return None
        return found

    def sleep(self, number: int, seconds: float) -> Pending:
        """Begin a pause."""
        self._post((number, seconds))
        return PENDING

    def wait(self, numbers: list[int]) -> Mapping[int, Any | Raised]:
        """Return what has become of pending calls, of one at least; empty once the cell is stopped."""
        self._wake()
        started = time.monotonic()
        left = self._policy.wait_time - self._waited
        with self._changed:
            in_time = self._changed.wait_for(lambda: self._ready(numbers), left)
            found = {number: self._answers.pop(number) for number in numbers if number in self._answers}
        self._waited += time.monotonic() - started
        if not in_time:
            self.stop(Stop("limit", "wait_time", f"{self._policy.wait_time:g}"))
        return {} if self.stopped is not None else found

    def _ready(self, numbers: list[int]) -> bool:
        return self.stopped is not None or any(number in self._answers for number in numbers)

    def _post(self, what: tuple[int, Request | float] | Callable[[], None]) -> None:
        self._todo.append(what)
        self._wake()

    def _wake(self) -> None:
        if self._todo and not self._woken:
            self._woken = True
            try:
                self._loop.call_soon_threadsafe(self._take)
            except RuntimeError:  # the loop is closed: nobody waits for the cell any more
                self.stop(Stop("cancelled", "the event loop is closed"))

    # From the event loop

    def _take(self) -> None:
        self._woken = False
        while self._todo:
            what = self._todo.popleft()
            if callable(what):
                self._tell(what)
            elif self.stopped is None:
                number, work = what
                coroutine = self._functions.run(work) if isinstance(work, Request) else asyncio.sleep(work)
                task = self._tasks[number] = asyncio.ensure_future(coroutine)
                task.add_done_callback(functools.partial(self._settle, number))

    def _tell(self, what: Callable[[], None]) -> None:
        try:
            what()
        except Exception as error:  # noqa: BLE001  # a reader that can't be told is no reason to leave the others without
            self.stop(Stop("cancelled", describe_call(error)))

    def _settle(self, number: int, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(number, None)
        answer = self._answer_of(task)
        if answer is None:
            return
        if not self._fresh:
            # What ends in the same round of the loop is told at once.
            self._loop.call_soon(self._publish)
        self._fresh[number] = answer[0]

    def _publish(self) -> None:
        with self._changed:
            self._answers.update(self._fresh)
            self._changed.notify_all()
        self._fresh.clear()

    def _answer_of(self, task: asyncio.Task[Any]) -> tuple[Any] | None:
        if task.cancelled():
            # By the end of the cell, or from within what was called, which must not let the cell wait for ever.
            return (Raised("RuntimeError", "the call was cancelled"),)
        error = task.exception()
        if isinstance(error, LimitExceededError):
            self.stop(Stop("limit", error.limit, error.allowed))
            return None
        if isinstance(error, Exception) and not isinstance(error, CellStopError):
            return (Raised("RuntimeError", describe_call(error)),)
        if error is not None:
            self.stop(Stop("cancelled", str(error) or type(error).__name__))
            return None
        return (task.result(),)

    async def drop_calls(self) -> None:
        """End the calls that the cell has left; what does not end in time is left behind, and completed for readers."""
        left = list(self._tasks.values())
        for task in left:
            task.cancel()
        try:
            if left:
                await asyncio.wait(left, timeout=_DROP_TIME)
        finally:
            self._functions.abandon()
