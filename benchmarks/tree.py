"""What a tree of runs costs: fan-out, first delta, cancel, memory.

    python benchmarks/tree.py fanout [--children 100] [--deltas 500] [--naive]
    python benchmarks/tree.py first  [--runs 50]
    python benchmarks/tree.py memory
    python benchmarks/tree.py slow   [--items 2000]

Every measurement uses real HTTP against the model server of `runtree.bench` on loopback. `fanout --naive` also measures plain Ray as one would first write it (an actor
for each sub-agent, one `ray.util.queue.Queue`, one item a call), which takes minutes, and prints the ratio.
"""

import argparse
import asyncio
import json
import statistics
import time
from typing import Any

import httpx
import psutil
import ray
from ray.util.queue import Queue

from runtree import Runtime
from runtree.bench.endpoint import Endpoint, endpoint
from runtree.bench.fanout import read_tree
from runtree.messages.items import ModelDelta

QUIET: dict[str, Any] = {"logging_level": "ERROR", "object_store_memory": 300 * 2**20}


def processes() -> list[psutil.Process]:
    """Return this process and all below it."""
    me = psutil.Process()
    return [me, *me.children(recursive=True)]


def cpu_seconds() -> float:
    """Return the CPU seconds of all processes that live."""
    total = 0.0
    for process in processes():
        times = process.cpu_times()
        total += times.user + times.system
    return total


def private_mib(role: str) -> list[float]:
    """Return the private memory of the actors of a class."""
    found = [p for p in processes() if (p.cmdline() or [""])[0].startswith(f"ray::{role}")]
    return [p.memory_full_info().uss / 2**20 for p in found]


async def fanout(server: Endpoint, arguments: argparse.Namespace) -> None:
    """One lead, many children, every delta at the driver: what `runtree bench fanout` measures, with CPU and memory."""
    children, deltas, packed = arguments.children, arguments.deltas, arguments.runs_per_actor
    async with Runtime("local", warm=children // packed + 1, ray_options=QUIET) as runtime:
        await runtime.warmed()
        for each in (1, deltas, deltas):
            cpu = cpu_seconds()
            wall, last_first = await read_tree(runtime, server, children, each, packed)
            print(
                f"{children} x {each}: {wall:.2f} s wall, {cpu_seconds() - cpu:.2f} s CPU, {children * each / wall:,.0f} items/s, "
                f"last first delta {last_first * 1000:.0f} ms"
            )
        actors = private_mib("RunActor")
        print(
            f"private memory: {sum(actors):,.0f} MiB in {len(actors)} run actors, {statistics.median(actors):.1f} MiB each"
        )
    if arguments.naive:
        naive_wall = await asyncio.to_thread(naive, server, children, deltas)
        print(f"naive Ray: {naive_wall:.1f} s wall with its actor starts, {naive_wall / wall:.1f} x")


@ray.remote(num_cpus=0)
class NaiveWorker:
    """A sub-agent as one would first write it."""

    def run(self, base_url: str, token: str, model: str, name: int, queue: Queue) -> None:
        """Stream an answer, one queue call a delta."""
        body = {"model": model, "messages": [], "stream": True}
        headers = {"authorization": f"Bearer {token}"}
        with httpx.stream("POST", f"{base_url}/chat/completions", json=body, headers=headers, timeout=600) as response:
            for line in response.iter_lines():
                if line.startswith("data: {"):
                    for choice in json.loads(line[6:])["choices"]:
                        if text := choice["delta"].get("content"):
                            queue.put((name, text))


def naive(server: Endpoint, children: int, deltas: int) -> float:
    """Return the wall seconds of the same fan-out in plain Ray."""
    ray.init("local", include_dashboard=False, log_to_driver=False, **QUIET)
    began = time.perf_counter()
    queue = Queue(actor_options={"num_cpus": 0})
    workers: list[Any] = [NaiveWorker.remote() for _ in range(children)]
    calls = [w.run.remote(server.base_url, server.token, f"burst-{deltas}", i, queue) for i, w in enumerate(workers)]
    for _ in range(children * deltas):
        queue.get()
    ray.get(calls)
    wall = time.perf_counter() - began
    ray.shutdown()
    return wall


async def first(server: Endpoint, arguments: argparse.Namespace) -> None:
    """From the parent's call to a child's first delta at the driver, on warm actors."""
    times: list[float] = []
    async with Runtime("local", warm=2, ray_options=QUIET) as runtime:
        await runtime.warmed()
        for number in range(arguments.runs + 3):
            run = await runtime.start(server.fan(1, "burst-5"), "go")
            called = 0.0
            async for item in run:
                if item.kind == "assistant_message" and item.depth == 0 and not called:
                    called = time.perf_counter()
                if isinstance(item, ModelDelta) and item.depth == 1 and len(times) == max(0, number - 3):
                    if number >= 3:
                        times.append(time.perf_counter() - called)
                    break
            await run.result()
    print(f"first child delta after its call: median {statistics.median(times) * 1000:.1f} ms of {len(times)}")


@ray.remote(num_cpus=0)
class EmptyActor:
    """A Ray actor with nothing in it."""

    async def ping(self) -> None:
        """Answer."""


async def memory(server: Endpoint, _: argparse.Namespace) -> None:
    """Private memory of a RunActor that has run once, above an empty Ray actor."""
    async with Runtime("local", warm=2, ray_options=QUIET) as runtime:
        await runtime.warmed()
        empty: Any = EmptyActor.remote()
        await empty.ping.remote()
        await runtime.run(server.fan(1, "burst-500"), "go")
        base, actors = private_mib("EmptyActor"), private_mib("RunActor")
        print(f"empty actor {base[0]:.1f} MiB, run actors {', '.join(f'{x:.1f}' for x in actors)} MiB")


async def slow(server: Endpoint, arguments: argparse.Namespace) -> None:
    """Memory of a tree whose reader takes 10 ms an item while its models could send a thousand times as much."""
    children, deltas = 4, 100_000
    roles = ("RunActor", "StreamQueue")
    samples: list[dict[str, float]] = []
    async with Runtime("local", warm=children + 1, ray_options=QUIET) as runtime:
        await runtime.warmed()
        await runtime.run(server.fan(children, "burst-500"), "go")
        run = await runtime.start(server.fan(children, f"burst-{deltas}"), "go")
        taken = 0
        async for _ in run:
            await asyncio.sleep(0.01)
            taken += 1
            if taken % 100 == 0:
                samples.append({role: sum(private_mib(role)) for role in roles})
            if taken == arguments.items:
                break
        report = await run.cancel(grace=5.0)
        run.close()
    for role in roles:
        figures = [sample[role] for sample in samples]
        print(
            f"{role}: {figures[0]:.1f} MiB after 100 items, {figures[-1]:.1f} MiB after {taken}, at most {max(figures):.1f} MiB"
        )
    print(f"cancelled in {report.elapsed * 1000:.0f} ms with full buffers, {len(report.killed)} killed")


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description="What a tree of runs costs.")
    parser.add_argument("measurement", choices=["fanout", "first", "memory", "slow"])
    parser.add_argument("--children", type=int, default=100)
    parser.add_argument("--deltas", type=int, default=500)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--items", type=int, default=2000)
    parser.add_argument("--runs-per-actor", type=int, default=1)
    parser.add_argument("--naive", action="store_true")
    arguments = parser.parse_args()
    measurement = {"fanout": fanout, "first": first, "memory": memory, "slow": slow}[arguments.measurement]
    with endpoint() as server:
        asyncio.run(measurement(server, arguments))


if __name__ == "__main__":
    main()
