"""What Ray shows of runtree: metrics for Prometheus, and the names of its actors."""

import asyncio
import re

import httpx

from runtree import Agent, Runtime
from runtree.providers.scripted import Hang, ScriptedModel, tool_call
from tests.kit import ray_state
from tests.kit.eventually import eventually

NAMESPACE = "measured"


def samples() -> dict[str, float]:
    """The metrics of the namespace as Prometheus reads them from the node's agent, summed over processes."""
    found: dict[str, float] = {}
    for line in httpx.get(ray_state.metrics_address(), timeout=10, trust_env=False).text.splitlines():
        read = re.fullmatch(r"ray_runtree_(\w+)\{(.*)\} (\S+)", line)
        if read is None or f'namespace="{NAMESPACE}"' not in read[2]:
            continue
        labels = dict(re.findall(r'(\w+)="([^"]*)"', read[2]))
        tags = [labels[name] for name in ("agent", "status", "direction", "outcome", "state") if name in labels]
        key = " ".join([read[1], *tags])
        found[key] = found.get(key, 0) + float(read[3])
    return found


async def test_metrics_arrive_at_the_agent_of_the_node_and_names_at_ray(cluster: None) -> None:
    worker = Agent("worker", ScriptedModel([["I think", Hang()]]), description="works")
    lead = Agent("lead", ScriptedModel([[tool_call("worker", {"input": "go"})]]), agents=[worker])
    async with Runtime(namespace=NAMESPACE, warm=1) as runtime:
        await runtime.warmed()
        run = await runtime.start(lead, "go")
        async for item in run:
            if item.kind == "model_delta":
                break
        child = next(info.run_id for info in await runtime.runs() if info.depth == 1)
        names = ray_state.shown_names()
        assert f"supervisor:{NAMESPACE}" in names
        assert f"run:worker:{child}" in names, "a cold actor is named after its run"
        assert any(re.fullmatch(r"run:warm:\w{26}:1", name) for name in names)
        assert any(re.fullmatch(r"queue:\w{26}:0", name) for name in names)
        await run.cancel()
        await runtime.run(Agent("echo", ScriptedModel([["one two"]])), "go")

        seen: dict[str, float] = {}

        async def arrived() -> bool:
            seen.update(await asyncio.to_thread(samples))
            return seen.get("runs_ended_total echo completed") == 1

        await eventually(arrived, 20)
    assert seen["runs_started_total lead"] == seen["runs_started_total worker"] == 1
    assert seen["runs_ended_total worker cancelled"] == 1
    assert seen["live_runs lead"] == seen["live_runs worker"] == 0
    assert seen["tokens_total echo output"] > 0
    assert seen["pool_leases_total hit"] == 2
    assert seen["pool_leases_total miss"] == 1
    assert seen["pool_actors idle"] + seen["pool_actors held"] == 1
    assert seen["cancel_seconds_count"] == 1
    assert {"queue_items", "queue_bytes"} <= set(seen)
    assert seen["drivers"] == 1
