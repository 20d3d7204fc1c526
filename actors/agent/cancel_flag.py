"""A flag that tells a run, or one of its tool calls, to stop. It is set once, with a reason, and read from any thread."""

import asyncio
import threading
from collections.abc import Callable, Generator
from typing import Any, Self


class CancelFlag:
    """Tells running code that it should stop.

    Any thread may set and read it, and `await flag` waits until it is set. Every holder in a process shares the one object.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason: str | None = None
        self._callbacks: dict[object, Callable[[], object]] = {}

    def cancel(self, reason: str = "cancelled") -> None:
        """Set the flag; the first reason stays."""
        with self._lock:
            if self._reason is not None:
                return
            self._reason = reason
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        for callback in callbacks:
            callback()

    def is_cancelled(self) -> bool:
        """Return whether the flag is set; cheap enough for a tight loop."""
        return self._reason is not None

    @property
    def reason(self) -> str | None:
        """Why it was set; `None` while it is not."""
        return self._reason

    def __await__(self) -> Generator[Any, None, None]:
        return self.wait().__await__()

    async def wait(self) -> None:
        """Return once the flag is set."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()
        remove = self.on_cancel(lambda: loop.call_soon_threadsafe(done.set))
        try:
            await done.wait()
        finally:
            remove()

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back once the flag is set, at once if it is; returns what takes the callback away again.

        The callback runs in the thread that sets the flag.
        """
        token = object()
        with self._lock:
            already = self._reason is not None
            if not already:
                self._callbacks[token] = callback
        if already:
            callback()
        return lambda: self._remove(token)

    def child(self) -> tuple[Self, Callable[[], None]]:
        """Return a flag that is set with this one, and what unties it from this one."""
        flag = type(self)()
        return flag, self.on_cancel(lambda: flag.cancel(self._reason or "cancelled"))

    def _remove(self, token: object) -> None:
        with self._lock:
            self._callbacks.pop(token, None)
