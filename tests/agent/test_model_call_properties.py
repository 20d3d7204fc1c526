"""What holds for every model call, however models, hooks and cancels fall together: L2, L3, L7, T4, D4, S3, S4, S9, L03, K07, R02 to R04, U06, U07."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import anyio
import anyio.lowlevel
from hypothesis import given, settings
from hypothesis import strategies as st

from runtree.actors.agent import Agent, Middleware, Retry, RunContext, ToolContext, tool
from runtree.messages.content import TextBlock, ThinkingBlock, ToolCallBlock
from runtree.messages.failure import Failure
from runtree.messages.limits import Limits
from runtree.messages.model import (
    Completed,
    Failed,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from runtree.messages.result import RunResult
from runtree.messages.transcript import AssistantMessage, ToolMessage
from runtree.messages.usage import NO_COST, NO_USAGE, Usage
from runtree.providers import FallbackModel
from runtree.providers.profile import ModelProfile, Price
from runtree.providers.retry import RetryPolicy
from runtree.providers.scripted import Hang, ScriptedModel, Turn
from tests.agent.test_loop import assert_valid
from tests.kit.host import MemoryTree
from tests.kit.leftovers import nothing_left

PRICE = Price(input=3, output=7)  # type: ignore[arg-type]
QUICK = RetryPolicy(initial=0.0005, maximum=0.0005, max_attempts=2)
USAGES = (
    Usage(precision="unknown"),
    Usage(input_tokens=9, precision="unknown"),
    Usage(input_tokens=9, output_tokens=4),
)


@tool
async def echo(context: ToolContext, word: str) -> str:
    """Say it again."""
    context.deps.append((context.call_id, word))
    await anyio.lowlevel.checkpoint()
    return word


# Models


class Acting(ScriptedModel):
    """A scripted model that raises where the script says `!`, and `?` for a cancel that nobody asked for."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        async with aclosing(super().stream(request)) as events:
            async for event in events:
                if isinstance(event, TextDelta) and event.text in "!?":
                    raise ValueError("broken") if event.text == "!" else asyncio.CancelledError
                yield event


def _split(call_id: str, word: str, cut: int) -> list[ToolCallDelta]:
    raw = f'{{"word":"{word}"}}'
    return [ToolCallDelta(call_id=call_id, tool_name="echo", arguments=piece) for piece in (raw[:cut], raw[cut:])]


texts = st.sampled_from(["a", "bc", "dä "]).map(lambda text: TextDelta(text=text))
thoughts = st.builds(ReasoningDelta, text=st.sampled_from(["hm", "so "]), index=st.integers(0, 1))
calls = st.builds(_split, st.sampled_from(["c", "d"]), st.sampled_from(["x", "y"]), st.integers(0, 12))
said = st.lists(st.one_of(texts.map(lambda e: [e]), thoughts.map(lambda e: [e]), calls), max_size=3)


def _once(groups: list[list[Any]]) -> list[Any]:
    """The pieces in their order, of two calls of one id the first only."""
    parts: list[Any] = []
    ids: set[str] = set()
    for group in groups:
        first = group[0]
        if isinstance(first, ToolCallDelta):
            if first.call_id in ids:
                continue
            ids.add(first.call_id)
        parts.extend(group)
    return parts


failures = st.builds(
    lambda code, retryable, usage: Failed(error=Failure(code=code, message="no", retryable=retryable), usage=usage),
    st.sampled_from(["overloaded", "transport", "authentication", "thinking_rejected"]),
    st.booleans(),
    st.sampled_from(USAGES),
)


def _whole(word: str, reason: str, cached: bool) -> Any:
    content: list[Any] = [ThinkingBlock(text="hm", signature="s")]
    if reason == "tool_calls":
        raw = f'{{"word":"{word}"}}'
        content.append(ToolCallBlock(call_id="c", tool_name="echo", arguments={"word": word}, arguments_json=raw))
    elif reason != "length":
        content.append(TextBlock(text=word))
    message = AssistantMessage(content=tuple(content), finish_reason=reason)  # type: ignore[arg-type]
    return [Completed(response=ModelResponse(message=message, finish_reason=message.finish_reason, cached=cached))]


wholes = st.builds(
    _whole, st.sampled_from(["x", "y"]), st.sampled_from(["stop", "tool_calls", "length", "pause"]), st.booleans()
)


def _ended(groups: list[list[Any]], end: Any) -> Any:
    parts = _once(groups)
    if end == "cut":
        return Turn((*parts, TextDelta(text="e")), complete=False)
    # The end may fall inside a call.
    return Turn((*parts[: len(parts) - 1], end)) if len(parts) > 2 else Turn((*parts, end))


ends = st.one_of(failures, st.just("cut"), st.just(Hang()), st.just(TextDelta(text="!")), st.just(TextDelta(text="?")))
tries = st.one_of(said.map(lambda groups: Turn(tuple(_once(groups)))), wholes, st.builds(_ended, said, ends))
scripts = st.lists(st.lists(tries, min_size=1, max_size=4), min_size=1, max_size=3)


# Hooks


class Careless(Middleware):
    """Leaves a stream at its failure or after some events, and asks again."""

    def __init__(self, patience: int) -> None:
        self.patience = patience

    async def wrap_model(self, ctx: RunContext, request: ModelRequest, call_next: Any) -> AsyncIterator[ModelEvent]:
        patience = self.patience
        async for event in call_next(request):
            patience -= 1
            if isinstance(event, Failed) or not patience:
                break
            yield event
            if isinstance(event, Completed):
                return
        async for event in call_next(request):
            yield event


class Watching(Middleware):
    """Counts what it is shown."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def on_model_delta(self, ctx: RunContext, event: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        self.seen.append(event.text if isinstance(event, TextDelta | ReasoningDelta) else event.arguments)
        return event


class Breaking(Middleware):
    """Raises at a delta, in a layer or at the end."""

    def __init__(self, place: str, at: int) -> None:
        self.place, self.left = place, at

    def _count(self, place: str) -> None:
        if place == self.place:
            self.left -= 1
            if self.left < 0:
                raise ValueError("hook")

    async def on_model_delta(self, ctx: RunContext, event: Any) -> Any:
        self._count("delta")
        return event

    async def after_model(self, ctx: RunContext, response: ModelResponse) -> ModelResponse:
        self._count("after")
        return response

    async def wrap_model(self, ctx: RunContext, request: ModelRequest, call_next: Any) -> AsyncIterator[ModelEvent]:
        async for event in call_next(request):
            self._count("layer")
            yield event


hooks = st.lists(
    st.one_of(
        st.builds(Careless, st.integers(0, 5)),
        st.builds(Middleware),
        st.builds(Breaking, st.sampled_from(["delta", "after", "layer"]), st.integers(0, 6)),
    ),
    max_size=2,
)


# What holds


def kept(tree: MemoryTree, field: str) -> str:
    """What a reader keeps who obeys `attempt_discarded`."""
    pieces = {item.seq: getattr(item, field) for item in tree.of("model_delta")}
    for item in tree.of("attempt_discarded"):
        pieces = {seq: piece for seq, piece in pieces.items() if not item.first_seq <= seq <= item.last_seq}
    return "".join(pieces.values())


def check_text(tree: MemoryTree, result: RunResult) -> None:
    answers = [message for message in result.messages if isinstance(message, AssistantMessage)]
    assert kept(tree, "text") == "".join(message.text for message in answers)


def check_calls(tree: MemoryTree, result: RunResult, executed: Sequence[tuple[str, str]]) -> None:
    started = [item.call_id for item in tree.of("tool_call_started")]
    assert len(set(started)) == len(started), "an id is used for one call only"
    said = [call for message in result.messages if isinstance(message, AssistantMessage) for call in message.tool_calls]
    whole = {(call.call_id, (call.arguments or {}).get("word")) for call in said if not call.truncated}
    assert set(executed) <= whole
    assert len({call_id for call_id, _ in executed}) == len(executed), "run twice"
    assert len(executed) <= result.usage.tool_calls
    results = [
        each.call_id for message in result.messages if isinstance(message, ToolMessage) for each in message.results
    ]
    assert results == [call.call_id for call in said]


def check_ledger(result: RunResult) -> None:
    usage = sum((line.usage for line in result.model_calls), NO_USAGE)
    assert usage == result.usage.model_copy(update={"tool_calls": 0})
    assert sum((line.cost for line in result.model_calls), NO_COST).amount == result.cost.amount
    assert result.usage.model_calls == sum(not line.cached for line in result.model_calls)


def chain(scripts: Sequence[Sequence[Any]]) -> list[ScriptedModel]:
    return [
        Acting(script, profile=ModelProfile(provider="scripted", model=f"m{number}", price=PRICE))
        for number, script in enumerate(scripts)
    ]


async def run(tree: MemoryTree, ticks: int | None) -> RunResult:
    """Run a tree, and cancel it after so many rounds of the event loop."""
    agent_run = tree.run()

    async def cancel() -> None:
        for _ in range(ticks or 0):
            await anyio.lowlevel.checkpoint()
        agent_run.cancel("at any point")

    with anyio.fail_after(10), nothing_left():
        cancelling = asyncio.create_task(cancel()) if ticks is not None else None
        result = await agent_run.execute()
        if cancelling is not None:
            cancelling.cancel()
            await asyncio.wait({cancelling})
    tree.check()
    return result


@settings(max_examples=150)
@given(scripts, hooks, st.none() | st.integers(0, 60), st.sampled_from([None, 40]))
async def test_every_model_call(
    scripts: list[list[Any]], layers: list[Middleware], ticks: int | None, room: int | None
) -> None:
    executed: list[tuple[str, str]] = []
    watching = Watching()
    agent = Agent(
        "lead",
        FallbackModel(*chain(scripts)),
        tools=[echo],
        middleware=[watching, *layers, Retry(QUICK)],
        max_turns=4,
        model_settings=ModelSettings(max_output_tokens=room),
    )
    tree = MemoryTree(agent, deps=executed, limits=Limits(model_call_timeout=0.004))
    result = await run(tree, ticks)
    assert_valid(result)
    # A careless hook repeats what it does not discard; that is its own fault.
    if not any(isinstance(layer, Careless) for layer in layers):
        check_text(tree, result)
    check_calls(tree, result, executed)
    check_ledger(result)
    shown = [item.text + item.reasoning for item in tree.of("model_delta")]
    shown += [item.delta for item in tree.of("tool_call_args_delta")]
    assert sorted(filter(None, watching.seen)) == sorted(filter(None, shown))
