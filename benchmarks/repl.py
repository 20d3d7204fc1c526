"""What a REPL cell costs: an empty one, a thousand gathered calls, the cancel of one that spins, and a large input.

python benchmarks/repl.py [--rounds 50] [--megabytes 100] [--ray]

All but the last part, which `--ray` adds, does without Ray: whole runs, from `cancel()` to the terminal item and with a large variable.
"""

import argparse
import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

from runtree import CancelFlag
from runtree.actors.repl.plain import PlainHost
from runtree.actors.repl.session import ReplSession
from runtree.messages import ReplCancelledError, ReplPolicy
from runtree.providers import ScriptedModel

CALLS = 1000
POLICY = ReplPolicy(cells=100_000, model_calls=100 * CALLS, tool_calls=100 * CALLS)
GATHER = f"""import asyncio
len(await asyncio.gather(*[model_query("q") for _ in range({CALLS})]))"""


def milliseconds(values: list[float]) -> str:
    ordered = sorted(1000 * value for value in values)
    return f"median {statistics.median(ordered):.2f} ms, worst {ordered[-1]:.2f} ms of {len(ordered)}"


async def timed(work: Callable[[], Awaitable[Any]]) -> float:
    started = time.perf_counter()
    await work()
    return time.perf_counter() - started


async def longest_stall(work: Callable[[], Awaitable[Any]]) -> tuple[float, float]:
    """Return how long the work took, and the longest time for which the event loop answered nobody."""
    worst = 0.0

    async def watch() -> None:
        nonlocal worst
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            worst, last = max(worst, now - last - 0.001), now

    watcher = asyncio.ensure_future(watch())
    await asyncio.sleep(0.05)
    worst = 0.0
    took = await timed(work)
    watcher.cancel()
    return took, worst


async def empty_cells(rounds: int) -> None:
    async with ReplSession(PlainHost(), policy=POLICY) as session:
        first = await timed(lambda: session.eval_cell("None"))
        print("first cell, process start included:", f"{1000 * first:.1f} ms")
        print("empty cell:", milliseconds([await timed(lambda: session.eval_cell("None")) for _ in range(4 * rounds)]))


async def gathered(rounds: int) -> None:
    for name, turn in (("at once", ["yes"]), ("after 20 ms", None)):
        ratios, cells = [], []
        for _ in range(max(3, rounds // 10)):
            model = slow_model() if turn is None else ScriptedModel([turn], loop=True)
            host = PlainHost(model, on_item=lambda _: None)

            async def directly(host: PlainHost = host) -> None:
                tasks = [asyncio.ensure_future(host.model_query("q", "")) for _ in range(CALLS)]
                await asyncio.gather(*tasks)

            direct = await timed(directly)
            async with ReplSession(host, policy=POLICY) as session:
                await session.eval_cell("None")
                cell = await timed(lambda session=session: session.eval_cell(GATHER))
            cells.append(cell)
            ratios.append(cell / direct)
        print(f"{CALLS} gathered calls of a model that answers {name}: {milliseconds(cells)};", end=" ")
        print(f"{statistics.median(ratios):.2f} times asyncio (worst {max(ratios):.2f})")


def slow_model() -> ScriptedModel:
    from runtree.providers.scripted import Delay

    return ScriptedModel([[Delay(0.02), "yes"]], loop=True)


async def cancels(rounds: int) -> None:
    seen: list[float] = []
    flag = CancelFlag()
    for _ in range(rounds):
        flag = CancelFlag()
        async with ReplSession(PlainHost(), policy=POLICY, cancelled=flag) as session:
            await session.eval_cell("x = 1")
            cell = asyncio.ensure_future(session.eval_cell("while True: pass"))
            await asyncio.sleep(0.02)
            started = time.perf_counter()
            flag.cancel("benchmark")
            try:
                await cell
            except ReplCancelledError:
                seen.append(time.perf_counter() - started)
    print("cancel of a spinning cell, to its result:", milliseconds(seen))


async def stalls(megabytes: int) -> None:
    text = "All work and no play. " * (megabytes * 10**6 // 22)
    async with ReplSession(PlainHost(), policy=POLICY, inputs={"context": text}) as session:
        took, stall = await longest_stall(lambda: session.eval_cell("len(context)"))
        print(f"an input of {megabytes} MB: {took:.2f} s, longest stall of the event loop {1000 * stall:.1f} ms")
        took, stall = await longest_stall(lambda: session.eval_cell("context.count('play')"))
        print(f"a cell over it: {took:.2f} s, longest stall {1000 * stall:.1f} ms")
    policy = POLICY.model_copy(update={"output_bytes": 100 * 2**20})
    async with ReplSession(PlainHost(), policy=policy) as session:
        await session.eval_cell("None")
        code = "for i in range(300_000): print('a line of what a cell prints', i)"
        took, stall = await longest_stall(lambda: session.eval_cell(code))
        print(f"300,000 printed lines: {took:.2f} s, longest stall {1000 * stall:.1f} ms")


async def runs(rounds: int, megabytes: int) -> None:
    """Measure whole runs on a Ray of their own."""
    from runtree import Agent, Runtime

    def programmer(code: str) -> Agent:
        return Agent("coder", ScriptedModel([f"```python\n{code}\n```"]), repl=ReplPolicy())

    ended: list[float] = []
    quiet = {"logging_level": "ERROR", "log_to_driver": False}
    async with Runtime("local", warm=1, ray_options=quiet) as runtime:
        await runtime.warmed()
        for _ in range(rounds):
            run = await runtime.start(programmer("emit('spins')\nwhile True: pass"), "go")
            async for item in run:
                if item.kind == "custom":
                    break
            await asyncio.sleep(0.05)  # it spins by now
            started = time.perf_counter()
            cancelling = asyncio.ensure_future(run.cancel())
            ended.extend([time.perf_counter() - started async for item in run if item.kind == "run_cancelled"])
            await cancelling
        print("cancel of a run whose cell spins, to its terminal item at the driver:", milliseconds(ended))
        text = "All work and no play. " * (megabytes * 10**6 // 22)
        for _ in range(2):
            began = time.perf_counter()
            result = await runtime.run(programmer("answer(len(context))"), "go", variables={"context": text})
            assert result.output == str(len(text))
            print(f"a run with a variable of {megabytes} MB: {time.perf_counter() - began:.2f} s")


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--ray", action="store_true")
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}")
    await empty_cells(options.rounds)
    await gathered(options.rounds)
    await cancels(options.rounds)
    await stalls(options.megabytes)
    if options.ray:
        await runs(options.rounds, options.megabytes)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    asyncio.run(main())
