"""Waiting, with a limit, for something that another process or task brings about.

For conditions that offer no event to wait on. Where an event exists, wait on the event.
"""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar, cast, overload

import anyio

T = TypeVar("T")

_PAUSE = 0.005


@overload
async def eventually(predicate: Callable[[], Coroutine[Any, Any, T]], limit: float = 30.0) -> T: ...
@overload
async def eventually(predicate: Callable[[], T], limit: float = 30.0) -> T: ...
async def eventually(predicate: Callable[[], T | Coroutine[Any, Any, T]], limit: float = 30.0) -> T:
    """Asks again and again until the predicate holds, and returns what it returned.

    Args:
        predicate: A function or coroutine function; it holds when its result is true.
        limit: Seconds to go on for. The limit also ends a predicate that itself hangs.

    Raises:
        AssertionError: The predicate did not hold within the limit; the text shows its last result.
    """
    last: object = "no result, the predicate never returned"
    with anyio.move_on_after(limit):
        while True:
            outcome = predicate()
            value = cast(T, await outcome if isinstance(outcome, Awaitable) else outcome)
            if value:
                return value
            last = value
            await anyio.sleep(_PAUSE)
    raise AssertionError(f"not true within {limit} s, last result: {last!r}")
