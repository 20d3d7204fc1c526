"""Budgets and pauses over processes: the supervisor decides, every actor heeds it."""

import json
import time
from decimal import Decimal

from runtree import Agent, Limits, Retry, RetryPolicy, Runtime, ToolContext, tool
from runtree.messages.items import RunFailed, Waiting
from runtree.providers import OpenAIChat
from runtree.providers.scripted import ScriptedModel, tool_call
from tests.kit.agents import entered
from tests.kit.gates import Gates
from tests.kit.loopback import Loopback, body
from tests.kit.metered import FREE, MeteredModel, profile
from tests.kit.stream_check import check_ledger, check_stream

RETRY_AFTER = 2.0


async def test_u08_s8_eight_parallel_children_stay_below_a_money_limit(runtime: Runtime) -> None:
    """Each would use all it is allowed to; some get less, the last get nothing and say why."""
    calls = [tool_call("sub", {"input": "x"}) for _ in range(8)]
    free = profile("free", FREE)
    lead = Agent("lead", ScriptedModel([calls, ["done"]], profile=free), agents=[Agent("sub", MeteredModel())])
    limit = Decimal(4)
    run = await runtime.start(lead, "go", limits=Limits(max_cost=limit, max_parallel=4))
    items = [item async for item in run]
    result = await run.outcome()
    check_stream(items)
    check_ledger(items, result)
    assert result.status == "completed"
    assert Decimal(3) < (result.total_cost.amount or 0) <= limit
    failed = [item.error.limit for item in items if isinstance(item, RunFailed)]
    assert failed
    assert set(failed) == {"max_cost"}


@tool
async def look(context: ToolContext) -> str:
    """Waits for the gate `go`, and then for what the supervisor has sent before."""
    await entered(context).passed("go", 60)
    await context.budget_left()
    return "looked"


async def test_s10_a_429_makes_another_actor_wait(runtime: Runtime, loopback: Loopback, gates: Gates) -> None:
    """A run that was at work already, in a process of its own, learns of it."""
    said = {"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "fine"}}]}
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    asked = {"role": "assistant", "content": None, "tool_calls": [call]}
    calling = {"choices": [{"index": 0, "finish_reason": "tool_calls", "message": asked}]}
    busy = await loopback.route(
        body(json.dumps({"error": {"message": "slow down"}}), 429, retry_after=str(RETRY_AFTER))
    )
    kind = await loopback.route(body(json.dumps(calling)), body(json.dumps(said)))
    once = [Retry(RetryPolicy(max_attempts=1))]
    refused = Agent("refused", OpenAIChat("m-1", base_url=busy.base_url, api_key="k"), middleware=once)
    model = OpenAIChat("m-1", base_url=kind.base_url, api_key="k")
    patient = Agent("patient", model, tools=[look])
    waiting = await runtime.start(patient, "go", deps=gates)
    await gates.passed("look")
    began = time.monotonic()
    end = await (await runtime.start(refused, "go")).outcome()
    assert end.error is not None
    assert end.error.code == "rate_limit"
    gates.open("go")
    items = [item async for item in waiting]
    assert (await waiting.result()).output == "fine"
    assert time.monotonic() - began >= RETRY_AFTER
    waits = [(item.what, item.detail) for item in items if isinstance(item, Waiting)]
    assert waits == [("pause", model.profile.key)] * 2
