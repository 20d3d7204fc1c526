"""Which models have asked to be left alone, and until when: one object a process, shared by all runs in it."""

import random
import time
from typing import Final

_ROUNDING: Final = 0.5
"""Seconds by which a pause may have been stretched on its way round."""


class Pauses:
    """Times before which a model is not called. Any thread may read and set them."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def put(self, model: str, until: float) -> None:
        """Call a model, named by `ModelProfile.key`, not before a time (seconds since the epoch); a later time that is known stays."""
        if until > self._until.get(model, 0.0):
            self._until[model] = until

    def put_for(self, model: str, seconds: float) -> float:
        """Leave a model alone for so long from now; returns until when."""
        until = time.time() + seconds
        self.put(model, until)
        return until

    def left(self, model: str, waited_until: float = 0.0) -> float:
        """Return the seconds until the model may be called; 0 if it may.

        Args:
            model: Its key.
            waited_until: Until when the caller has left the model alone already, by a wait of its own.
        """
        until = self._until.get(model)
        if until is None:
            return 0.0
        now = time.time()
        if until <= now:
            self._until.pop(model, None)
            return 0.0
        return 0.0 if waited_until <= now and until <= waited_until + _ROUNDING else until - now

    @staticmethod
    def spread(left: float) -> float:
        """Return how long to sleep: up to a quarter more than what is left, so that many do not come back as one."""
        return left * random.uniform(1.0, 1.25)
