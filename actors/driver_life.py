"""How the supervisor tells whether a driver is still there."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from .remote import exists
from .supervision.records import Driver

_SILENCE: Final = 75.0
"""Seconds without a poll after which a driver counts as dead: two and a half of the longest poll."""

_ANSWER_TRIES: Final = 20
_ANSWER_PAUSE: Final = 0.1
"""Seconds between looks whether a driver has answered."""


async def is_there(driver: Driver, namespace: str, *, polls: bool, wake: Callable[[str], None]) -> bool:
    """Return whether a driver lives.

    Args:
        driver: The driver.
        namespace: Of its actors.
        polls: It has a poll open, as far as is known.
        wake: Answers its poll.
    """
    if not polls and time.time() - driver.seen > _SILENCE:
        return False
    if await exists(driver.hello.queues[0], namespace):
        return True
    # Ray ended its queue with it, or somebody ended the queue alone: a driver that lives asks again when its poll is answered.
    asked = time.time()
    wake(driver.hello.driver_id)
    for _ in range(_ANSWER_TRIES):
        await asyncio.sleep(_ANSWER_PAUSE)
        if driver.seen > asked:
            return True
    return False
