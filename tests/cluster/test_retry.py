"""Runs whose process is killed, and that are started again (S7, X10, X11): leaf, inner run and root."""

from collections.abc import Sequence
from typing import Any

import pytest

from runtree import Agent, RunFailedError, RunHandle, RunResult, Runtime
from runtree.messages.usage import NO_COST, NO_USAGE
from runtree.providers.scripted import ScriptedModel, tool_call
from tests.kit.agents import die, die_at_pay, die_once, dying_inner, lead, leaf, user
from tests.kit.gates import Gates
from tests.kit.stream_check import attempts_of, check_ledger, check_stream, ends_of, runs_of, text_of


async def play(runtime: Runtime, agent: Agent, gates: Gates) -> tuple[list[Any], RunResult]:
    run = await runtime.start(agent, "go", deps=gates)
    return await told(runtime, run, [item async for item in run])


async def told(runtime: Runtime, run: RunHandle, items: list[Any]) -> tuple[list[Any], RunResult]:
    """The stream is whole, says what result and ledger say, and nothing of the tree lives."""
    check_stream(items)
    result = await run.outcome()
    check_ledger(items, result)
    check_accounts(items[-1], result)
    assert not [info for info in await runtime.runs() if info.root_run_id == run.run_id]
    return items, result


def check_accounts(end: Any, result: RunResult) -> None:
    """The totals are the sums of the runs, and a run's the sum of its attempts; stream and result tell the same."""
    usage, cost = NO_USAGE, NO_COST
    for record in result.runs:
        usage, cost = usage + record.usage, cost + record.cost
        lost = sum((attempt.usage.model_calls for attempt in record.lost_attempts), 0)
        assert record.usage.model_calls >= lost
        assert record.attempt == len(record.lost_attempts) + 1
    assert (result.total_usage, result.total_cost) == (usage, cost)
    assert dict(end.totals) == {name: getattr(result, name) for name in dict(end.totals)}
    root = next(record for record in result.runs if record.run_id == result.run_id)
    assert (root.usage, root.cost) == (result.usage, result.cost)


def of(result: RunResult, agent: str) -> Any:
    [record] = [record for record in result.runs if record.agent == agent]
    return record


def discards(items: Sequence[Any]) -> list[tuple[str, int]]:
    return [(item.run_id, item.discarded_attempt) for item in items if item.kind == "attempt_discarded"]


async def test_s7_x10_lost_leaf_is_started_again_and_its_siblings_do_not_notice(runtime: Runtime, gates: Gates) -> None:
    tree = lead(leaf("a", *["word "] * 200), user("victim", die_once), leaf("b", *["word "] * 200))
    items, result = await play(runtime, tree, gates)
    assert result.output == "done"
    assert {record.agent: record.status for record in result.runs} == dict.fromkeys(
        ("lead", "a", "victim", "b"), "completed"
    )
    victim = of(result, "victim")
    assert discards(items) == [(victim.run_id, 1)]
    assert ends_of(items)[victim.run_id].attempt == victim.attempt == 2
    [lost] = victim.lost_attempts
    assert (lost.attempt, lost.usage.model_calls, lost.usage.precision) == (1, 1, "unknown")
    assert victim.usage.model_calls == 3
    assert ends_of(items)[victim.run_id].usage == victim.usage
    assert [item.outcome for item in items if item.kind == "tool_call_completed" and item.run_id == result.run_id] == [
        "ok"
    ] * 3
    for name in ("a", "b"):
        run_id = runs_of(items, name)[0]
        assert text_of(items, run_id) == "word " * 200
        assert attempts_of(items, run_id) == [1]


async def test_s7_attempts_are_used_up(runtime: Runtime, gates: Gates) -> None:
    items, result = await play(runtime, lead(user("victim", die), leaf("a")), gates)
    victim = of(result, "victim")
    error = ends_of(items)[victim.run_id].error
    assert error == victim.error
    assert error.code == "lost"
    assert "max_attempts=2" in error.message
    assert victim.attempt == 2
    assert attempts_of(items, victim.run_id) == [1, 2]
    outcomes = {
        item.tool_name: item.outcome for item in items if item.run_id == result.run_id and "child_run_id" in dict(item)
    }
    assert outcomes == {"victim": "lost", "a": "ok"}
    assert result.output == "done"


@pytest.mark.parametrize("reuse", [True, False], ids=["warm", "cold"])
async def test_s7_x11_lost_inner_run_is_started_again_once_its_sub_tree_has_ended(
    runtime: Runtime, gates: Gates, reuse: bool
) -> None:
    await runtime.warmed()
    items, result = await play(runtime, lead(dying_inner(reuse=reuse)), gates)
    inner_run = of(result, "inner")
    assert discards(items) == [(inner_run.run_id, 1)]
    assert ends_of(items)[inner_run.run_id].kind == "run_completed"
    again = next(at for at, item in enumerate(items) if item.kind == "attempt_discarded")
    for name in ("one", "two"):
        old, new = [record for record in result.runs if record.agent == name]
        assert (old.status, new.status) == ("cancelled", "completed")
        assert items.index(ends_of(items)[old.run_id]) < again < items.index(ends_of(items)[new.run_id])
        assert old.attempt == 1, "a child of a lost run is not started again"
    assert of(result, "lead").attempt == 1
    assert result.output == "done"


async def test_s7_lost_root_is_started_again_and_its_text_says_so(runtime: Runtime, gates: Gates) -> None:
    script = ScriptedModel([["first words", tool_call("die_once", {})], ["the end"]])
    run = await runtime.start(Agent("root", script, tools=[die_once]), "go", deps=gates)
    pieces = [piece async for piece in run.text_stream()]
    assert (await run.result()).output == "the end"
    text = "".join(pieces)
    before, after = text.split("\n[all text above is discarded and the run starts again: ")
    assert before == "first words"
    assert after.partition("]\n")[2] == "first wordsthe end"
    run = await runtime.start(Agent("root", script, tools=[die_once]), "go", deps=gates)
    items, result = await told(runtime, run, [item async for item in run])
    assert attempts_of(items, run.run_id) == [1, 2]
    assert result.usage.model_calls == 3
    assert len(result.model_calls) == 2


async def test_s7_open_call_of_a_tool_that_must_not_run_twice(runtime: Runtime, gates: Gates) -> None:
    run = await runtime.start(user("payer", die_at_pay), "go", deps=gates)
    with pytest.raises(RunFailedError, match="die_at_pay") as caught:
        await run.result()
    items, result = await told(runtime, run, [item async for item in run])
    assert caught.value.failure().code == "in_doubt"
    assert items[-1].error == result.runs[0].error == caught.value.failure()
    assert attempts_of(items, run.run_id) == [1]
    assert gates.names("paid-") == ["paid-1"]
    assert gates.content("paid-1") == f"{run.run_id}:1:die_at_pay:1"
