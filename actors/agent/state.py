"""What the parts of one run share."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import anyio

from ...messages.errors import RunError, RuntreeError
from ...messages.failure import Failure
from ...messages.items import Custom, Item
from ...messages.transcript import Message
from ...messages.usage import Totals
from ...providers.protocol import Model
from ...providers.secrets import redact
from .accounts import Accounts
from .agent import Agent
from .call_ids import UniqueCallIds
from .cancel_flag import CancelFlag
from .context import RunContext
from .middleware import Hooks
from .ports import RunHost
from .repair import ThinkingRepair
from .reservations import Reservations
from .retry import Retry
from .slot import Slot
from .tool_output import describe
from .waits import Waits

if TYPE_CHECKING:
    from .agent_set import AgentSet


_LAST_MOMENT: Final = 1.0
"""Seconds for what a run that has ended still tells the supervisor."""


@dataclass(frozen=True)
class Stop:
    """Why a run was made to end before it would have by itself."""

    status: Literal["cancelled", "failed"]
    """What it ends as."""
    failure: Failure
    """Why."""
    error: RuntreeError
    """The same as hooks get it."""
    below_too: bool
    """Whether everything below the run was told by the one who stopped it."""


class RunState:
    """One run: its surroundings, its transcript so far and its accounts."""

    def __init__(
        self,
        agent: Agent,
        host: RunHost,
        agents: "AgentSet",
        key: str,
        deps: Any,
        tags: Mapping[str, str],
        spent: Totals,
    ) -> None:
        self.agent = agent
        self.host = host
        self.agents = agents
        self.key = key
        self.flag = CancelFlag()
        stamp = host.stamp
        self.context = RunContext(
            run_id=stamp.run_id,
            root_run_id=stamp.root_run_id,
            depth=stamp.depth,
            attempt=stamp.attempt,
            agent=agent.name,
            deps=deps,
            limits=host.limits,
            cancelled=self.flag,
            emit_custom=lambda name, data: self.emit(Custom, name=name, data=data),
            ask_budget=host.budget,
            tags=tags,
        )
        own_retry = any(isinstance(layer, Retry) for layer in agent.middleware)
        self.hooks = Hooks(agent.middleware if own_retry else (*agent.middleware, Retry()), self.context)
        self.call_ids = UniqueCallIds()
        self._repairs: dict[tuple[str, str], ThinkingRepair] = {}
        self.accounts = Accounts(spent)
        self.waits = Waits(self.emit)
        self.reservations = Reservations(self)
        self.slot = Slot(self)
        self._background: set[asyncio.Task[None]] = set()
        self.messages: list[Message] = []
        self.threads: set[object] = set()
        self.stop: Stop | None = None
        self.scope = anyio.CancelScope()
        self.closed = False

    def repair_of(self, model: Model) -> ThinkingRepair:
        """Return what is remembered of a model that refuses thinking of this run's history."""
        return self._repairs.setdefault((model.profile.provider, model.profile.model), ThinkingRepair())

    def end(self, stop: Stop) -> None:
        """Make the run end; the first reason stays."""
        if self.stop is None:
            self.stop = stop
            self.flag.cancel(stop.failure.message)
            self.scope.cancel()
            self.slot.wake()

    def cancel(self, reason: str) -> None:
        """Make the run end because it was cancelled, with everything below it."""
        self.end(Stop("cancelled", Failure(code="cancelled", message=reason), RunError(reason), below_too=True))

    def end_by_shutdown(self) -> None:
        """Make the run end because the task it runs in is cancelled."""
        reason = "the process is shutting down"
        self.end(Stop("cancelled", Failure(code="cancelled", message=reason), RunError(reason), below_too=False))

    def in_background(self, work: Callable[[], Awaitable[Any]]) -> "asyncio.Task[None]":
        """Do something that nobody waits for, and whose failure harms nobody."""
        task = asyncio.ensure_future(_forgiven(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def close_background(self) -> None:
        """Give what is done in the background a moment, and end it."""
        self.slot.close()
        if self._background:
            await asyncio.wait(self._background, timeout=_LAST_MOMENT)
        for task in self._background:
            task.cancel()

    def emit(self, item_type: type[Item], **fields: Any) -> None:
        """Emit an item, unless the run's terminal item is out: what a left-over thread says then is dropped."""
        if not self.closed:
            self.host.emit(item_type, **fields)

    def emit_delta(self, kind: str, **fields: Any) -> None:
        """Emit a delta under the same condition."""
        if not self.closed:
            self.host.emit_delta(kind, **fields)

    @property
    def stop_reason(self) -> str:
        """Why the run was stopped."""
        return self.stop.failure.message if self.stop is not None else "the run has ended"


async def _forgiven(work: Callable[[], Awaitable[Any]]) -> None:
    with contextlib.suppress(Exception):
        await work()


def failure_of(error: BaseException) -> Failure:
    """Return an exception as a value without secrets."""
    if isinstance(error, RuntreeError):
        failure = error.failure()
        return failure.model_copy(update={"message": redact(failure.message)})
    return Failure(code="agent_error", message=describe(error))
