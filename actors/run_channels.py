"""The ways of one process to the packed actors in which it has runs."""

import asyncio
from collections import OrderedDict
from functools import partial
from typing import Any, Final

from .actor_start import PART
from .jobs import Keys, RunEnd, RunJob
from .remote import Handle, UnreachableError, call
from .run_channel import RunChannel

_KEPT_CHANNELS: Final = 256
_RETRY_PAUSES: Final = (0.1, 0.3, 1.0, 3.0)
"""Seconds between the tries of a call to an actor that is out of reach for the moment."""


class RunChannels:
    """The channels of one process, by actor and tree."""

    def __init__(self) -> None:
        self._channels: OrderedDict[tuple[str, str], RunChannel] = OrderedDict()

    async def run(self, handle: Handle, job: RunJob, keys: Keys) -> RunEnd:
        """Have a packed run executed to its end; see `RunChannel.run`."""
        key = job.admitted.actor_name, job.admitted.stamp.root_run_id
        channel = self._channels.get(key)
        if channel is None:
            channel = self._channels[key] = RunChannel(partial(_call, handle), key[1])
            self._forget_idle()
        self._channels.move_to_end(key)
        return await channel.run(job, keys)

    def _forget_idle(self) -> None:
        for key in [key for key, channel in self._channels.items() if channel.idle]:
            if len(self._channels) <= _KEPT_CHANNELS:
                return
            del self._channels[key]


async def _call(handle: Handle, method: str, *args: Any) -> Any:
    """Call an actor; again if it is out of reach for a moment. What a channel calls may be repeated: attempts and polls are numbered."""
    for pause in _RETRY_PAUSES:
        try:
            return await call(handle, method, *args, part=PART, timeout=None)
        except UnreachableError:
            await asyncio.sleep(pause)
    return await call(handle, method, *args, part=PART, timeout=None)
