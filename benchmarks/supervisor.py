"""What the supervisor's answers cost, with its store and without, in one process and without Ray: the registry, the desk, and the group commit.

    python benchmarks/supervisor.py [--runs 2000] [--reports 10] [--callers 64]

A tree of so many runs is admitted one by one, each begins, reports so many times, and ends. Each of the callers makes one call after the other, and
is answered when its change is committed; what they ask at the same time arrives in one batch, as it does from the processes of a node. CPU
is that of the whole process, with the thread that writes; latency is what one caller sees.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Coroutine, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from runtree.actors.batcher import Batcher
from runtree.actors.supervision.desk import Answer, Call, Desk
from runtree.actors.supervision.keeper import Keeper
from runtree.actors.supervision.mailboxes import Mailboxes
from runtree.actors.supervision.registry import Registry
from runtree.actors.supervision.restored import restored
from runtree.actors.supervision.store import Store
from runtree.messages import Cost, Limits, Usage
from runtree.messages.control import AdmitRequest, ChildRequest, DriverHello, EndReport, RunReport

IDENTITY = {"supervisor": "bench", "version": "0", "wire_version": "0"}


class Bench:
    """A supervisor without its actor."""

    def __init__(self, path: Path | None) -> None:
        self.mailboxes = Mailboxes()
        self.registry = Registry("bench", self.mailboxes)
        self.desk = Desk(self.registry)
        self.store = Store.open(path, IDENTITY)[0] if path is not None else None
        self.keeper = Keeper(self.mailboxes.changes, self.store.write, str(path)) if self.store is not None else None
        self.batcher: Batcher[Call, Answer] = Batcher(self._send, lambda call: sum(len(str(arg)) for arg in call))

    async def _send(self, calls: Sequence[Call]) -> Sequence[Answer]:
        answers = self.desk.answer(calls)
        if self.keeper is not None:
            await self.keeper.saved()
        else:
            self.mailboxes.changes.take()
            await asyncio.sleep(0)
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    async def play(self, name: str, calls: Sequence[Call], callers: int) -> None:
        """Make the calls, so many at a time, and print what they cost."""
        latencies: list[float] = []
        todo = iter(calls)

        async def caller() -> None:
            for call in todo:
                began = time.perf_counter()
                await self.batcher.ask(call)
                latencies.append(time.perf_counter() - began)

        commits = self.keeper.commits if self.keeper is not None else 0
        wall, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(caller() for _ in range(callers)))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        commits = self.keeper.commits - commits if self.keeper is not None else 0
        print(
            f"  {name:8} {len(calls) / wall:9,.0f} calls/s  {cpu / len(calls) * 1e6:6.1f} µs CPU  "
            f"median {statistics.median(latencies) * 1e3:6.2f} ms  commits {commits:6,}"
        )


def child(number: int) -> ChildRequest:
    return ChildRequest(run_id=f"01HZZZZZZZZZZZZZZZZZ{number:06}", agent="researcher", call_id=f"call_{number}")


def admission(number: int, parent: str | None) -> Call:
    limits = Limits(max_cost=Decimal(10**6), max_depth=8) if parent is None else None
    children = (child(number).model_copy(update={"limits": limits}),)
    return ["admit", AdmitRequest(driver_id="d", parent_run_id=parent, number=number, children=children).to_json()]


def report(run_id: str, number: int) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "attempt": 1,
        "number": number,
        "usage": Usage(input_tokens=1000 * number, output_tokens=100 * number, model_calls=number),
        "cost": Cost(amount=Decimal("0.0123") * number),
    }


async def measure(runs: int, reports: int, callers: int, path: Path | None) -> None:
    """Play the life of a tree."""
    bench = Bench(path)
    hello = DriverHello(driver_id="d", host="h", pid=1, version="0", wire_version=0, queues=("q",))
    root = child(0).run_id
    await bench.play("join", [["join", hello.to_json()], admission(0, None)], 1)
    ids = [child(number).run_id for number in range(1, runs + 1)]
    await bench.play("admit", [admission(number, root) for number in range(1, runs + 1)], callers)
    await bench.play("begin", [["begin", run_id, 1] for run_id in ids], callers)
    calls: list[Call] = [
        ["report", RunReport(**report(run_id, number)).to_json()] for number in range(1, reports + 1) for run_id in ids
    ]
    await bench.play("report", calls, callers)
    alone: list[Call] = [["report", RunReport(**report(run_id, reports + 1)).to_json()] for run_id in ids[:500]]
    await bench.play("alone", alone, 1)
    ends = [["end", EndReport(**report(run_id, reports + 2), status="completed").to_json()] for run_id in ids]
    await bench.play("end", ends, callers)
    if bench.keeper is not None and bench.store is not None and path is not None:
        await bench.keeper.aclose()
        bench.store.close()
        restart(path, runs)


def restart(path: Path, runs: int) -> None:
    """Print what it takes to go on from the store, and how large it is."""
    began = time.perf_counter()
    restored("bench", Mailboxes(), Store.open(path, IDENTITY)[1], 0.0)
    seconds = time.perf_counter() - began
    print(
        f"  restart  {seconds * 1e3:9,.1f} ms, {seconds / runs * 1e6:.1f} µs and {path.stat().st_size / runs:,.0f} bytes a run"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--reports", type=int, default=10)
    parser.add_argument("--callers", type=int, default=64)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        works: list[tuple[str, Coroutine[Any, Any, None]]] = [
            (name, measure(arguments.runs, arguments.reports, arguments.callers, path))
            for name, path in (("without a store", None), ("with its store", Path(folder) / "store.db"))
        ]
        for name, work in works:
            print(name)
            asyncio.run(work)


if __name__ == "__main__":
    main()
