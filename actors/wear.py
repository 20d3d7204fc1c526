"""What runs have left behind in a process that others are to use after them: a snapshot of it when it was fresh, and comparisons with that."""

import contextlib
import importlib
import os
import queue
import sys
import threading
from concurrent.futures import thread as executor_threads
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

GROWTH: Final = 128 * 2**20
"""Bytes by which the resident memory of a process may grow over its runs. Caches and late imports take some tens of MiB."""

_SPARE_THREADS: Final = 8
"""Threads beyond the fresh process's that Python does not know, such as those of a library's event loop, before they count as left behind."""

_OWN: Final = "runtree "
"""Beginning of the names of the runtime's own threads."""

_psutil: Any = importlib.import_module("psutil")
_sys: Any = sys
_threading: Any = threading
_executors: Any = executor_threads
_queue: Any = queue
"""What has no annotations, or no public name."""

_IDLE: Final[tuple[CodeType, ...]] = (_executors._worker.__code__, _queue.Queue.get.__code__)
"""Where a thread of an executor waits for work, as the innermost frame but those of `threading` itself."""


class Wear:
    """A process as it was when this was made. Not safe for use from several threads at a time."""

    def __init__(self, growth: int = GROWTH) -> None:
        """Take the snapshot.

        Args:
            growth: Bytes by which its memory may grow.
        """
        self._growth = growth
        self._process: Any = _psutil.Process()
        self._environment = dict(os.environ)
        self._folder = _folder()
        self._threads = set(threading.enumerate())
        self._others = self._unknown_threads()
        self._children = set(_children(self._process))
        self._memory = self._process.memory_info().rss

    def reason(self, *, alone: bool = True) -> str | None:
        """Return what a run has left behind, `None` if nothing.

        Args:
            alone: No other run is in the process, so that threads, child processes and memory are nobody's.
        """
        found = self._changed_environment() or self._changed_folder()
        if found is None and alone:
            found = self._left_children() or self._left_threads() or self._grown()
        return found

    def _changed_environment(self) -> str | None:
        now = dict(os.environ)
        if now == self._environment:
            return None
        names = sorted(name for name in now.keys() | self._environment if now.get(name) != self._environment.get(name))
        return f"environment variables were changed: {', '.join(names[:5])}"

    def _changed_folder(self) -> str | None:
        folder = _folder()
        return None if folder == self._folder else f"the working directory was changed to {folder}"

    def _left_children(self) -> str | None:
        left = [pid for pid in _children(self._process) if pid not in self._children]
        return f"child processes were left: {', '.join(map(str, left[:5]))}" if left else None

    def _left_threads(self) -> str | None:
        frames: dict[int, FrameType] = _sys._current_frames()
        new = (each for each in threading.enumerate() if each not in self._threads and not _harmless(each))
        left = [each.name for each in new if not _idle(each, frames)]
        if left:
            return f"threads were left: {', '.join(left[:5])}"
        more = self._unknown_threads() - self._others
        return f"{more} native threads were left" if more > _SPARE_THREADS else None

    def _unknown_threads(self) -> int:
        all_threads: int = self._process.num_threads()
        return all_threads - threading.active_count()

    def _grown(self) -> str | None:
        grown = self._process.memory_info().rss - self._memory
        return f"memory grew by {grown / 2**20:.0f} MiB" if grown > self._growth else None


def _folder() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return "a folder that was removed"


def _children(process: Any) -> list[int]:
    """Return the ids of the child processes that live."""
    try:
        # Answers at once, where a look at all processes of the machine takes milliseconds.
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return []
    found: list[int] = []
    for child in process.children():
        with contextlib.suppress(_psutil.NoSuchProcess):
            if child.status() != _psutil.STATUS_ZOMBIE:
                found.append(child.pid)
    return found


def _harmless(thread: threading.Thread) -> bool:
    """Whether a thread is of the runtime, which ends by itself, or of native code."""
    return thread.name.startswith(_OWN) or isinstance(thread, _threading._DummyThread)


def _idle(thread: threading.Thread, frames: dict[int, FrameType]) -> bool:
    """Whether a thread has ended, or belongs to an executor and waits for work."""
    frame = frames.get(thread.ident or 0)
    if frame is None:
        return True
    while frame is not None and frame.f_code.co_filename == threading.__file__:
        frame = frame.f_back
    return frame is not None and frame.f_code in _IDLE
