"""Calls from cells: fan-out, batches, failures, and what readers see of them while they happen."""

import asyncio
from typing import Any

import pytest

from runtree.messages import ReplCall, ReplCallRecord, ReplPolicy
from tests.repl.sessions import Bench, good, only, values


async def test_gathered_calls_run_side_by_side() -> None:
    bench = Bench()
    together = asyncio.Barrier(3)

    async def meet(n: int) -> int:
        """Wait for two others."""
        await together.wait()
        return n

    bench.host = type(bench.host)(bench.model, [meet], bench.note)
    async with bench.session() as session:
        code = "import asyncio\nawait asyncio.gather(*[tool_call('meet', n=i) for i in range(3)])"
        batched = "await tool_call_batched('meet', [{'n': i} for i in range(3)])"
        assert await values(session, code, batched) == [[0, 1, 2], [{"ok": True, "value": i} for i in range(3)]]


async def test_a_thousand_gathered_calls_keep_their_order() -> None:
    async with Bench().session(ReplPolicy(tool_calls=1000)) as session:
        code = "import asyncio\nawait asyncio.gather(*[tool_call('echo', value=i) for i in range(1000)])"
        assert await values(session, code) == [list(range(1000))]


async def test_e06_one_failing_item_leaves_the_others_their_values() -> None:
    async with Bench().session() as session:
        code = "await tool_call_batched('add', [{'a': 1, 'b': 1}, {'a': 'x', 'b': 1}, {'a': 2, 'b': 2}])"
        first, second, third = only(await values(session, code))
        assert (first, third) == ({"ok": True, "value": 2}, {"ok": True, "value": 4})
        assert not second["ok"]
        assert "valid integer" in second["error"]


async def test_e07_a_failing_call_has_a_completion_and_a_record_all_the_same() -> None:
    bench = Bench()
    async with bench.session() as session:
        code = "try:\n  await tool_call('fail', why='tired')\nexcept RuntimeError as e:\n  text = str(e)\ntext"
        result = await good(session, code)
        assert result.value == "ValueError: tired"
        assert (only(result.calls).outcome, only(result.calls).message) == ("error", "ValueError: tired")
        assert [item.phase for item in bench.calls] == ["started", "completed"]
        uncaught = await session.eval_cell("await tool_call('nobody')")
        assert uncaught.error is not None
        assert "Tools: hang, add, fail, echo" in uncaught.error.message
        assert only(uncaught.calls).outcome == "invalid"


async def test_items_come_while_the_call_runs_and_agree_with_the_records() -> None:
    bench = Bench()
    async with bench.session(session_id="session-1") as session:
        code = "import asyncio\nawait asyncio.gather(model_query('q'), tool_call('hang'), tool_call('add', a=1, b=2))"
        cell = asyncio.ensure_future(session.eval_cell(code))
        await bench.hung.wait()
        assert ("tool_call", "hang", "started") in [(item.call_kind, item.name, item.phase) for item in bench.calls]
        assert not cell.done()
        bench.released.set()
        result = await cell
    assert [record(item) for item in bench.calls if item.phase == "completed"] == list(result.calls)
    started = {item.call_id: item for item in bench.calls if item.phase == "started"}
    assert set(started) == {record.call_id for record in result.calls}
    assert {(item.session_id, item.cell) for item in bench.calls} == {("session-1", 1)}
    assert [item.seq for item in bench.items] == list(range(6))


def record(item: ReplCall) -> ReplCallRecord:
    return ReplCallRecord.model_validate(
        {"call_id": item.call_id, "kind": item.call_kind, "name": item.name, "outcome": item.outcome,
         "elapsed": item.elapsed, "message": item.message}
    )  # fmt: skip


@pytest.mark.parametrize(
    "call, says",
    [
        ("model_query()", "missing 1 required positional argument: 'prompt'"),
        ("model_query(5)", "prompt must be a str, not int"),
        ("model_query('q', nothing=1)", "unexpected keyword argument 'nothing'"),
        ("model_query_batched('q')", "prompts must be a list, not str"),
        ("model_query_batched(['q', 5])", "prompt must be a str"),
        ("tool_call(5)", "name must be a str"),
        ("tool_call('add', [1])", "must be a dict"),
        ("tool_call_batched('add', [1])", "must be a dict"),
        ("agent_query('a')", "missing 1 required positional argument: 'input'"),
        ("emit(5)", "name must be a str"),
        ("emit('a', 'x' * 300_000)", "larger than"),
        ("answer()", "missing 1 required"),
    ],
)
async def test_wrong_arguments_are_errors_that_the_code_sees(call: str, says: str) -> None:
    bench = Bench()
    async with bench.session() as session:
        result = await session.eval_cell(call)
        assert result.error is not None
        assert result.error.type in ("TypeError", "ValueError")
        assert says in result.error.message
        assert not bench.items


async def test_a_call_that_nobody_awaits_does_not_outlive_its_cell() -> None:
    bench = Bench()
    async with bench.session() as session:
        result = await good(session, "import asyncio\nlost = tool_call('hang')\nawait tool_call('add', a=1, b=2)")
        assert result.value == 3
        assert sorted(record.outcome for record in result.calls) == ["cancelled", "ok"]


async def test_a_call_of_an_earlier_cell_can_not_be_awaited() -> None:
    async with Bench().session() as session:
        await good(session, "lost = tool_call('hang')")
        error = (await session.eval_cell("await lost")).error
        assert error is not None
        assert "no pending external calls" in error.message
        assert await values(session, "await tool_call('add', a=1, b=2)") == [3]


async def test_sync_functions_run_in_threads() -> None:
    async with Bench().session() as session:
        assert await values(session, "await tool_call('add', {'a': 1}, b=2)") == [3]


async def test_a_session_without_a_model_or_agents_says_so() -> None:
    bench = Bench()
    bench.host = type(bench.host)(None, [])
    async with bench.session() as session:
        for code, says in (("await model_query('q')", "no model"), ("await agent_query('a', 1)", "no sub-agents")):
            error = (await session.eval_cell(code)).error
            assert error is not None
            assert says in error.message


@pytest.mark.parametrize("text", ["a\ud800é", "abc\udc80" * 400_000])
async def test_text_that_is_not_unicode_reaches_a_cell_with_question_marks(text: str) -> None:
    clean = text.encode("utf-8", "replace").decode()
    inputs = {"context": text, "table": [{text[:4]: text[:4]}]}
    async with Bench().session(ReplPolicy(output_bytes=10_000_000), inputs=inputs) as session:
        assert await values(session, "context", "table") == [clean, [{clean[:4]: clean[:4]}]]


async def test_answers_that_are_not_unicode_reach_a_cell_with_question_marks() -> None:
    bench = Bench()
    host: Any = bench.host

    async def model_query(prompt: str, _instructions: str) -> str:
        if prompt == "fail":
            raise ValueError("x\ud800y")
        return "x\ud800y"

    host.model_query = model_query
    async with bench.session() as session:
        await good(session, "kept = 1")
        code = "try: await model_query('fail')\nexcept RuntimeError as e: kept = str(e)"
        assert await values(session, "await model_query('q')", "await model_query_batched(['q'])") == [
            "x?y",
            [{"ok": True, "value": "x?y"}],
        ]
        await good(session, code)
        assert "x?y" in (await good(session, "kept")).value
