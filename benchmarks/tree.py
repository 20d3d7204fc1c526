"""What a tree of runs costs: fan-out, first delta, cancel, memory.

    python benchmarks/tree.py fanout [--children 100] [--deltas 500] [--naive]
    python benchmarks/tree.py first  [--runs 50]
    python benchmarks/tree.py cancel [--runs 50] [--repeat 5]
    python benchmarks/tree.py memory
    python benchmarks/tree.py slow   [--items 2000]

Every measurement uses real HTTP against `model_server.py` on loopback. `fanout --naive` also measures plain Ray as one would first write it (an actor
for each sub-agent, one `ray.util.queue.Queue`, one item a call), which takes minutes, and prints the ratio.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import ray
from ray.util.queue import Queue

from runtree import Agent, Runtime
from runtree.messages.items import ModelDelta
from runtree.providers import OpenAIChat

QUIET: dict[str, Any] = {"logging_level": "ERROR", "object_store_memory": 300 * 2**20}


@contextmanager
def model_server() -> Iterator[str]:
    """Start the model server; gives its base URL."""
    command = [sys.executable, str(Path(__file__).with_name("model_server.py"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.terminate()


def stats(base_url: str) -> dict[str, float]:
    """Return the server's counters."""
    with urllib.request.urlopen(base_url.replace("/v1", "/stats"), timeout=10) as reply:
        return dict(json.load(reply))


def agent(base_url: str, name: str, model: str, **options: Any) -> Agent:
    """Return an agent on the model server."""
    return Agent(name, OpenAIChat(model, base_url=base_url, api_key="benchmark"), **options)


def fan(base_url: str, children: int, model: str) -> Agent:
    """Return a lead with so many calls of one worker."""
    worker = agent(base_url, "worker", model, description="works")
    return agent(base_url, "lead", f"lead-{children}", agents=[worker], max_tool_calls=children)


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


async def fanout(base_url: str, arguments: argparse.Namespace) -> None:
    """One lead, many children, every delta at the driver."""
    children, deltas = arguments.children, arguments.deltas
    async with Runtime("local", warm=children + 1, ray_options=QUIET) as runtime:
        await runtime.warmed()
        for model in ("burst-1", f"burst-{deltas}", f"burst-{deltas}"):
            cpu, began = cpu_seconds(), time.perf_counter()
            run = await runtime.start(fan(base_url, children, model), "go")
            firsts: dict[str, float] = {}
            items = 0
            async for item in run:
                if isinstance(item, ModelDelta) and item.depth == 1:
                    firsts.setdefault(item.run_id, time.perf_counter() - began)
                    items += 1
            wall = time.perf_counter() - began
            result = await run.result()
            assert items == children * int(model.partition("-")[2]), f"{items} items arrived"
            print(
                f"{children} x {model}: {wall:.2f} s wall, {cpu_seconds() - cpu:.2f} s CPU, {items / wall:,.0f} items/s, first delta "
                f"{min(firsts.values()) * 1000:.0f} ms, last first delta {max(firsts.values()) * 1000:.0f} ms, "
                f"{result.total_usage.output_tokens} tokens"
            )
        actors = private_mib("RunActor")
        print(
            f"private memory: {sum(actors):,.0f} MiB in {len(actors)} run actors, {statistics.median(actors):.1f} MiB each"
        )
    if arguments.naive:
        naive_wall = await asyncio.to_thread(naive, base_url, children, deltas)
        print(f"naive Ray: {naive_wall:.1f} s wall with its actor starts, {naive_wall / wall:.1f} x")


@ray.remote(num_cpus=0)
class NaiveWorker:
    """A sub-agent as one would first write it."""

    def run(self, base_url: str, model: str, name: int, queue: Queue) -> None:
        """Stream an answer, one queue call a delta."""
        body = {"model": model, "messages": [], "stream": True}
        with httpx.stream("POST", f"{base_url}/chat/completions", json=body, timeout=600) as response:
            for line in response.iter_lines():
                if line.startswith("data: {"):
                    for choice in json.loads(line[6:])["choices"]:
                        if text := choice["delta"].get("content"):
                            queue.put((name, text))


def naive(base_url: str, children: int, deltas: int) -> float:
    """Return the wall seconds of the same fan-out in plain Ray."""
    ray.init("local", include_dashboard=False, log_to_driver=False, **QUIET)
    began = time.perf_counter()
    queue = Queue(actor_options={"num_cpus": 0})
    workers: list[Any] = [NaiveWorker.remote() for _ in range(children)]
    calls = [w.run.remote(base_url, f"burst-{deltas}", i, queue) for i, w in enumerate(workers)]
    for _ in range(children * deltas):
        queue.get()
    ray.get(calls)
    wall = time.perf_counter() - began
    ray.shutdown()
    return wall


async def first(base_url: str, arguments: argparse.Namespace) -> None:
    """From the parent's call to a child's first delta at the driver, on warm actors."""
    times: list[float] = []
    async with Runtime("local", warm=2, ray_options=QUIET) as runtime:
        await runtime.warmed()
        for number in range(arguments.runs + 3):
            run = await runtime.start(fan(base_url, 1, "burst-5"), "go")
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


async def cancel(base_url: str, arguments: argparse.Namespace) -> None:
    """Cancel hung runs: when the last socket closes, and when the call returns."""
    closed: list[float] = []
    returned: list[float] = []
    async with Runtime("local", warm=arguments.runs + 1, ray_options=QUIET) as runtime:
        await runtime.warmed()
        for _ in range(arguments.repeat):
            run = await runtime.start(fan(base_url, arguments.runs, "hang-5"), "go")
            waiting = arguments.runs * 5
            async for item in run:
                waiting -= isinstance(item, ModelDelta) and item.depth == 1
                if not waiting:
                    break
            assert (await asyncio.to_thread(stats, base_url))["hanging"] == arguments.runs
            began = time.monotonic()
            report = await run.cancel(grace=5.0)
            returned.append(time.monotonic() - began)
            after = await asyncio.to_thread(stats, base_url)
            assert after["hanging"] == 0, f"{after['hanging']} streams left open"
            closed.append(after["last_closed"] - began)
            assert not report.killed, f"{len(report.killed)} had to be killed"
            run.close()
    print(
        f"cancel of {arguments.runs} hung runs: last socket closed {statistics.median(closed) * 1000:.0f} ms, "
        f"all acknowledged {statistics.median(returned) * 1000:.0f} ms (medians of {arguments.repeat})"
    )


@ray.remote(num_cpus=0)
class EmptyActor:
    """A Ray actor with nothing in it."""

    async def ping(self) -> None:
        """Answer."""


async def memory(base_url: str, _: argparse.Namespace) -> None:
    """Private memory of a RunActor that has run once, above an empty Ray actor."""
    async with Runtime("local", warm=2, ray_options=QUIET) as runtime:
        await runtime.warmed()
        empty: Any = EmptyActor.remote()
        await empty.ping.remote()
        await runtime.run(fan(base_url, 1, "burst-500"), "go")
        base, actors = private_mib("EmptyActor"), private_mib("RunActor")
        print(f"empty actor {base[0]:.1f} MiB, run actors {', '.join(f'{x:.1f}' for x in actors)} MiB")


async def slow(base_url: str, arguments: argparse.Namespace) -> None:
    """Memory of a tree whose reader takes 10 ms an item while its models could send a thousand times as much."""
    children, deltas = 4, 100_000
    roles = ("RunActor", "StreamQueue")
    samples: list[dict[str, float]] = []
    async with Runtime("local", warm=children + 1, ray_options=QUIET) as runtime:
        await runtime.warmed()
        await runtime.run(fan(base_url, children, "burst-500"), "go")
        run = await runtime.start(fan(base_url, children, f"burst-{deltas}"), "go")
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
    parser.add_argument("measurement", choices=["fanout", "first", "cancel", "memory", "slow"])
    parser.add_argument("--children", type=int, default=100)
    parser.add_argument("--deltas", type=int, default=500)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--items", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--naive", action="store_true")
    arguments = parser.parse_args()
    measurement = {"fanout": fanout, "first": first, "cancel": cancel, "memory": memory, "slow": slow}[
        arguments.measurement
    ]
    with model_server() as base_url:
        asyncio.run(measurement(base_url, arguments))


if __name__ == "__main__":
    main()
