"""The warm actors of one driver: started in the background, so that a run does not pay for a process."""

import asyncio
import itertools
from collections.abc import Coroutine, Sequence
from typing import Any

from ..messages.errors import RuntreeError
from .remote import Handle, call, kill, kill_by_name
from .run_actor import start_run_actor
from .run_call import DEFAULT_RESOURCES, STARTS_AT_ONCE
from .supervisor_client import SupervisorClient

_RETIRE_SECONDS = 5.0
"""How long whoever called a worn-out actor last has to end it, before its owner does."""


class Pool:
    """Keeps `size` warm actors at the supervisor's disposal. They belong to the driver's process and are never lent to another driver."""

    def __init__(
        self, supervisor: SupervisorClient, driver_id: str, queues: Sequence[str], size: int, start_timeout: float
    ) -> None:
        self._queues = tuple(queues)
        self._supervisor = supervisor
        self._driver_id = driver_id
        self._size = size
        self._start_timeout = start_timeout
        self._actors: dict[str, Handle | None] = {}
        """Handles by name; `None` before the actor is started."""
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._starting = asyncio.Semaphore(STARTS_AT_ONCE)

    def fill(self) -> None:
        """Start what is missing, in the background."""
        for _ in range(self._size - len(self._actors)):
            name = f"run:warm:{self._driver_id}:{next(self._numbers)}"
            self._actors[name] = None
            self._spawn(self._start(name))

    async def filled(self) -> None:
        """Return when every actor that was started is at the supervisor's disposal, or was given up."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def kill(self, actor: str) -> None:
        """End an actor now, whether it is of the pool or a cold one; replaces a warm one."""
        handle = self._actors.pop(actor, None)
        if handle is None:
            await kill_by_name(actor, self._supervisor.namespace)
        else:
            await asyncio.to_thread(kill, handle)
            self.fill()

    def retire(self, actor: str) -> None:
        """Replace a warm actor that takes no more runs; its last caller ends it."""
        handle = self._actors.pop(actor, None)
        if handle is not None:
            asyncio.get_running_loop().call_later(_RETIRE_SECONDS, kill, handle)
            self.fill()

    async def aclose(self) -> None:
        """End all warm actors."""
        for task in self._tasks:
            task.cancel()
        await self.filled()
        handles = list(self._actors.values())
        self._actors.clear()
        for handle in handles:
            if handle is not None:
                kill(handle)

    async def _start(self, name: str) -> None:
        async with self._starting:
            handle = self._actors[name] = start_run_actor(name, self._supervisor.namespace, DEFAULT_RESOURCES)
            await self._offer(name, handle)

    async def _offer(self, name: str, handle: Handle) -> None:
        try:
            await call(handle, "start", self._queues, part="run actor", timeout=self._start_timeout)
            await self._supervisor.offer(self._driver_id, name)
        except RuntreeError:
            # No room for another warm actor: runs start cold ones and are told if there is no room for those either.
            self._actors.pop(name, None)
            kill(handle)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
