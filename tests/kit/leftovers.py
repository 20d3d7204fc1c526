"""What a piece of code leaves behind on its event loop: tasks, timers, and generators that the garbage collector has to close."""

import asyncio
import gc
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def nothing_left() -> Iterator[None]:
    """Fails if the block leaves a task, a timer, or an open generator."""
    loop = asyncio.get_running_loop()
    tasks, timers = asyncio.all_tasks(), _timers(loop)
    dropped: list[str] = []
    hooks = sys.get_asyncgen_hooks()

    def drop(generator: AsyncGenerator[Any, Any]) -> None:
        dropped.append(repr(generator))
        if hooks.finalizer is not None:
            hooks.finalizer(generator)

    sys.set_asyncgen_hooks(hooks.firstiter, drop)
    try:
        yield
        if not dropped:
            gc.collect(0)
    finally:
        sys.set_asyncgen_hooks(*hooks)
    assert not dropped, f"generators that nobody closed: {dropped}"
    left = [task for task in asyncio.all_tasks() - tasks if not task.done()]
    assert not left, f"tasks: {left}"
    assert not _timers(loop) - timers, "timers"


def _timers(loop: asyncio.AbstractEventLoop) -> set[Any]:
    scheduled: list[asyncio.TimerHandle] = loop._scheduled  # type: ignore[attr-defined]  # no public way to see them
    return {handle for handle in scheduled if not handle.cancelled()}
