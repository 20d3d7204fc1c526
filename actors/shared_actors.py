"""Actors that several runs share, as whoever calls them sees them: the driver starts them, and its callers wait for their names."""

import asyncio
from collections.abc import Mapping

from ..messages.control import Admitted
from ..messages.errors import RunLostError, RuntimeUnavailableError
from .actor_start import PART, ready
from .jobs import RunJob
from .remote import ActorGoneError, Handle, find
from .supervisor_client import SupervisorClient

_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 0.2
_CHECK_SECONDS = 1.0
"""How often a wait looks whether its run may still be started."""


class SharedActors:
    """Finds shared actors, each once for all runs of one caller."""

    def __init__(self, supervisor: SupervisorClient) -> None:
        self._supervisor = supervisor
        self._waits: dict[str, asyncio.Task[Handle]] = {}

    async def get(self, job: RunJob, resources: Mapping[str, float] | None) -> Handle:
        """Return the actor that was lent to a run, once it is ready.

        Raises:
            RunLostError: The run must not be started any more.
            RuntimeUnavailableError: The actor died, found no room on any node, or its driver did not start it.
        """
        admitted = job.admitted
        while True:
            wait = self._waits.get(admitted.actor_name)
            if wait is None:
                wait = asyncio.get_running_loop().create_task(self._wait(job, resources))
                self._waits[admitted.actor_name] = wait
            try:
                return await asyncio.shield(wait)
            except RunLostError:
                # The run for which it was waited is over; the others go on waiting.
                if self._waits.get(admitted.actor_name) is wait:
                    del self._waits[admitted.actor_name]
                await self._check(admitted)

    async def _wait(self, job: RunJob, resources: Mapping[str, float] | None) -> Handle:
        began = asyncio.get_running_loop().time()
        patience = job.tree.schedule_timeout
        handle = await self._find(job.admitted, job.tree.namespace, began + patience)
        left = max(1.0, patience - (asyncio.get_running_loop().time() - began))
        await ready(handle, resources, left, (job.admitted.lane.queue,))
        return handle

    async def _find(self, admitted: Admitted, namespace: str, deadline: float) -> Handle:
        loop = asyncio.get_running_loop()
        pause, checked = _FIRST_PAUSE, loop.time()
        while True:
            try:
                return await find(admitted.actor_name, namespace, PART)
            except ActorGoneError:
                if loop.time() >= deadline:
                    fix = "Look whether the driver's event loop is blocked"
                    raise RuntimeUnavailableError(
                        PART, f"its driver did not start {admitted.actor_name}", fix
                    ) from None
            if loop.time() - checked >= _CHECK_SECONDS:
                await self._check(admitted)
                checked = loop.time()
            await asyncio.sleep(pause)
            pause = min(_LONGEST_PAUSE, 1.5 * pause)

    async def _check(self, admitted: Admitted) -> None:
        stamp = admitted.stamp
        reason = await self._supervisor.stopped(stamp.run_id, stamp.attempt)
        if reason is not None:
            raise RunLostError(stamp.run_id, f"it was not started: {reason}")
