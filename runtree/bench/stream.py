"""Items a second from a run to its driver, against `ray.util.queue.Queue` used item by item on the same Ray."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any, Final

import ray
from ray.util.queue import Queue

from ..actors.agent import Agent
from ..actors.runtime import Runtime
from ..messages.items import ModelDelta
from ..messages.model import Completed, ModelEvent, ModelRequest, ModelResponse, TextDelta
from ..messages.transcript import AssistantMessage, UserMessage
from ..providers.profile import ModelProfile
from ..providers.scripted import ScriptedModel, tool_call
from .figures import Figure, Tell
from .place import place

_BURST: Final = 200
"""Deltas between two looks at the event loop: about what one read of a busy socket brings."""

_LEVELS: Final = 3
_WORD: Final = "word "

_ray: Any = ray
_Queue: Any = Queue
"""Ray's annotations are incomplete."""


class BurstModel:
    """Answers with a number of equal deltas, as fast as they are taken."""

    profile = ModelProfile(provider="burst", model="burst")

    def __init__(self, items: int) -> None:
        self.items = items

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the deltas, then a short answer."""
        for index in range(self.items):
            yield TextDelta(text=_WORD)
            if index % _BURST == 0:
                await asyncio.sleep(0)
        yield Completed(response=ModelResponse(message=AssistantMessage(content=UserMessage.of("done").content)))


class Producer:
    """The baseline's actor."""

    def emit(self, queue: Any, items: int) -> None:
        """Put the texts, one call each."""
        for _ in range(items):
            queue.put(_WORD)


async def stream(
    address: str | None, tell: Tell, *, items: int, baseline_items: int, spread: bool = False
) -> list[Figure]:
    """Measure how fast items come from a root and from a leaf three levels down.

    Args:
        address: Of the Ray to join.
        tell: Is told what is going on.
        items: Deltas of each run.
        baseline_items: Texts through Ray's queue, before and after.
        spread: Also with each lane in a queue actor of its own.
    """
    rates: dict[str, float] = {}
    tell("starting processes")
    async with place(address, _LEVELS + 2) as runtime:
        await _rate(runtime, 0, 1000)
        tell("Ray's queue, item by item")
        before = await _queue_rate(baseline_items)
        tell("a root that streams")
        rates["a root"] = await _rate(runtime, 0, items)
        tell("a leaf that streams")
        rates[f"a leaf {_LEVELS} levels down"] = await _rate(runtime, _LEVELS, items)
        tell("Ray's queue again")
        after = await _queue_rate(baseline_items)
    if spread:
        tell("a leaf, each lane in a queue actor of its own")
        async with place(address, _LEVELS + 2, queue_actors=_LEVELS + 2, spread_lanes=True) as runtime:
            await _rate(runtime, 0, 1000)
            rates["the leaf, a queue actor for each lane"] = await _rate(runtime, _LEVELS, items)
    baseline = (before + after) / 2
    note = f"{before:,.0f} before, {after:,.0f} after"
    return [
        Figure(name="baseline: ray.util.queue.Queue", value=baseline, unit="/s", ratio=1.0, note=note),
        *(Figure(name=name, value=rate, unit="/s", ratio=rate / baseline) for name, rate in rates.items()),
    ]


def _nested(levels: int, items: int) -> Agent:
    """Return an agent whose leaf, so many levels down, emits the deltas."""
    agent = Agent("leaf", BurstModel(items), description="emits")
    for level in range(levels):
        script = ScriptedModel([[tool_call(agent.name, {"input": "go"})], ["done"]])
        agent = Agent(f"level{level}", script, agents=[agent], description="passes on")
    return agent


async def _rate(runtime: Runtime, levels: int, items: int) -> float:
    """Return items a second between the first and the last delta at the driver."""
    run = await runtime.start(_nested(levels, items), "go")
    first = last = 0.0
    count = 0
    async for item in run:
        if isinstance(item, ModelDelta) and item.text == _WORD:
            last = time.perf_counter()
            first = first or last
            count += 1
    await run.result()
    assert count == items, f"{count} of {items} deltas arrived"
    return items / (last - first)


async def _queue_rate(items: int) -> float:
    """Return texts a second through Ray's queue."""
    queue = _Queue(maxsize=4096, actor_options={"num_cpus": 0})
    producer = _ray.remote(num_cpus=0)(Producer).remote()
    try:
        done = producer.emit.remote(queue, items)
        await queue.get_async()
        began = time.perf_counter()
        for _ in range(items - 1):
            await queue.get_async()
        rate = (items - 1) / (time.perf_counter() - began)
        await done
        return rate
    finally:
        _ray.kill(producer)
        queue.shutdown(force=True)
