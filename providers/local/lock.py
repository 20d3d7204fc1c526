"""Advisory file locks between processes: the kernel frees them when a process ends, however it ends."""

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_POLL = 0.05


class FileLock:
    """An open file with a `flock` on it, held until `release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def try_acquire(self, *, shared: bool = False) -> bool:
        """Take the lock if nobody holds it against us, and say whether it is held."""
        if self._descriptor is not None:
            return True
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Give the lock back; no error if it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def is_locked(path: Path) -> bool:
    """Tell whether some process holds this file's lock exclusively."""
    if not path.exists():
        return False
    lock = FileLock(path)
    free = lock.try_acquire(shared=True)  # two who look at once don't take each other for the holder
    lock.release()
    return not free


@contextmanager
def exclusive(path: Path, timeout: float) -> Generator[None]:
    """Hold the lock for a block; `TimeoutError` if another process keeps it longer than `timeout` seconds."""
    lock = FileLock(path)
    deadline = time.monotonic() + timeout
    while not lock.try_acquire():
        if time.monotonic() > deadline:
            raise TimeoutError(str(path))
        time.sleep(_POLL)
    try:
        yield
    finally:
        lock.release()
