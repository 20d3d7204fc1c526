"""Ctrl-C: the first one asks, the second one leaves at once."""

import asyncio
import contextlib
import os
import signal
from types import FrameType
from typing import Any

from . import exits
from .output import stdout


class Interrupts:
    """While entered, the first SIGINT or SIGTERM sets `asked` and the next one ends the process.

    A handler of the signal module is used and not one of the event loop, since it also runs while something blocks the loop.
    """

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._count = 0
        self._former: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Interrupts":
        for number in (signal.SIGINT, signal.SIGTERM):
            self._former[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._count += 1
        if self._count > 1:
            leave_at_once(exits.CANCELLED)
        self._loop.call_soon_threadsafe(self.asked.set)


def leave_at_once(code: int) -> None:
    """End the process without waiting for anything; what it owns in Ray ends with it."""
    if stdout().isatty():
        os.write(stdout().fileno(), b"\x1b[?25h\n")  # a live tree hides the cursor
    # Inside a signal handler a flush may meet the write that it interrupted.
    with contextlib.suppress(RuntimeError, OSError, ValueError):
        stdout().flush()
    os._exit(code)
