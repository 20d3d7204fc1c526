"""Trees of runs on Ray: who is whose child, and what of it the stream says."""

from typing import Any

from runtree import Agent, Limits, RunResult, Runtime
from runtree.providers.scripted import ScriptedModel, tool_call
from tests.kit.agents import add, count_messages, lead, leaf, read_deps, silent, user
from tests.kit.stream_check import check_ledger, check_stream, ends_of, kinds_of, runs_of, text_of


async def play(runtime: Runtime, agent: Agent, value: Any = "go", **options: Any) -> tuple[list[Any], RunResult]:
    run = await runtime.start(agent, value, **options)
    items = [item async for item in run]
    check_stream(items)
    result = await run.outcome()
    assert result.status != "failed", result.error
    check_ledger(items, result)
    return items, result


async def test_d1_one_run(runtime: Runtime) -> None:
    items, result = await play(runtime, user("worker", add, arguments={"add": {"a": 1, "b": 2}}), tags={"job": "7"})
    assert result.status == "completed"
    assert result.output == "done"
    assert items[0].tags == {"job": "7"}
    assert [item.outcome for item in items if item.kind == "tool_call_completed"] == ["ok"]
    assert [record.run_id for record in result.runs] == [result.run_id]


async def test_x01_x02_parallel_children_of_one_agent(runtime: Runtime) -> None:
    items, result = await play(runtime, lead(leaf("a", "x" * 50), leaf("b"), times=2))
    ids = runs_of(items, "a") + runs_of(items, "b")
    assert len(set(ids)) == 4
    assert [text_of(items, run_id) for run_id in ids] == ["x" * 50] * 2 + ["from b"] * 2
    completed = [item.child_run_id for item in items if item.kind == "tool_call_completed"]
    assert sorted(completed) == sorted(ids)
    assert {record.run_id for record in result.runs} == {result.run_id, *ids}
    total = sum(record.usage.output_tokens or 0 for record in result.runs)
    assert result.total_usage.output_tokens == total


async def test_x06_three_deep(runtime: Runtime) -> None:
    items, result = await play(runtime, lead(lead(lead(leaf(), name="inner"), name="middle")))
    chain = [runs_of(items, name)[0] for name in ("lead", "middle", "inner", "leaf")]
    firsts = [next(item for item in items if item.run_id == run_id) for run_id in chain]
    assert [item.depth for item in firsts] == [0, 1, 2, 3]
    assert [item.parent_run_id for item in firsts] == [None, *chain[:-1]]
    assert result.status == "completed"


async def test_x07_x09_a_chain_of_waiting_parents_needs_no_cpu(runtime: Runtime) -> None:
    """Nine runs wait for each other on four CPUs; the last is refused a child by the depth."""
    again = Agent(
        "again", ScriptedModel([[tool_call("again", {"input": "deeper"})], ["done"]], loop=True), agents=["again"]
    )
    items, result = await play(runtime, again)
    assert result.status == "completed"
    assert [record.depth for record in result.runs] == list(range(9))
    outcomes = [item.outcome for item in items if item.kind == "tool_call_completed"]
    assert outcomes == ["refused", *["ok"] * 8]


async def test_x03_refused_child_names_the_limit(runtime: Runtime) -> None:
    items, result = await play(runtime, lead(leaf()), limits=Limits(max_depth=0))
    [completed] = [item for item in items if item.kind == "tool_call_completed"]
    assert completed.outcome == "refused"
    assert "max_depth" in completed.message
    assert result.output == "done"


async def test_x05_failed_child_is_an_error_result(runtime: Runtime) -> None:
    items, result = await play(runtime, lead(Agent("broken", ScriptedModel([]))))
    broken = runs_of(items, "broken")[0]
    assert kinds_of(items, broken)[-1] == "run_failed"
    assert [item.outcome for item in items if item.kind == "tool_call_completed"] == ["error"]
    assert result.status == "completed"


async def test_x12_timed_out_child_ends_before_its_call(runtime: Runtime) -> None:
    items, result = await play(runtime, lead(silent()), limits=Limits(tool_timeout=0.5))
    [completed] = [item for item in items if item.kind == "tool_call_completed"]
    assert completed.outcome == "timeout"
    assert ends_of(items)[completed.child_run_id].kind == "run_cancelled"
    assert result.output == "done"


async def test_l09_messages_and_deps(runtime: Runtime) -> None:
    first = await runtime.run(leaf("speaker"), "hello")
    counting = Agent("speaker", ScriptedModel([count_messages]))
    second = await runtime.run(counting, "and now?", messages=first.messages)
    assert second.output == "3 messages"
    assert len(second.messages) == 4
    items, _ = await play(runtime, lead(user("child", read_deps)), deps={"key": "value"})
    assert [item.data for item in items if item.kind == "custom"] == [{"key": "value"}]
