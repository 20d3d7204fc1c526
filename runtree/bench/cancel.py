"""Cancel of a tree whose leaves hang: when the provider's sockets are closed, when all runs have ended, when all that had to go is gone."""

import asyncio
import time
from typing import Any, Final

import anyio
import ray.util

from ..actors.agent import Agent, ToolContext, tool
from ..messages.items import ModelDelta, ToolProgress
from .endpoint import Endpoint, endpoint
from .figures import Figure, Tell, median
from .place import place

_util: Any = ray.util
"""Ray's annotations are incomplete."""

_WORDS: Final = 5
"""Deltas of a leaf before it hangs in its stream."""

_LONG: Final = 3600.0
_GONE_SECONDS: Final = 20.0
"""How long processes that had to be killed are waited for."""


async def cancel(
    address: str | None, tell: Tell, *, leaves: int, rounds: int, runs_per_actor: int, listen: str
) -> list[Figure]:
    """Measure the cancel of a tree three deep: a lead, a worker for each kind of leaf, leaves.

    A third of the leaves hangs in an HTTP stream, a third in an async tool, and a third in a sync tool that sleeps, whose process has to be killed.

    Args:
        address: Of the Ray to join.
        tell: Is told what is going on.
        leaves: Leaves of each kind.
        rounds: How many trees are cancelled.
        runs_per_actor: Leaves that share a process, except for those with a sync tool.
        listen: Address of the model server.
    """
    closed: list[float] = []
    ended: list[float] = []
    gone: list[float] = []
    killed = 0
    with endpoint(listen) as server:
        tell("starting processes")
        async with place(address, leaves + leaves // runs_per_actor + 4) as runtime:
            for number in range(rounds):
                tell(f"round {number + 1} of {rounds}: a tree that hangs")
                run = await runtime.start(_tree(server, leaves, runs_per_actor), "go")
                waiting = leaves * (_WORDS + 2)
                async for item in run:
                    waiting -= isinstance(item, ToolProgress) or (isinstance(item, ModelDelta) and item.depth > 0)
                    if not waiting:
                        break
                hanging = (await asyncio.to_thread(server.stats))["hanging"]
                assert hanging == leaves, f"{hanging} of {leaves} streams hang"
                tell(f"round {number + 1} of {rounds}: cancel")
                began = time.monotonic()
                report = await run.cancel(grace=2.0)
                ended.append(time.monotonic() - began)
                gone.append(await _all_gone(began))
                stats = await asyncio.to_thread(server.stats)
                assert not stats["hanging"], f"{stats['hanging']:g} streams were left open"
                closed.append(stats["last_closed"] - began)
                killed += len(report.killed)
                run.close()
                await runtime.warmed()
    runs = 3 * leaves + 4
    return [
        Figure(name="last socket closed", value=median(closed) * 1000, unit="ms", note=_worst(closed)),
        Figure(name=f"all {runs} runs ended", value=median(ended) * 1000, unit="ms", note=_worst(ended)),
        Figure(name="processes that had to go are gone", value=median(gone) * 1000, unit="ms", note=_worst(gone)),
        Figure(name="runs that outlived their grace", value=killed, note="of all rounds"),
    ]


def _tree(server: Endpoint, leaves: int, runs_per_actor: int) -> Agent:
    light: dict[str, Any] = {"description": "hangs", "runs_per_actor": runs_per_actor}
    kinds = (
        server.agent("streams", f"hang-{_WORDS}", **light),
        server.agent("waits", "calls-wait:1", tools=[wait], **light),
        # Of its own processes, so that one sees them go.
        server.agent("sleeps", "calls-sleep:1", tools=[sleep], description="hangs", reuse=False),
    )
    workers = [
        server.agent(
            f"lead_{leaf.name}",
            f"calls-{leaf.name}:{leaves}",
            agents=[leaf],
            description="leads",
            max_tool_calls=leaves,
        )
        for leaf in kinds
    ]
    names = ",".join(f"{worker.name}:1" for worker in workers)
    return server.agent("lead", f"calls-{names}", agents=workers)


@tool
async def wait(input: str, context: ToolContext) -> str:  # noqa: A002 - what the model server calls it
    """Wait."""
    await context.progress("waits")
    await anyio.sleep(_LONG)
    return input


@tool
def sleep(input: str, context: ToolContext) -> str:  # noqa: A002 - what the model server calls it
    """Sleep."""
    context.blocking.progress("sleeps")
    time.sleep(_LONG)
    return input


async def _all_gone(began: float) -> float:
    """Return the seconds until no process of a sleeping leaf is left."""
    while time.monotonic() - began < _GONE_SECONDS:
        names: list[dict[str, str]] = await asyncio.to_thread(_util.list_named_actors, all_namespaces=True)
        if not any(actor["name"].startswith("run:sleeps:") for actor in names):
            break
        await asyncio.sleep(0.02)
    return time.monotonic() - began


def _worst(values: list[float]) -> str:
    return f"median of {len(values)}, worst {max(values) * 1000:,.0f} ms"
