"""What one Supervisor actor carries: a simulated load of runs, calls without actors behind them.

    python benchmarks/supervisor_load.py [--runs 10000] [--clients 4] [--at-once 200] [--fan 100] [--profile]

Client processes play the actors of trees: each run is admitted (by `--fan` siblings in one call), begins, reserves a model call under a bound of its tree, reports twice and
ends, one call after the other; so many runs of a client are at work at once, and share its natural batches. Then one tree of all runs is made, whose
processes each keep a long-poll open, and is cancelled: from the call until the last poll is answered. Each run has a process name of its own there, so
that there are as many polls as runs. An actor that does nothing but answer as many waiting calls of the same processes is the baseline: what Ray takes for them. `--profile` plays the first part against the registry in this process and prints where the time goes.
"""

import argparse
import asyncio
import cProfile
import pstats
import time
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import psutil
import ray

from runtree.actors.supervision.desk import Answer, Call, Desk
from runtree.actors.supervision.mailboxes import Mailboxes
from runtree.actors.supervision.registry import Registry
from runtree.actors.supervisor_client import SupervisorClient
from runtree.messages.control import (
    AdmitRequest,
    Admitted,
    CancelRequest,
    ChildRequest,
    DriverHello,
    EndReport,
    Order,
    RunReport,
)
from runtree.messages.limits import Limits
from runtree.messages.reservations import ReserveRequest
from runtree.messages.usage import Cost, Usage
from runtree.messages.version import VERSION, WIRE_VERSION

NAMESPACE = "supervisor-load"
SETTLE_SECONDS = 3.0
"""For calls that wait to have arrived."""

CALLS_A_RUN = 5
"""begin, reserve, report, report, end; its share of an admission comes on top."""


def hello(driver_id: str) -> DriverHello:
    """Return the introduction of a driver; it lives as long as its first queue does, for which the first client stands."""
    return DriverHello(
        driver_id=driver_id, host="load", pid=1, version=VERSION, wire_version=WIRE_VERSION, queues=("load-0",)
    )


def admission(driver_id: str, parent: str | None, names: Sequence[str], number: int) -> AdmitRequest:
    """Return the request for a fan-out."""
    limits = Limits(max_tokens=2**50) if parent is None else None
    children = tuple(ChildRequest(run_id=name, agent="worker", limits=limits) for name in names)
    return AdmitRequest(driver_id=driver_id, parent_run_id=parent, number=number, children=children)


def accounts(run_id: str, number: int) -> dict[str, Any]:
    """Return the accounts of a run after so many of its calls."""
    return {
        "run_id": run_id,
        "attempt": 1,
        "number": number,
        "usage": Usage(input_tokens=100 * number, output_tokens=50 * number, model_calls=number),
        "cost": Cost(amount=Decimal(number) / 1000),
    }


async def live(supervisor: SupervisorClient, name: str) -> None:
    """Play a run."""
    await supervisor.begin(name, 1)
    request = ReserveRequest(run_id=name, attempt=1, number=1, model_calls=1, input_tokens=500, output_tokens=500)
    granted = await supervisor.reserve(request)
    assert granted.granted_model_calls == 1, granted
    await supervisor.report(RunReport(**accounts(name, 2), settled={1: 300}))
    await supervisor.report(RunReport(**accounts(name, 3)))
    await supervisor.end(EndReport(**accounts(name, 4), status="completed"))


class Bare:
    """An actor with waiting calls and nothing else."""

    def __init__(self) -> None:
        self.open = asyncio.Event()

    async def poll(self, process: str, seen: int) -> str:
        """Wait for the answer, which is as long as an order to cancel."""
        await self.open.wait()
        return f"{process} {seen} {'-' * 200}"

    async def answer(self) -> None:
        """Answer all that wait."""
        self.open.set()


class Client:
    """A process that plays runs."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.driver_id = f"load-{number}"
        self.batches: Counter[int] = Counter()
        self.answered: list[float] = []
        self.told: asyncio.Queue[None] = asyncio.Queue()
        self.polls: list[asyncio.Task[None]] = []
        self.bare: list[asyncio.Task[float]] = []
        self.names: Sequence[str] = ()

    async def join(self) -> None:
        """Get ready."""
        await self.use(await SupervisorClient.join(NAMESPACE))

    async def use(self, supervisor: SupervisorClient) -> None:
        """Call this supervisor, and count its batches."""
        self.supervisor = supervisor
        send = supervisor._send

        async def counted(calls: Any) -> Any:
            self.batches[len(calls)] += 1
            return await send(calls)

        supervisor._small._send = counted
        await self.supervisor.hello(hello(self.driver_id))

    async def play(self, runs: int, fan: int, at_once: int) -> tuple[int, float]:
        """Play so many runs below one root; returns the calls that were made, and the mean size of a batch."""
        root = f"root-{self.number}"
        await self.supervisor.admit(admission(self.driver_id, None, [root], 0))
        names = [f"run-{self.number}-{index}" for index in range(runs)]
        fans = [names[index : index + fan] for index in range(0, runs, fan)]
        room = asyncio.Semaphore(max(1, at_once // fan))

        async def branch(number: int, children: list[str]) -> None:
            async with room:
                parent = f"lead-{self.number}-{number}"
                await self.supervisor.admit(admission(self.driver_id, root, [parent], number + 1))
                reply = await self.supervisor.admit(admission(self.driver_id, parent, children, 0))
                assert all(isinstance(each, Admitted) for each in reply.admissions)
                await asyncio.gather(*(live(self.supervisor, child) for child in children))
                await live(self.supervisor, parent)

        await asyncio.gather(*(branch(number, children) for number, children in enumerate(fans)))
        await live(self.supervisor, root)
        calls: int = sum(size * times for size, times in self.batches.items())
        return calls, calls / self.batches.total()

    async def hang(self, root: str, processes: Sequence[str]) -> None:
        """Keep a long-poll open for each of the processes; the run ends once it is told to."""

        def note(_: Order) -> None:
            self.answered.append(time.monotonic())
            self.told.put_nowait(None)

        self.names = processes
        self.polls = [
            asyncio.create_task(self.supervisor.poll_for_ever(f"run:worker:{name}", note, 60.0)) for name in processes
        ]
        await asyncio.gather(*(self.supervisor.begin(name, 1) for name in processes))

    async def answers(self) -> float:
        """Return when the last poll was answered."""
        for _ in self.names:
            await self.told.get()
        for poll in self.polls:
            poll.cancel()
        return max(self.answered)

    async def hang_bare(self, bare: Any, processes: Sequence[str]) -> None:
        """Keep as many calls of an actor that does nothing else open."""
        self.bare = [asyncio.ensure_future(self.wait_bare(bare, name)) for name in processes]

    async def wait_bare(self, bare: Any, process: str) -> float:
        """Return when a waiting call was answered."""
        await bare.poll.remote(process, 0)
        return time.monotonic()

    async def answers_bare(self) -> float:
        """Return when the last of them was answered."""
        return max(await asyncio.gather(*self.bare))

    async def end(self) -> None:
        """End the runs that were told to."""
        ends = (self.supervisor.end(EndReport(**accounts(name, 1), status="cancelled")) for name in self.names)
        await asyncio.gather(*ends)


async def throughput(supervisor: SupervisorClient, clients: list[Any], arguments: argparse.Namespace) -> None:
    """Play the trees and print calls a second."""
    each = arguments.runs // len(clients)
    process = psutil.Process((await supervisor.describe()).pid)
    cpu, began = cpu_of(process), time.perf_counter()
    played = await asyncio.gather(*(client.play.remote(each, arguments.fan, arguments.at_once) for client in clients))
    wall = time.perf_counter() - began
    cpu = cpu_of(process) - cpu
    calls = sum(calls for calls, _ in played)
    print(
        f"{each * len(clients)} runs by {len(clients)} clients, {arguments.at_once} at once in each: {wall:.2f} s, {calls / wall:,.0f} calls/s "
        f"({len(clients) * each / wall:,.0f} runs/s with an admission, a reservation, two reports and an end each), "
        f"{played[0][1]:.0f} calls a batch; "
        f"{cpu:.2f} s CPU of the supervisor, {cpu / calls * 1e6:.0f} µs a call"
    )


def cpu_of(process: psutil.Process) -> float:
    """Return the CPU seconds of a process."""
    times = process.cpu_times()
    return times.user + times.system


async def cancel(supervisor: SupervisorClient, clients: list[Any], arguments: argparse.Namespace) -> None:
    """Cancel a tree of runs that all wait in a poll, and print how long it took."""
    await supervisor.hello(hello("load"))
    await supervisor.admit(admission("load", None, ["hanging"], 0))
    await supervisor.begin("hanging", 1)
    names = [f"hanging-{index}" for index in range(arguments.runs)]
    for index in range(0, len(names), arguments.fan):
        await supervisor.admit(admission("load", "hanging", names[index : index + arguments.fan], index + 1))
    shares = [names[index :: len(clients)] for index in range(len(clients))]
    baseline = await floor(clients, shares)
    await asyncio.gather(*(client.hang.remote("hanging", share) for client, share in zip(clients, shares, strict=True)))
    await asyncio.sleep(SETTLE_SECONDS)
    process = psutil.Process((await supervisor.describe()).pid)
    cpu, began = cpu_of(process), time.monotonic()
    request = CancelRequest(run_id="hanging", reason="load", grace=30.0)
    cancelling = asyncio.ensure_future(supervisor.cancel(request))
    last = max(await asyncio.gather(*(client.answers.remote() for client in clients)))
    cpu = cpu_of(process) - cpu
    await asyncio.gather(*(client.end.remote() for client in clients))
    await supervisor.end(EndReport(**accounts("hanging", 1), status="cancelled"))
    report = await cancelling
    print(
        f"cancel of {len(names)} runs with as many waiting polls in {len(clients)} processes: last poll answered after "
        f"{last - began:.2f} s ({(last - began) / baseline:.1f} x the {baseline:.2f} s that Ray takes for as many calls), all ended after {time.monotonic() - began:.2f} s, {len(report.cancelled)} cancelled; {cpu:.2f} s CPU of the supervisor"
    )


async def floor(clients: list[Any], shares: Sequence[Sequence[str]]) -> float:
    """Return the seconds from a call that lets as many waiting calls go until the last of them is answered."""
    make: Any = ray.remote
    remote = make(num_cpus=0, max_concurrency=2 * sum(map(len, shares)))(Bare)
    bare: Any = remote.remote()
    await asyncio.gather(*(client.hang_bare.remote(bare, share) for client, share in zip(clients, shares, strict=True)))
    await asyncio.sleep(SETTLE_SECONDS)
    began = time.monotonic()
    await bare.answer.remote()
    last = max(await asyncio.gather(*(client.answers_bare.remote() for client in clients)))
    ray.kill(bare)
    return last - began


def profile(arguments: argparse.Namespace) -> None:
    """Play the load against a registry in this process, and print where the time goes."""
    desk = Desk(Registry(NAMESPACE, Mailboxes()))

    class Here(SupervisorClient):
        async def _send(self, calls: Sequence[Call]) -> Sequence[Answer]:
            return desk.answer(calls)

    async def play() -> None:
        client = Client(0)
        await client.use(Here(None, NAMESPACE))
        began = time.perf_counter()
        await client.play(arguments.runs, arguments.fan, arguments.at_once)
        wall = time.perf_counter() - began
        print(
            f"{arguments.runs} runs in one process: {wall:.2f} s, {arguments.runs * (CALLS_A_RUN + 1) / wall:,.0f} calls/s"
        )

    profiler = cProfile.Profile()
    if arguments.profile:
        profiler.enable()
    asyncio.run(play())
    profiler.disable()
    if arguments.profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


async def measure(arguments: argparse.Namespace) -> None:
    """Start a supervisor and its clients, and measure."""
    supervisor = await SupervisorClient.start(NAMESPACE)
    try:
        remote: Any = ray.remote(num_cpus=0)(Client)
        clients: list[Any] = [
            remote.options(name=f"load-{number}").remote(number) for number in range(arguments.clients)
        ]
        await asyncio.gather(*(client.join.remote() for client in clients))
        await throughput(supervisor, clients, arguments)
        await cancel(supervisor, clients, arguments)
    finally:
        await supervisor.down()


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description="What one Supervisor actor carries.")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--at-once", type=int, default=200)
    parser.add_argument("--fan", type=int, default=100)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    if arguments.profile:
        profile(arguments)
        return
    ray.init("local", include_dashboard=False, log_to_driver=False, namespace=NAMESPACE)
    asyncio.run(measure(arguments))
    ray.shutdown()


if __name__ == "__main__":
    main()
