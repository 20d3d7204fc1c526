"""The Runtime: where a driver starts trees, stops them, and sees what runs."""

import asyncio
import os
import platform
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self

import anyio

from ..messages.control import DriverHello
from ..messages.errors import (
    ConfigurationError,
    RuntimeClosedError,
)
from ..messages.ids import new_run_id
from ..messages.limits import Limits, ModelLimit
from ..messages.result import CancelReport, RunInfo, RunResult
from ..messages.transcript import Message
from ..messages.version import VERSION, WIRE_VERSION
from .agent import Agent
from .connection import connect
from .driver_queues import DriverQueues
from .handle import RunHandle, started
from .model_limits import checked_model_limits
from .open_runtime import EXIT_GRACE, OpenRuntime
from .pool import Pool
from .remote import MIB, shut_down
from .stream.lane_port import Flow
from .stream.lanes import Bounds
from .supervisor_client import SupervisorClient


class Runtime:
    """A driver's connection to run trees; an async context manager.

    Leaving the block, also by an exception, cancels the runs that are still live; it never shuts down a Ray it did not start.
    """

    def __init__(
        self,
        address: str | None = None,
        namespace: str = "runtree",
        *,
        secrets: Mapping[str, str] | None = None,
        overflow: Literal["block", "drop_oldest"] = "block",
        buffer_items: int = 4096,
        buffer_bytes: int = 16 * MIB,
        warm: int = 2,
        warm_idle_seconds: float = 300.0,
        on_reader_gone: Literal["continue", "cancel"] = "continue",
        journal: str | None = None,
        model_limits: Mapping[str, ModelLimit] | None = None,
        queue_actors: int = 1,
        spread_lanes: bool = False,
        schedule_timeout: float = 60.0,
        start_ray: bool = True,
        ray_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Describe the connection; nothing happens before the block is entered.

        Args:
            address: Of the head (`host:port`), `"auto"`, `"local"`, or `None`: `RAY_ADDRESS`, else what runs here, else a new local Ray.
            namespace: Ray namespace; Runtimes of one namespace share a supervisor and see each other's runs.
            secrets: Keys by name, such as `{"OPENAI_API_KEY": ...}`; names that are missing are looked up in this process's environment.
            overflow: What a full stream does: `block` makes producers wait for the reader, `drop_oldest` drops the oldest deltas.
            buffer_items: Items a lane may hold.
            buffer_bytes: Bytes a lane may hold.
            warm: Processes that are kept ready, spread over the nodes.
            warm_idle_seconds: Seconds after which processes that no run has used are ended, all but one; the next run brings them back.
            on_reader_gone: What happens to a run whose handle was closed or collected.
            journal: Not supported by this version; anything but `None` is refused.
            model_limits: Bounds on the use of models by all runs of the namespace together, such as
                `{"openai:gpt-5": ModelLimit(requests_per_minute=500)}`; of several drivers' bounds on one model the strictest holds.
            queue_actors: Queue actors of this driver.
            spread_lanes: Give each parent's lane to the next queue actor in turn, instead of keeping a tree's lanes together.
            schedule_timeout: Seconds until a run that finds no room on any node is refused.
            start_ray: Whether a local Ray may be started.
            ray_options: Further arguments of `ray.init`.
        """
        _at_least("buffer_items", buffer_items, 1)
        _at_least("buffer_bytes", buffer_bytes, 1)
        _at_least("warm", warm, 0)
        _at_least("warm_idle_seconds", warm_idle_seconds, 1)
        _at_least("queue_actors", queue_actors, 1)
        if journal is not None:
            problem = "runs are not journaled by this version"
            raise ConfigurationError(f"Runtime(journal={journal!r})", problem, "Leave it out")
        _one_of("overflow", overflow, ("block", "drop_oldest"))
        _one_of("on_reader_gone", on_reader_gone, ("continue", "cancel"))
        self._address, self._namespace = address, namespace
        self._secrets = dict(secrets or {})
        self._model_limits = checked_model_limits(model_limits)
        self._flow: Flow = overflow
        self._bounds = Bounds(buffer_items, buffer_bytes, overflow)
        self._warm, self._warm_idle_seconds = warm, warm_idle_seconds
        self._on_reader_gone = on_reader_gone
        self._queue_actors, self._spread_lanes = queue_actors, spread_lanes
        self._schedule_timeout = schedule_timeout
        self._start_ray = start_ray
        self._ray_options = dict(ray_options or {})
        self._open: OpenRuntime | None = None
        self._connected = False
        self._owns_ray = False

    def __repr__(self) -> str:
        return f"<Runtime {self._namespace!r} {'open' if self._open else 'closed'}>"

    def connect(self) -> None:
        """Join or start Ray. Entering the block does it; a caller with an event loop in another thread does it before, in its main thread."""
        if not self._connected:
            self._owns_ray = connect(self._address, self._namespace, self._ray_options, start=self._start_ray)
            self._connected = True

    async def __aenter__(self) -> Self:
        self.connect()
        try:
            with anyio.CancelScope(shield=True):
                self._open = await self._enter()
        except BaseException:
            self._disconnect()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        opened, self._open = self._open, None
        if opened is None:
            return
        try:
            with anyio.CancelScope(shield=True):
                await opened.aclose(interrupted=isinstance(error, asyncio.CancelledError | KeyboardInterrupt))
        finally:
            self._disconnect()

    async def start(
        self,
        agent: Agent,
        input: Any,  # noqa: A002 - the word users look for
        *,
        messages: Sequence[Message] = (),
        limits: Limits | None = None,
        deps: Any = None,
        variables: Mapping[str, Any] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> RunHandle:
        """Start a tree.

        Args:
            agent: Its root.
            input: Text, or a value of the agent's `input_type`.
            messages: A conversation to continue.
            limits: Bounds of the whole tree.
            deps: Anything picklable; reaches the tools of all agents through their context.
            variables: What the cells of `Agent(repl=...)` find, by name: text of any length, or what JSON can hold. It does not pass through a model.
            tags: Shown in the root's `run_started` item.

        Raises:
            ConfigurationError: The agent, its model, its tools or an argument can't work; the text names the field and the fix.
            LimitExceededError: The root itself is refused.
        """
        opened = self._opened("start()")
        return await started(asyncio.ensure_future(opened.start(agent, input, messages, limits, deps, variables, tags)))

    async def run(self, agent: Agent, input: Any, **options: Any) -> RunResult:  # noqa: A002 - the word users look for
        """Start a tree and wait for its end; arguments and errors are those of `start` and of `RunHandle.result`."""
        handle = await self.start(agent, input, **options)
        try:
            return await handle.result()
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):
                await handle.cancel(reason="the caller was cancelled", grace=EXIT_GRACE)
            raise

    async def cancel(self, run_id: str, reason: str = "user", grace: float = 2.0) -> CancelReport:
        """Cancel any run of the namespace and all below it; see `RunHandle.cancel`."""
        return await self._opened("cancel()").cancel(run_id, reason, grace)

    async def runs(self, *, all: bool = False) -> tuple[RunInfo, ...]:  # noqa: A002 - reads well at the call
        """Return the live runs of the namespace; with `all`, ended ones too, as far as they are remembered."""
        return await self._opened("runs()").supervisor.runs(ended=all)

    async def warmed(self) -> None:
        """Return when the warm processes are ready, or could not be had."""
        await self._opened("warmed()").pool.filled()

    def _opened(self, call: str) -> "OpenRuntime":
        if self._open is None:
            raise RuntimeClosedError(f"Runtime.{call}")
        return self._open

    async def _enter(self) -> "OpenRuntime":
        driver_id = new_run_id()
        supervisor = await SupervisorClient.start(self._namespace)
        queues = DriverQueues(supervisor, driver_id, self._queue_actors)
        try:
            await queues.start()
            await supervisor.hello(
                DriverHello(
                    driver_id=driver_id,
                    host=platform.node(),
                    pid=os.getpid(),
                    version=VERSION,
                    wire_version=WIRE_VERSION,
                    queues=queues.names,
                    spread_lanes=self._spread_lanes,
                    warm=self._warm,
                    warm_idle_seconds=self._warm_idle_seconds,
                    model_limits=self._model_limits,
                )
            )
        except BaseException:
            await queues.aclose()
            raise
        pool = Pool(supervisor, driver_id, queues.names, self._warm, self._schedule_timeout)
        pool.fill()
        return OpenRuntime(
            supervisor,
            queues,
            pool,
            driver_id,
            self._secrets,
            self._bounds,
            self._schedule_timeout,
            cancel_unread=self._on_reader_gone == "cancel",
        )

    def _disconnect(self) -> None:
        if self._owns_ray:
            shut_down()
        self._connected = self._owns_ray = False


def _at_least(field: str, value: float, least: int) -> None:
    if value < least:
        raise ConfigurationError(
            f"Runtime({field}={value!r})", f"it must be at least {least}", "Leave it out for the default"
        )


def _one_of(field: str, value: str, words: tuple[str, ...]) -> None:
    if value not in words:
        raise ConfigurationError(
            f"Runtime({field}={value!r})", f"it must be one of {', '.join(words)}", "Correct the word"
        )
