"""Many parallel runs under one limit: that nobody ever gets above it, and how fast the supervisor decides."""

import asyncio
import platform
import time
from typing import Any, Final

import ray.util

from ..actors.runtime import Runtime
from ..actors.supervisor_client import SupervisorClient
from ..messages.control import AdmitRequest, ChildRequest, DriverHello, RunReport
from ..messages.ids import new_run_id
from ..messages.limits import Limits
from ..messages.reservations import ReserveRequest
from ..messages.result import RunResult
from ..messages.usage import Usage
from ..messages.version import VERSION, WIRE_VERSION
from .endpoint import Endpoint, endpoint
from .figures import Figure, Tell
from .place import NAMESPACE, place

_util: Any = ray.util
"""Ray's annotations are incomplete."""

_ASKERS: Final = 64
"""Runs that ask the supervisor at the same time."""


async def budget(address: str | None, tell: Tell, *, children: int, seconds: float, listen: str) -> list[Figure]:
    """Measure trees whose children want twice what a limit leaves, and the rate of decisions.

    Args:
        address: Of the Ray to join.
        tell: Is told what is going on.
        children: Parallel sub-agents.
        seconds: How long the supervisor is asked for decisions.
        listen: Address of the model server.
    """
    with endpoint(listen) as server:
        tell("starting processes")
        async with place(address, children + 1) as runtime:
            tell(f"{children} sub-agents under a limit of model calls")
            calls = await _model_calls(runtime, server, children)
            tell(f"{children} sub-agents under a limit of tokens")
            tokens = await _tokens(runtime, server, children)
            tell("decisions")
            rate = await _decisions(seconds)
    return [
        *calls,
        *tokens,
        Figure(name="reservations and settlements", value=rate, unit="/s", note=f"{_ASKERS} at once"),
    ]


async def _model_calls(runtime: Runtime, server: Endpoint, children: int) -> list[Figure]:
    limit = 1 + children // 2
    result = await _run(runtime, server, children, Limits(max_model_calls=limit))
    return _under("model calls", limit, result.total_usage.model_calls, children + 2)


async def _tokens(runtime: Runtime, server: Endpoint, children: int) -> list[Figure]:
    # The server bills 20 tokens of input for each call, and a token for each delta; the lead calls twice.
    wanted = children * 120 + 40
    result = await _run(runtime, server, children, Limits(max_tokens=wanted // 2))
    return _under("tokens", wanted // 2, result.total_usage.tokens, wanted)


async def _run(runtime: Runtime, server: Endpoint, children: int, limits: Limits) -> RunResult:
    run = await runtime.start(server.fan(children, "burst-100"), "go", limits=limits)
    run.close()  # nobody reads
    return await run.outcome()


def _under(what: str, limit: int, used: int, wanted: int) -> list[Figure]:
    note = f"limit {limit}, wanted {wanted}" + ("" if used <= limit else f": ABOVE by {used - limit}")
    return [Figure(name=f"{what} used", value=used, note=note, kept=used <= limit)]


async def _decisions(seconds: float) -> float:
    """Return how many calls a second the supervisor answers for runs that have no process behind them."""
    supervisor = await SupervisorClient.join(NAMESPACE)
    driver_id = new_run_id()
    named: list[dict[str, str]] = await asyncio.to_thread(_util.list_named_actors, all_namespaces=True)
    queues = [each["name"] for each in named if each["namespace"] == NAMESPACE and each["name"].startswith("queue:")]
    await supervisor.hello(
        DriverHello(
            driver_id=driver_id,
            host=platform.node(),
            pid=0,
            version=VERSION,
            wire_version=WIRE_VERSION,
            queues=tuple(queues),
        )
    )
    try:
        root = new_run_id()
        limits = Limits(max_tokens=10**12)
        await supervisor.admit(
            AdmitRequest(driver_id=driver_id, children=(ChildRequest(run_id=root, agent="root", limits=limits),))
        )
        runs = tuple(ChildRequest(run_id=new_run_id(), agent="asker") for _ in range(_ASKERS))
        await supervisor.admit(AdmitRequest(driver_id=driver_id, parent_run_id=root, number=1, children=runs))
        began = time.perf_counter()
        counts = await asyncio.gather(*(_ask(supervisor, run.run_id, began + seconds) for run in runs))
        return sum(counts) / (time.perf_counter() - began)
    finally:
        await supervisor.leave(driver_id)


async def _ask(supervisor: SupervisorClient, run_id: str, until: float) -> int:
    """Reserve tokens for a call and settle it, in turn; returns how often the supervisor answered."""
    number = 0
    while time.perf_counter() < until:
        number += 2
        request = ReserveRequest(
            run_id=run_id, attempt=1, number=number, model_calls=1, input_tokens=100, output_tokens=100
        )
        reply = await supervisor.reserve(request)
        assert reply.granted_model_calls == 1
        usage = Usage(input_tokens=number, output_tokens=number, model_calls=number // 2)
        report = RunReport(run_id=run_id, attempt=1, number=number + 1, usage=usage, settled={number: 4})
        await supervisor.report(report)
    return number
