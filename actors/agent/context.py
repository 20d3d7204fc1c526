"""What tools and hooks are told of the run they work for, and what they may ask of it."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import anyio.from_thread
from pydantic_core import to_jsonable_python

from ...messages.limits import Limits
from ...messages.reservations import Budget
from ...messages.result import RunResult
from .cancel_flag import CancelFlag

if TYPE_CHECKING:
    from .agent import Agent


@dataclass
class RunContext:
    """The run, as hooks see it."""

    run_id: str
    """The run."""
    root_run_id: str
    """The root of its tree."""
    depth: int
    """0 at the root."""
    attempt: int
    """Counts the actors of the run."""
    agent: str
    """Name of its agent."""
    deps: Any
    """What the caller of `start` handed over."""
    limits: Limits
    """The bounds of its sub-tree."""
    cancelled: CancelFlag
    """Set when the run has to stop."""
    emit_custom: Callable[[str, Any], None] = field(repr=False)
    """What `emit` calls."""
    ask_budget: Callable[[], Awaitable[Budget]] = field(repr=False)
    """What `budget_left` calls."""
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the caller of `start` attached."""
    turn: int = 0
    """Number of the current turn."""
    state: dict[str, Any] = field(default_factory=dict[str, Any])
    """Room for hooks; lives as long as the run."""

    def emit(self, name: str, data: Any = None) -> None:
        """Put a `custom` item into the stream."""
        self.emit_custom(name, to_jsonable_python(data))

    async def budget_left(self) -> Budget:
        """Return what the bounds over the run leave, at this moment."""
        return await self.ask_budget()


class CallServices(Protocol):
    """What stands behind a `ToolContext`; every method belongs to the run's event loop."""

    def emit_custom(self, name: str, data: Any) -> None:
        """Put a `custom` item into the stream."""
        ...

    async def progress(self, message: str, fraction: float | None) -> None:
        """Put a `tool_progress` item into the stream."""
        ...

    async def spawn(self, agent: "Agent | str", value: Any) -> RunResult:
        """Run a sub-agent."""
        ...

    async def cancel_run(self, run_id: str | None, reason: str) -> None:
        """Cancel a run."""
        ...

    async def budget(self) -> Budget:
        """Return what the bounds over the run leave."""
        ...

    @property
    def threads(self) -> set[object]:
        """One entry for each thread that works for the run."""
        ...


class ToolContext:
    """The call a tool works for. A parameter of this type is filled in by the run and hidden from the model.

    Async tools await its methods; sync tools, which run in a thread, use `blocking`.
    """

    def __init__(
        self,
        run: RunContext,
        *,
        call_id: str,
        tool_name: str,
        idempotency_key: str,
        cancelled: CancelFlag,
        services: CallServices,
    ) -> None:
        self.run_id = run.run_id
        self.root_run_id = run.root_run_id
        self.call_id = call_id
        self.tool_name = tool_name
        self.attempt = run.attempt
        self.idempotency_key = idempotency_key
        """The same for a call in every attempt of its run, and for no other call: to be handed to services that carry out a request once.

        It is `RUN:TURN:TOOL:NUMBER`, where the number counts the calls of the tool in the turn's answer. Call ids would not do: a model
        that is asked again gives new ones. It may also ask for something else at the same place: where that matters, compare the arguments.
        """
        self.deps = run.deps
        self.limits = run.limits
        self.cancelled = cancelled
        self._services = services
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    @property
    def blocking(self) -> "BlockingToolContext":
        """The same calls for sync tools: they wait in the tool's thread."""
        return BlockingToolContext(self)

    def emit(self, name: str, data: Any = None) -> None:
        """Put a `custom` item into the stream; from any thread."""
        payload = to_jsonable_python(data)
        if threading.get_ident() == self._thread:
            self._services.emit_custom(name, payload)
        else:
            self._loop.call_soon_threadsafe(self._services.emit_custom, name, payload)

    async def progress(self, message: str = "", fraction: float | None = None) -> None:
        """Tell the reader how far the tool is; waits while the reader does not keep up.

        Args:
            message: What it is doing.
            fraction: Between 0 and 1, if it knows.
        """
        await self._services.progress(message, fraction)

    async def spawn(self, agent: "Agent | str", value: Any) -> RunResult:
        """Run one of the agent's sub-agents and return its end, whatever it is; a refusal is a failed result.

        Args:
            agent: One of the `agents` of the tool's agent, or its name.
            value: Its input.

        Raises:
            AgentDefinitionError: It is none of the sub-agents.
        """
        return await self._services.spawn(agent, value)

    async def cancel(self, run_id: str | None = None, reason: str = "cancelled by a tool") -> None:
        """Cancel a run of the tree and all below it, by default the tool's own; returns when the flags are set."""
        await self._services.cancel_run(run_id, reason)

    async def budget_left(self) -> Budget:
        """Return what the bounds over the run leave, at this moment: `(await context.budget_left()).left("max_cost")`."""
        return await self._services.budget()

    @contextmanager
    def in_thread(self) -> Generator[None]:
        """Count the current thread as working for the run."""
        token = object()
        self._services.threads.add(token)
        try:
            yield
        finally:
            self._services.threads.discard(token)


class BlockingToolContext:
    """The waiting calls of `ToolContext` for tools that run in a thread."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context

    def progress(self, message: str = "", fraction: float | None = None) -> None:
        """Tell the reader how far the tool is."""
        anyio.from_thread.run(self._context.progress, message, fraction)

    def spawn(self, agent: "Agent | str", value: Any) -> RunResult:
        """Run one of the agent's sub-agents and return its end."""
        return anyio.from_thread.run(self._context.spawn, agent, value)

    def cancel(self, run_id: str | None = None, reason: str = "cancelled by a tool") -> None:
        """Cancel a run of the tree and all below it, by default the tool's own."""
        anyio.from_thread.run(self._context.cancel, run_id, reason)

    def budget_left(self) -> Budget:
        """Return what the bounds over the run leave, at this moment."""
        return anyio.from_thread.run(self._context.budget_left)
