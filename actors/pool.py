"""The run actors that belong to one driver: warm ones, started in the background so that a run does not pay for a process, and those that runs share."""

import asyncio
import itertools
import logging
import random
from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from ..messages.errors import RuntreeError
from .actor_start import DEFAULT_RESOURCES, PART, STARTS_AT_ONCE, demand, ready
from .remote import Handle, UnreachableError, call, kill, kill_by_name
from .run_actor import start_run_actor
from .supervisor_client import SupervisorClient

_RETIRE_SECONDS = 5.0
"""How long whoever called a worn-out actor last has to read its answer, before its owner ends it."""

_CALM_SECONDS = 0.5
"""After an actor was lost: what ends one ends others, as the cancel of a tree does, and starting their successors would take its processor from it."""

_CALM_LIMIT = 5.0
"""Losses that go on put off the start of a successor no longer than this."""

_WATCH_SECONDS = 30.0
"""Longest time for which an actor is asked to say nothing: the call fails at once when its process is gone."""

_WATCH_PATIENCE = 30.0

_log = logging.getLogger(__name__)


class Pool:
    """Keeps up to `size` warm actors at the supervisor's disposal. They belong to the driver's process and are never lent to another driver."""

    def __init__(
        self, supervisor: SupervisorClient, driver_id: str, queues: Sequence[str], size: int, start_timeout: float
    ) -> None:
        self._queues = tuple(queues)
        self._supervisor = supervisor
        self._driver_id = driver_id
        self._size = self._target = size
        self._start_timeout = start_timeout
        self._actors: dict[str, Handle | None] = {}
        """Handles by name; `None` before the actor is started."""
        self._nodes: dict[str, str] = {}
        """Nodes of the warm ones."""
        self._vacancies: deque[str] = deque()
        """Nodes whose share is short of an actor."""
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._retired: dict[str, tuple[Handle, asyncio.TimerHandle]] = {}
        self._closed = False
        self._calm_from = 0.0
        self._starting = asyncio.Semaphore(STARTS_AT_ONCE)
        self._starting_shared = asyncio.Semaphore(STARTS_AT_ONCE)

    def fill(self) -> None:
        """Start what is missing, in the background; nothing once the pool is closed."""
        if self._closed:
            return
        for _ in range(self._target - len(self._actors)):
            name = f"run:warm:{self._driver_id}:{next(self._numbers)}"
            self._actors[name] = None
            node = self._vacancies.popleft() if self._vacancies else None
            self._spawn(self._start(name, node))

    def refill(self) -> None:
        """Bring a pool that was shrunk to its size again."""
        self._target = self._size
        self.fill()

    def start(self, actor: str, resources: Mapping[str, float]) -> None:
        """Start an actor that runs share; those wait for its name. Nothing is started once the pool is closed."""
        if actor not in self._actors and not self._closed:
            self._actors[actor] = None
            self._spawn(self._start_shared(actor, resources))

    async def filled(self) -> None:
        """Return when every actor that was started is at the supervisor's disposal, or was given up."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def kill(self, actor: str) -> None:
        """End an actor now, whether it is of the pool or a cold one; replaces a warm one."""
        handle = self._forget(actor)
        if handle is None:
            await kill_by_name(actor, self._supervisor.namespace)
        else:
            await asyncio.to_thread(kill, handle)
        self._replace()

    def retire(self, actor: str, *, shrink: bool = False) -> None:
        """End an actor that takes no more runs, and replace a warm one unless the pool is to shrink."""
        handle = self._forget(actor)
        if handle is not None:
            timer = asyncio.get_running_loop().call_later(_RETIRE_SECONDS, self._end_retired, actor)
            self._retired[actor] = (handle, timer)
        if shrink:
            self._target = max(0, self._target - 1)
            self._vacancies.clear()
        self._replace()

    async def aclose(self) -> None:
        """End all its actors, and start no more."""
        self._closed = True
        working = {*self._tasks, *self._watches.values()}
        for task in working:
            task.cancel()
        for actor in tuple(self._retired):
            self._end_retired(actor)
        # Out of the books before anything is waited for: what is about to start an actor looks there first.
        handles = [handle for handle in self._actors.values() if handle is not None]
        self._actors.clear()
        for handle in handles:
            kill(handle)
        if working:
            await asyncio.wait(working)

    def _end_retired(self, actor: str) -> None:
        handle, timer = self._retired.pop(actor)
        timer.cancel()
        kill(handle)

    def _replace(self) -> None:
        """Start successors, once no more actors are lost."""
        self._calm_from = asyncio.get_running_loop().time() + _CALM_SECONDS
        self.fill()

    async def _calm(self) -> None:
        loop = asyncio.get_running_loop()
        limit = loop.time() + _CALM_LIMIT
        while (left := min(self._calm_from, limit) - loop.time()) > 0:  # noqa: ASYNC110 - each loss moves the time
            await asyncio.sleep(left)

    async def _start(self, name: str, node: str | None) -> None:
        await self._calm()
        async with self._starting:
            if name not in self._actors:
                return
            handle = start_run_actor(name, self._supervisor.namespace, DEFAULT_RESOURCES, node)
            self._actors[name] = handle
            try:
                info = await ready(handle, None, self._start_timeout, self._queues)
                self._nodes[name] = info.node_id
                await self._supervisor.offer(self._driver_id, name)
            except RuntreeError:
                # No room for another warm actor: runs start cold ones and are told if there is no room for those either.
                self._forget(name)
                kill(handle)
            else:
                self._watch(name, handle)

    async def _start_shared(self, name: str, resources: Mapping[str, float]) -> None:
        async with self._starting_shared:
            if name not in self._actors:
                return
            handle = self._actors[name] = start_run_actor(name, self._supervisor.namespace, demand(resources))
            self._watch(name, handle)
            try:
                await ready(handle, resources, self._start_timeout, self._queues)
            except RuntreeError as error:
                # Those who wait for it see the same, and have it killed.
                _log.info("%s did not start: %s", name, error)

    def _watch(self, name: str, handle: Handle) -> None:
        if self._actors.get(name) is handle:
            self._watches[name] = asyncio.get_running_loop().create_task(self._watch_for_ever(name, handle))

    async def _watch_for_ever(self, name: str, handle: Handle) -> None:
        """Replace an actor that dies, also an idle one, which nobody calls."""
        while True:
            seconds = _WATCH_SECONDS * random.uniform(0.7, 1.0)
            try:
                await call(handle, "watch", seconds, part=PART, timeout=seconds + _WATCH_PATIENCE)
            except UnreachableError:
                await asyncio.sleep(random.uniform(0.5, 1.0))
            except RuntreeError:
                break
        _log.info("%s is gone", name)
        self._watches.pop(name, None)
        self._forget(name)
        self._spawn(self._replace_lost(name))

    async def _replace_lost(self, name: str) -> None:
        try:
            await self._supervisor.withdraw(self._driver_id, name)
        except RuntreeError as error:
            # A run that is sent to it finds out, and has it killed.
            _log.warning("%s is still in the books of the supervisor: %s", name, error)
        self._replace()

    def _forget(self, name: str) -> Handle | None:
        """Take an actor out of the books; whoever takes its place goes to its node."""
        watch = self._watches.pop(name, None)
        if watch is not None:
            watch.cancel()
        node = self._nodes.pop(name, None)
        if node is not None:
            self._vacancies.append(node)
        return self._actors.pop(name, None)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
