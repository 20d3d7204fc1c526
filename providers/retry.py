"""Asking a model again after a failure that may pass, in the open: readers are told before the wait, never shown two tries as one text.

No retry library: those repeat a function that raised, and here a try fails by an event in the middle of a stream, whose readers have to
learn of the wait before it begins.
"""

import itertools
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, TypeAlias

import anyio
from pydantic import PositiveFloat, PositiveInt

from ..messages.failure import Failure
from ..messages.model import Discarded, Failed, ModelEvent, ModelRequest
from ..messages.value import Value

Ask: TypeAlias = Callable[[ModelRequest], AsyncIterator[ModelEvent]]
"""Something that answers a request with events: a model, or layers around one."""


class RetryPolicy(Value):
    """How often and after how long a failed model call is made again.

    The defaults are those of the official clients of OpenAI and Anthropic: two more tries, after half a second and a second.
    """

    max_attempts: PositiveInt = 3
    """Tries of one call, the first included; 1 switches retries off."""
    initial: PositiveFloat = 0.5
    """Seconds before the second try; they double from try to try."""
    maximum: PositiveFloat = 8.0
    """Seconds at which they stop to grow."""
    max_retry_after: PositiveFloat = 120.0
    """Seconds above which a wait that the provider asks for is cut."""

    def allows(self, attempt: int, failure: Failure) -> bool:
        """Return whether a call is made again after this try of it, counted from 1."""
        return failure.retryable and attempt < self.max_attempts

    def delay(self, attempt: int, failure: Failure) -> float:
        """Return the seconds to wait after this try, counted from 1.

        At least the backoff, and up to a quarter more so that many callers do not come back as one; longer if the provider asks for it.
        """
        backoff = min(self.initial * 2.0 ** min(attempt - 1, 64), self.maximum)
        asked = min(failure.retry_after or 0.0, self.max_retry_after)
        return max(backoff, asked) * random.uniform(1.0, 1.25)  # spread, no secret

    def pause(self, failure: Failure) -> float | None:
        """Return the seconds for which nobody should call the model, after a failure that asks for it; `None` after others."""
        if failure.code == "rate_limit":
            return min(failure.retry_after or self.initial, self.max_retry_after)
        if failure.code == "overloaded" and failure.retry_after:
            return min(failure.retry_after, self.max_retry_after)
        return None


NO_RETRIES = RetryPolicy(max_attempts=1)
"""One try."""


async def with_retries(ask: Ask, request: ModelRequest, policy: RetryPolicy) -> AsyncGenerator[ModelEvent, None]:
    """Ask until there is an answer, or a failure that no further try may follow.

    Every failed try but the last is told as `Discarded`, before the wait.
    """
    for attempt in itertools.count(1):
        failed: Failed | None = None
        async with aclosing(closable(ask(request))) as events:
            async for event in events:
                if type(event) is Failed and policy.allows(attempt, event.error):
                    failed = event
                    break
                yield event
        if failed is None:
            return
        delay = policy.delay(attempt, failed.error)
        yield Discarded(error=failed.error, usage=failed.usage, delay=delay)
        await anyio.sleep(delay)


def closable(events: AsyncIterator[ModelEvent]) -> Any:
    """Return events that can be closed, which a plain iterator can't."""
    return events if hasattr(events, "aclose") else _closable(events)


async def _closable(events: AsyncIterator[ModelEvent]) -> AsyncGenerator[ModelEvent, None]:
    async for event in events:
        yield event
