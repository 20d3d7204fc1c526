"""What the loop owes to another attempt of its run: keys that stay the same, calls that are known before they are made, accounts that go on (S7, S9)."""

from decimal import Decimal
from typing import Any

from runtree.actors.agent import Agent, AgentRun, ToolContext, tool
from runtree.messages.transcript import ToolMessage
from runtree.messages.usage import Cost, Totals, Usage
from runtree.providers.scripted import ScriptedModel, tool_call
from tests.kit.host import MemoryHost, MemoryTree


async def keys_of(*turns: list[Any]) -> list[str]:
    """The keys of the calls, without the run's id."""
    keys: list[str] = []

    @tool
    async def note(context: ToolContext) -> None:
        keys.append(context.idempotency_key.removeprefix(context.run_id))

    @tool
    async def other(context: ToolContext) -> None:
        keys.append(context.idempotency_key.removeprefix(context.run_id))

    tree = MemoryTree(Agent("a", ScriptedModel([*turns, ["done"]]), tools=[note, other], max_parallel=1))
    await tree.execute()
    return keys


async def test_s7_idempotency_keys_differ_between_calls() -> None:
    turn = [tool_call("note"), tool_call("other"), tool_call("note")]
    keys = await keys_of(turn, turn)
    assert keys == [":1:note:1", ":1:other:1", ":1:note:2", ":2:note:1", ":2:other:1", ":2:note:2"]


async def test_s7_idempotency_keys_do_not_depend_on_what_changes_between_attempts() -> None:
    """Neither the ids of the calls, nor other tools that are called before them."""
    first = await keys_of([tool_call("note", call_id="x"), tool_call("note", call_id="y")])
    second = await keys_of([tool_call("other"), tool_call("note", call_id="z"), tool_call("note")])
    assert first == second[1:] == [":1:note:1", ":1:note:2"]


class Cut(MemoryHost):
    """A host whose stream is refused."""

    async def delivered(self) -> bool:
        await super().delivered()
        return False


async def run_with(host_type: type[MemoryHost], idempotent: bool) -> tuple[MemoryTree, list[str], Any]:
    made: list[str] = []
    steps: list[str] = []

    @tool(idempotent=idempotent)
    async def pay() -> str:
        made.append("paid")
        steps.append("pay")
        return "paid"

    agent = Agent("payer", ScriptedModel([[tool_call("pay")], ["done"]]), tools=[pay])
    tree = MemoryTree(agent, step=lambda _, name: steps.append(name))
    tree.root.__class__ = host_type
    result = await tree.execute()
    [told] = [message for message in result.messages if isinstance(message, ToolMessage)]
    assert ("delivered" in steps) == (not idempotent)
    if not idempotent:
        told_at, made_at = steps.index("delivered"), steps.index("pay") if made else len(steps)
        assert steps.index("ToolCallStarted") < told_at < made_at
    return tree, made, told.results[0]


async def test_s7_a_call_that_must_not_run_twice_is_known_before_it_is_made() -> None:
    _, made, result = await run_with(MemoryHost, idempotent=False)
    assert (made, result.outcome) == (["paid"], "ok")


async def test_s7_a_call_that_must_not_run_twice_is_not_made_if_nobody_knows_of_it() -> None:
    tree, made, result = await run_with(Cut, idempotent=False)
    assert (made, result.outcome) == ([], "error")
    assert "not run" in result.text
    assert [item.outcome for item in tree.of("tool_call_completed")] == ["error"]


async def test_s7_other_calls_wait_for_nothing() -> None:
    _, made, result = await run_with(Cut, idempotent=True)
    assert (made, result.outcome) == (["paid"], "ok")


async def test_s9_what_lost_attempts_used_is_in_the_result_but_not_in_the_reports() -> None:
    used = Usage(input_tokens=100, output_tokens=10, model_calls=2)
    below = Usage(input_tokens=150, output_tokens=10, model_calls=3)
    cost, below_cost = Cost(amount=Decimal(1)), Cost(amount=Decimal(3))
    spent = Totals(usage=used, cost=cost, total_usage=below, total_cost=below_cost)
    tree = MemoryTree(Agent("a", ScriptedModel([["done"]])))
    key = tree.agents.root_key
    run = AgentRun(tree.agents.agent(key), tree.root, agents=tree.agents, key=key, value="go", spent=spent)
    result = await run.execute()
    own, own_cost = run.accounts
    assert own.model_calls == 1
    assert tree.root.usage in (own, Usage(input_tokens=0, output_tokens=0))
    assert (result.usage, result.cost) == (used + own, cost + own_cost)
    assert (result.total_usage, result.total_cost) == (below + own, below_cost + own_cost)
    [end] = tree.of("run_completed")
    assert end.totals == Totals(
        usage=result.usage, cost=result.cost, total_usage=result.total_usage, total_cost=result.total_cost
    )
