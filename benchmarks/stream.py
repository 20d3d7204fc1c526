"""Items per second from a run to its driver, against `ray.util.queue.Queue` used item by item in the same process layout.

    python benchmarks/stream.py [--items 200000] [--queue-items 3000]

Measures three layouts in one run: a root that emits text deltas to the driver; a leaf three levels down with all lanes in one queue actor; and
the same leaf with each lane in a queue actor of its own. The baseline is one actor that puts each text into a Ray queue, from which the driver
takes them one at a time. The figure to quote is the ratio: both sides see the same machine at the same time.
"""

import argparse
import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import ray
from ray.util.queue import Queue

from runtree import Agent, Runtime
from runtree.messages.items import ModelDelta
from runtree.messages.model import Completed, ModelEvent, ModelRequest, ModelResponse, TextDelta
from runtree.messages.transcript import AssistantMessage, UserMessage
from runtree.providers import ModelProfile, ScriptedModel
from runtree.providers.scripted import tool_call

BURST = 200
"""Deltas between two looks at the event loop: about what one read of a busy socket brings."""


class BurstModel:
    """Answers with a number of equal deltas, as fast as they are taken."""

    profile = ModelProfile(provider="burst", model="burst")

    def __init__(self, items: int) -> None:
        self.items = items

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the deltas, then a short answer."""
        for index in range(self.items):
            yield TextDelta(text="word ")
            if index % BURST == 0:
                await asyncio.sleep(0)
        yield Completed(response=ModelResponse(message=AssistantMessage(content=UserMessage.of("done").content)))


def nested(levels: int, items: int) -> Agent:
    """Return an agent whose leaf, so many levels down, emits the deltas."""
    agent = Agent("leaf", BurstModel(items), description="emits")
    for level in range(levels):
        script = ScriptedModel([[tool_call(agent.name, {"input": "go"})], ["done"]])
        agent = Agent(f"level{level}", script, agents=[agent], description="passes on")
    return agent


async def rate_of(runtime: Runtime, agent: Agent, items: int) -> float:
    """Return items per second between the first and the last delta at the driver."""
    run = await runtime.start(agent, "go")
    first = last = 0.0
    count = 0
    async for item in run:
        if isinstance(item, ModelDelta) and item.text == "word ":
            last = time.perf_counter()
            first = first or last
            count += 1
    assert count == items, f"{count} of {items} deltas arrived"
    await run.result()
    return items / (last - first)


@ray.remote(num_cpus=0)
class QueueProducer:
    """The baseline's producer."""

    def emit(self, queue: Queue, items: int) -> None:
        """Put the texts, one call each."""
        for _ in range(items):
            queue.put("word ")


async def queue_rate(items: int) -> float:
    """Return items per second through Ray's queue."""
    queue = Queue(maxsize=4096, actor_options={"num_cpus": 0})
    producer: Any = QueueProducer.remote()
    done = producer.emit.remote(queue, items)
    await queue.get_async()
    began = time.perf_counter()
    for _ in range(items - 1):
        await queue.get_async()
    rate = (items - 1) / (time.perf_counter() - began)
    await done
    ray.kill(producer)
    queue.shutdown(force=True)
    return rate


async def measure(items: int, queue_items: int) -> dict[str, float]:
    """Return the rate of each layout."""
    rates: dict[str, float] = {}
    options: dict[str, Any] = {"ray_options": {"logging_level": "ERROR"}, "warm": 5}
    async with Runtime("local", **options) as runtime:
        await runtime.warmed()
        await rate_of(runtime, nested(0, 1000), 1000)
        rates["ray queue"] = await queue_rate(queue_items)
        rates["root"] = await rate_of(runtime, nested(0, items), items)
        rates["leaf, shared queue actor"] = await rate_of(runtime, nested(3, items), items)
        rates["ray queue, again"] = await queue_rate(queue_items)
    async with Runtime("local", **options, queue_actors=5, spread_lanes=True) as runtime:
        await runtime.warmed()
        await rate_of(runtime, nested(0, 1000), 1000)
        rates["leaf, a queue actor a lane"] = await rate_of(runtime, nested(3, items), items)
    return rates


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--items", type=int, default=200_000)
    parser.add_argument("--queue-items", type=int, default=3_000)
    arguments = parser.parse_args()
    rates = asyncio.run(measure(arguments.items, arguments.queue_items))
    baseline = (rates["ray queue"] + rates["ray queue, again"]) / 2
    for name, rate in rates.items():
        print(f"{name:30} {rate:12,.0f} items/s {rate / baseline:8.1f} x")


if __name__ == "__main__":
    main()
