"""Hooks around a run, its model calls and its tool calls: an onion whose outermost layer is the first registered.

Hooks are shared by everything that happens in one run at the same time: keep what belongs to one call in local variables.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import TypeAlias, TypeVar

from ...messages.content import ToolCallBlock
from ...messages.errors import RuntreeError
from ...messages.model import ModelEvent, ModelRequest, ModelResponse, ReasoningDelta, TextDelta, ToolCallDelta
from ...messages.result import RunResult
from ...messages.transcript import ToolResult
from ...providers.retry import closable
from .context import RunContext
from .tool_output import describe

T = TypeVar("T")

DeltaEvent: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta
"""What `on_model_delta` sees."""
ModelNext: TypeAlias = Callable[[ModelRequest], AsyncIterator[ModelEvent]]
"""The model, or the next layer in front of it."""
ToolNext: TypeAlias = Callable[[ToolCallBlock], Awaitable[ToolResult]]
"""The tool, or the next layer in front of it."""


class Middleware:
    """Base of hooks; override what you need. What a hook raises ends the run as failed."""

    async def before_run(self, ctx: RunContext) -> None:
        """Run before the first turn."""

    async def after_run(self, ctx: RunContext, result: RunResult) -> None:
        """Run once the run has ended in whatever way, if `before_run` of this hook did."""

    async def before_model(self, ctx: RunContext, request: ModelRequest) -> ModelRequest:
        """Return the request to send."""
        return request

    async def after_model(self, ctx: RunContext, response: ModelResponse) -> ModelResponse:
        """Return the response to go on with."""
        return response

    async def on_model_delta(self, ctx: RunContext, event: DeltaEvent) -> DeltaEvent | None:
        """Return what readers see in place of a piece of text, reasoning or arguments; `None` for nothing."""
        return event

    def wrap_model(self, ctx: RunContext, request: ModelRequest, call_next: ModelNext) -> AsyncIterator[ModelEvent]:
        """Call the model; write it as an async generator that yields the events of `call_next(request)`.

        The last event is `Completed` or `Failed`. What the generator does after it has yielded an answer is awaited; after a failure, or
        where the run is cancelled, only what stands in `finally` is done.
        """
        return call_next(request)

    async def wrap_tool(self, ctx: RunContext, call: ToolCallBlock, call_next: ToolNext) -> ToolResult:
        """Run a tool or sub-agent."""
        return await call_next(call)

    async def on_error(self, ctx: RunContext, error: BaseException) -> None:
        """Learn, once, why the run fails."""


class HookError(RuntreeError):
    """A hook raised; the run fails."""

    def __init__(self, hook: str, problem: str) -> None:
        super().__init__(hook, problem)
        self.hook, self.problem = hook, problem

    def __str__(self) -> str:
        return f"hook {self.hook} raised {self.problem}"


class Hooks:
    """The hooks of a run, sorted by what they override, so that what nobody overrides costs nothing."""

    def __init__(self, middleware: Sequence[Middleware], ctx: RunContext) -> None:
        self._ctx = ctx
        self._all = tuple(middleware)
        self._entered: list[Middleware] = []
        self._before_model = self._overriding("before_model")
        self._after_model = self._overriding("after_model")[::-1]
        self._on_delta = self._overriding("on_model_delta")[::-1]
        self._wrap_model = self._overriding("wrap_model")[::-1]
        self._wrap_tool = self._overriding("wrap_tool")[::-1]

    def _overriding(self, name: str) -> list[Middleware]:
        return [layer for layer in self._all if getattr(type(layer), name) is not getattr(Middleware, name)]

    @property
    def sees_deltas(self) -> bool:
        """Whether deltas have to pass through `delta`."""
        return bool(self._on_delta)

    async def before_run(self) -> None:
        """Enter the onion."""
        for layer in self._all:
            self._entered.append(layer)
            await _guard(layer, "before_run", layer.before_run(self._ctx))

    async def after_run(self, result: RunResult) -> None:
        """Leave the onion; every layer that was entered is left, then the first error is raised."""
        problem: RuntreeError | None = None
        for layer in reversed(self._entered):
            try:
                await _guard(layer, "after_run", layer.after_run(self._ctx, result))
            except RuntreeError as error:
                problem = problem or error
        self._entered.clear()
        if problem is not None:
            raise problem

    async def before_model(self, request: ModelRequest) -> ModelRequest:
        """Return the request as the hooks want it."""
        for layer in self._before_model:
            request = await _guard(layer, "before_model", layer.before_model(self._ctx, request))
        return request

    async def after_model(self, response: ModelResponse) -> ModelResponse:
        """Return the response as the hooks want it."""
        for layer in self._after_model:
            response = await _guard(layer, "after_model", layer.after_model(self._ctx, response))
        return response

    async def delta(self, event: DeltaEvent) -> DeltaEvent | None:
        """Return what readers are to see."""
        seen: DeltaEvent | None = event
        for layer in self._on_delta:
            if seen is None:
                return None
            seen = await _guard(layer, "on_model_delta", layer.on_model_delta(self._ctx, seen))
        return seen

    def model(self, call: ModelNext, opened: list[AsyncIterator[ModelEvent]]) -> ModelNext:
        """Return the model with every layer around it.

        Args:
            call: The model.
            opened: Gets every stream that is opened, the model's too, for the caller to close: a layer whose reader has left, or that
                leaves early itself, closes nothing below it.
        """
        call = _kept(call, opened)
        for layer in self._wrap_model:
            call = _kept(self._layer(layer, call), opened)
        return call

    def _layer(self, layer: Middleware, call_next: ModelNext) -> ModelNext:
        return lambda request: _guard_stream(layer, lambda: layer.wrap_model(self._ctx, request, call_next))

    def tool(self, call: ToolNext) -> ToolNext:
        """Return a tool call with every layer around it."""
        for layer in self._wrap_tool:
            call = self._tool_layer(layer, call)
        return call

    def _tool_layer(self, layer: Middleware, call_next: ToolNext) -> ToolNext:
        return lambda call: _guard(layer, "wrap_tool", layer.wrap_tool(self._ctx, call, call_next))

    async def on_error(self, error: BaseException) -> None:
        """Tell the hooks; what they raise themselves is dropped, the run fails anyway."""
        cause = error.__cause__ if isinstance(error, HookError) and error.__cause__ is not None else error
        for layer in self._overriding("on_error"):
            try:
                await _guard(layer, "on_error", layer.on_error(self._ctx, cause))
            except RuntreeError:
                continue  # the first error is the one to report


async def _guard(layer: Middleware, name: str, call: Awaitable[T]) -> T:
    try:
        return await call
    except RuntreeError:
        raise
    except (Exception, asyncio.CancelledError) as error:
        raise _of_hook(error, layer, name) from error


def _kept(call: ModelNext, opened: list[AsyncIterator[ModelEvent]]) -> ModelNext:
    def keep(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        stream = call(request)
        opened.append(stream)
        return stream

    return keep


async def _guard_stream(
    layer: Middleware, opening: Callable[[], AsyncIterator[ModelEvent]]
) -> AsyncGenerator[ModelEvent, None]:
    try:
        async with aclosing(closable(opening())) as stream:
            async for event in stream:
                yield event
    except RuntreeError:
        raise
    except (Exception, asyncio.CancelledError) as error:
        raise _of_hook(error, layer, "wrap_model") from error


def _of_hook(error: BaseException, layer: Middleware, name: str) -> HookError:
    if isinstance(error, asyncio.CancelledError) and is_cancelled():
        raise error
    return HookError(f"{type(layer).__name__}.{name}", describe(error))


def is_cancelled() -> bool:
    """Return whether somebody cancels the current task. If not, a cancel comes from something that was waited for, and is an error like others."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
