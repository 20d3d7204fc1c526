"""Cancel of a tree whose leaves hang: when the provider's sockets are closed, when all runs have ended, when all that had to go is gone."""

import asyncio
import time
from typing import Any, Final

import anyio
import ray
import ray.util

from ..actors.agent import Agent, ToolContext, tool
from ..actors.handle import RunHandle
from ..messages.errors import RuntimeUnavailableError
from ..messages.items import ModelDelta, RunFailed, ToolProgress
from .endpoint import Endpoint, endpoint
from .figures import Figure, Tell, median
from .place import place

_ray: Any = ray
_util: Any = ray.util
"""Ray's annotations are incomplete."""

_WORDS: Final = 5
"""Deltas of a leaf before it hangs in its stream."""

_LONG: Final = 3600.0
_GONE_SECONDS: Final = 20.0
"""How long processes that had to be killed are waited for."""


async def cancel(
    address: str | None,
    tell: Tell,
    *,
    groups: int,
    leaves: int,
    blocking: int,
    rounds: int,
    runs_per_actor: int,
    listen: str,
) -> list[Figure]:
    """Measure the cancel of a tree four deep: a lead, a lead for each kind of leaf, its groups, their leaves.

    Leaves hang in an HTTP stream, in an async tool, or in a sync tool that sleeps, whose process has to be killed.

    Args:
        address: Of the Ray to join.
        tell: Is told what is going on.
        groups: Groups of each kind.
        leaves: Leaves of each group of the first two kinds.
        blocking: Leaves of each group of the third kind, each in a process of its own.
        rounds: How many trees are cancelled.
        runs_per_actor: Runs that share a process, except for those with a sync tool.
        listen: Address of the model server.
    """
    closed: list[float] = []
    ended: list[float] = []
    gone: list[float] = []
    killed = 0
    each = groups * leaves
    sleeping = groups * blocking
    runs = 2 * each + sleeping + 3 * (groups + 1) + 1
    with endpoint(listen) as server:
        tell("starting processes")
        async with place(address, sleeping + (runs - sleeping) // runs_per_actor + 4) as runtime:
            for number in range(rounds):
                tell(f"round {number + 1} of {rounds}: a tree that hangs")
                run = await runtime.start(_tree(server, groups, (leaves, leaves, blocking), runs_per_actor), "go")
                blocked = await _until_all_hang(run, each * (_WORDS + 1) + sleeping)
                hanging = (await asyncio.to_thread(server.stats))["hanging"]
                assert hanging == each, f"{hanging} of {each} streams hang"
                tell(f"round {number + 1} of {rounds}: cancel")
                began = time.monotonic()
                report = await run.cancel(grace=2.0)
                ended.append(time.monotonic() - began)
                gone.append(await _all_gone(began, blocked))
                stats = await asyncio.to_thread(server.stats)
                assert not stats["hanging"], f"{stats['hanging']:g} streams were left open"
                closed.append(stats["last_closed"] - began)
                killed += len(report.killed)
                run.close()
                await runtime.warmed()
    return [
        Figure(name="last socket closed", value=median(closed) * 1000, unit="ms", note=_worst(closed)),
        Figure(name=f"all {runs} runs ended", value=median(ended) * 1000, unit="ms", note=_worst(ended)),
        Figure(name="processes that had to go are gone", value=median(gone) * 1000, unit="ms", note=_worst(gone)),
        Figure(name="runs that outlived their grace", value=killed, note="of all rounds"),
    ]


def _tree(server: Endpoint, groups: int, leaves: tuple[int, int, int], runs_per_actor: int) -> Agent:
    light: dict[str, Any] = {"description": "hangs", "runs_per_actor": runs_per_actor}
    kinds = (
        server.agent("streams", f"hang-{_WORDS}", **light),
        server.agent("waits", "calls-wait:1", tools=[wait], **light),
        server.agent("sleeps", "calls-sleep:1", tools=[sleep], description="hangs"),
    )

    def lead(of: Agent, name: str, count: int) -> Agent:
        options = {**light, "description": "leads"}
        return server.agent(name, f"calls-{of.name}:{count}", agents=[of], max_tool_calls=count, **options)

    leads = [
        lead(lead(leaf, f"group_{leaf.name}", count), f"lead_{leaf.name}", groups)
        for leaf, count in zip(kinds, leaves, strict=True)
    ]
    return server.agent("lead", f"calls-{','.join(f'{each.name}:1' for each in leads)}", agents=leads)


async def _until_all_hang(run: RunHandle, waiting: int) -> set[str]:
    """Read so many deltas and reports of leaves, the last before they hang; returns the names of the actors that have to be killed."""
    names: set[str] = set()
    async for item in run:
        if isinstance(item, ToolProgress):
            waiting -= 1
            if item.tool_name == sleep.name:
                names.add(item.message)
        elif isinstance(item, ModelDelta) and item.depth > 0:
            waiting -= 1
        elif isinstance(item, RunFailed):
            raise RuntimeUnavailableError("benchmark", f"a run failed: {item.error}", "Look at `ray status`")
        if not waiting:
            break
    return names


@tool
async def wait(input: str, context: ToolContext) -> str:  # noqa: A002 - what the model server calls it
    """Wait."""
    await context.progress("waits")
    await anyio.sleep(_LONG)
    return input


@tool
def sleep(input: str, context: ToolContext) -> str:  # noqa: A002 - what the model server calls it
    """Tell in which actor it sleeps."""
    context.blocking.progress(_ray.get_runtime_context().get_actor_name())
    time.sleep(_LONG)
    return input


async def _all_gone(began: float, sleeping: set[str]) -> float:
    """Return the seconds until none of the actors is left."""
    while time.monotonic() - began < _GONE_SECONDS:
        names: list[dict[str, str]] = await asyncio.to_thread(_util.list_named_actors, all_namespaces=True)
        if sleeping.isdisjoint(actor["name"] for actor in names):
            break
        await asyncio.sleep(0.02)
    return time.monotonic() - began


def _worst(values: list[float]) -> str:
    return f"median of {len(values)}, worst {max(values) * 1000:,.0f} ms"
