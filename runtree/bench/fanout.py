"""A lead and many sub-agents that stream over HTTP, against the same streams read by bare httpx in one process."""

import asyncio
import time

import httpx
from pydantic_core import from_json

from ..actors.runtime import Runtime
from ..messages.items import ModelDelta
from .endpoint import Endpoint, endpoint
from .figures import Figure, Tell, median
from .place import place


async def fanout(
    address: str | None, tell: Tell, *, children: int, deltas: int, rounds: int, runs_per_actor: int, listen: str
) -> list[Figure]:
    """Measure the time until every delta of every sub-agent has arrived at the driver.

    Args:
        address: Of the Ray to join.
        tell: Is told what is going on.
        children: Sub-agents.
        deltas: Deltas of each.
        rounds: How often both sides take their turn.
        runs_per_actor: Sub-agents that share a process.
        listen: Address of the model server.
    """
    walls: list[float] = []
    firsts: list[float] = []
    bare: list[float] = []
    with endpoint(listen) as server:
        tell("starting processes")
        warm = children // runs_per_actor + 1
        async with place(address, warm) as runtime:
            await read_tree(runtime, server, children, 1, runs_per_actor)
            for number in range(rounds):
                tell(f"round {number + 1} of {rounds}: bare httpx")
                bare.append(await _bare(server, children, deltas))
                tell(f"round {number + 1} of {rounds}: runtree")
                wall, first = await read_tree(runtime, server, children, deltas, runs_per_actor)
                walls.append(wall)
                firsts.append(first)
    base, wall = median(bare), median(walls)
    items = children * deltas
    return [
        Figure(name="baseline: bare httpx, one process", value=base, unit="s", ratio=1.0, note=_range(bare)),
        Figure(name="runtree, every delta at the driver", value=wall, unit="s", ratio=base / wall, note=_range(walls)),
        Figure(name="runtree, deltas", value=items / wall, unit="/s"),
        Figure(name="last sub-agent's first delta", value=median(firsts) * 1000, unit="ms", note="after the start"),
    ]


async def read_tree(
    runtime: Runtime, server: Endpoint, children: int, deltas: int, runs_per_actor: int
) -> tuple[float, float]:
    """Run a lead with sub-agents; returns the seconds until its end, and until each sub-agent has said something."""
    agent = server.fan(children, f"burst-{deltas}", runs_per_actor=runs_per_actor)
    began = time.perf_counter()
    run = await runtime.start(agent, "go")
    firsts: dict[str, float] = {}
    items = 0
    async for item in run:
        if isinstance(item, ModelDelta) and item.depth == 1:
            firsts.setdefault(item.run_id, time.perf_counter() - began)
            items += 1
    wall = time.perf_counter() - began
    await run.result()
    assert items == children * deltas, f"{items} of {children * deltas} deltas arrived"
    return wall, max(firsts.values())


async def _bare(server: Endpoint, children: int, deltas: int) -> float:
    """Return the seconds that a loop written by hand takes for the same streams."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    headers = {"authorization": f"Bearer {server.token}"}
    began = time.perf_counter()
    async with httpx.AsyncClient(
        base_url=server.base_url, headers=headers, limits=limits, timeout=60, trust_env=False
    ) as client:
        counts = await asyncio.gather(*(_bare_stream(client, f"burst-{deltas}") for _ in range(children)))
    assert sum(counts) == children * deltas
    return time.perf_counter() - began


async def _bare_stream(client: httpx.AsyncClient, model: str) -> int:
    count = 0
    body = {"model": model, "messages": [{"role": "user", "content": "go"}], "stream": True}
    async with client.stream("POST", "/chat/completions", json=body) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                for choice in from_json(line[6:])["choices"]:
                    count += bool(choice["delta"].get("content"))
    return count


def _range(values: list[float]) -> str:
    return f"median of {len(values)}, {min(values):.2f} to {max(values):.2f}"
