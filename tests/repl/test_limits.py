"""Bounds of the policy: each by itself, and none that code can catch."""

import time
from typing import Any

import pytest
from pydantic import ValidationError

from runtree.messages import LimitExceededError, ReplLimitError, ReplPolicy, ReplWorkerError
from tests.repl.sessions import SPIN, Bench, good, only, stopped, values

CATCH = "try:\n  {}\nexcept BaseException as e:\n  answer('caught')\nfinally:\n  answer('finally')\nanswer('after')"


class Deep(Bench):
    """Its surroundings refuse sub-agents: they would be too deep."""

    def __init__(self) -> None:
        super().__init__()
        host: Any = self.host

        async def agent_query(_name: str, _value: Any) -> Any:
            raise LimitExceededError("max_depth", "3", "tree")

        host.agent_query = agent_query


@pytest.mark.parametrize(
    "limit, line",
    [
        ("model_calls", "await model_query('q')"),
        ("model_calls", "await model_query_batched(['q', 'q'])"),
        ("tool_calls", "await tool_call('add', a=1, b=2)"),
        ("agent_calls", "await agent_query('a', 'q')\n  await agent_query('a', 'q')"),
        ("output_bytes", "print('x' * 200)"),
        ("cell_time", SPIN),
        ("wait_time", "import time; time.sleep(100)"),
        ("memory_bytes", "x = 'a' * 100_000_000"),
        ("emits", "emit('a')"),
        ("max_depth", "await agent_query('a', 'q')"),
        ("max_depth", "await agent_query_batched('a', ['q'])"),
    ],
)
async def test_e04_code_can_not_catch_a_limit(limit: str, line: str) -> None:
    tight: dict[str, Any] = {} if limit == "max_depth" else {limit: 0 if limit.endswith(("calls", "emits")) else 100}
    tight.update({"memory_bytes": 20_000_000} if limit == "memory_bytes" else {})
    tight.update({limit: 0.05} if limit.endswith("time") else {})
    async with Deep().session(ReplPolicy(**tight)) as session:
        await good(session, "x = 1")
        error = await stopped(session.eval_cell(CATCH.format(line)))
        assert isinstance(error, ReplLimitError)
        assert error.limit == limit
        assert error.failure().limit == limit
        assert not error.result.answered
        assert error.result.variables_kept
        assert await values(session, "x") == [1]


async def test_e05_a_print_loop_is_stopped_at_the_limit_and_cut_on_a_character() -> None:
    async with Bench().session(ReplPolicy(output_bytes=1000)) as session:
        started = time.monotonic()
        error = await stopped(session.eval_cell("while True: print('aé漢🌍')"))
        assert time.monotonic() - started < 20  # a third of the time it had
        assert isinstance(error, ReplLimitError)
        text = error.result.stdout
        assert 997 <= len(text.encode()) <= 1000
        assert text == ("aé漢🌍\n" * 1000)[: len(text)]


async def test_output_up_to_the_limit_is_kept() -> None:
    async with Bench().session(ReplPolicy(output_bytes=11)) as session:
        assert (await good(session, "print('a' * 10)")).stdout == "a" * 10 + "\n"


async def test_a_large_value_is_cut() -> None:
    async with Bench().session(ReplPolicy(output_bytes=100)) as session:
        text, items = await values(session, "'é' * 1000", "['abc'] * 1000")
        assert text == "é" * 50 + "…"
        assert items[-1] == "…"
        assert len(items) < 60


async def test_a_batch_over_its_budget_spends_nothing() -> None:
    bench = Bench()
    async with bench.session(ReplPolicy(model_calls=3)) as session:
        await good(session, "await model_query('q')")
        error = await stopped(session.eval_cell("await model_query_batched(['a', 'b', 'c'])"))
        assert isinstance(error, ReplLimitError)
        assert only(error.result.calls).outcome == "refused"
        assert [item.outcome for item in bench.calls if item.phase == "completed"] == ["ok", "refused"]
        assert len(bench.model.requests) == 1
        assert (await good(session, "await model_query_batched(['a', 'b'])")).value == [
            {"ok": True, "value": "yes"}
        ] * 2


async def test_counters_are_independent() -> None:
    async with Bench().session(ReplPolicy(model_calls=1, tool_calls=1, agent_calls=1, emits=1)) as session:
        await good(session, "await model_query('q')\nawait tool_call('add', a=1, b=1)\nemit('x')")
        for line in ("await model_query('q')", "await tool_call('add', a=1, b=1)", "emit('x')"):
            assert isinstance(await stopped(session.eval_cell(line)), ReplLimitError)


async def test_cells_and_script_bytes() -> None:
    bench = Bench()
    async with bench.session(ReplPolicy(cells=2, script_bytes=20)) as session:
        error = await stopped(session.eval_cell("'é' + '0123456789012345'"))
        assert isinstance(error, ReplLimitError)
        assert (error.limit, session.cells) == ("script_bytes", 0)
        await values(session, "'01234567890123456'", "1")
        error = await stopped(session.eval_cell("1"))
        assert isinstance(error, ReplLimitError)
        assert (error.limit, error.allowed, session.cells) == ("cells", "2", 2)


async def test_a_loop_that_always_asks_is_stopped() -> None:
    async with Bench().session(ReplPolicy(cell_time=3600)) as session:
        error = await stopped(session.eval_cell("while True:\n  try: nowhere()\n  except NameError: pass"))
        assert isinstance(error, ReplLimitError | ReplWorkerError)


@pytest.mark.parametrize(
    "code", ["'a' * 10**12", "1 << 10**12", "x = []\nwhile True: x.append('a' * 100_000)", "list(range(10**10))"]
)
async def test_e10_memory_that_a_cell_may_not_have(code: str) -> None:
    async with Bench().session(ReplPolicy(memory_bytes=20_000_000)) as session:
        await good(session, "x = 1")
        error = await stopped(session.eval_cell(code))
        assert isinstance(error, ReplLimitError)
        assert error.limit == "memory_bytes"
        assert await values(session, "x") == [1]


async def test_inputs_come_on_top_of_the_memory() -> None:
    async with Bench().session(ReplPolicy(memory_bytes=20_000_000), inputs={"context": "ab" * 20_000_000}) as session:
        assert await values(session, "context.count('b')", "len(context[10:] * 1)") == [20_000_000, 39_999_990]


@pytest.mark.parametrize(
    "field", [{"cell_time": 0}, {"cell_time": 10_000}, {"cells": 0}, {"tool_calls": -1}, {"nope": 1}, {"wait_time": 0}]
)
def test_a_policy_that_makes_no_sense_is_refused(field: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(field))):
        ReplPolicy(**field)


def test_the_defaults_are_those_of_the_design() -> None:
    policy = ReplPolicy()
    assert (policy.cells, policy.script_bytes, policy.output_bytes) == (16, 65536, 262144)
    assert (policy.model_calls, policy.agent_calls, policy.tool_calls, policy.cell_time) == (64, 32, 128, 30)
