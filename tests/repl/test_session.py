"""A session: variables, results, answers, and its ends."""

import asyncio
from typing import Any

import pytest

from runtree.messages import ConfigurationError, ReplClosedError, ReplVariable
from tests.kit.leftovers import nothing_left
from tests.repl.sessions import Bench, good, only, sandboxes, values


async def test_variables_last_from_cell_to_cell() -> None:
    async with Bench().session() as session:
        await good(session, "x = [1]\ndef twice(a): return 2 * a")
        assert await values(session, "x.append(2)", "twice(x)", "len(x)") == [None, [1, 2, 1, 2], 2]


async def test_a_result_tells_what_the_cell_did() -> None:
    bench = Bench("Lima")
    async with bench.session() as session:
        result = await good(session, "print('asking')\ncity = await model_query('capital of Peru?', 'short')\ncity")
        assert (result.stdout, result.value, result.variables_changed) == ("asking\n", "Lima", ("city",))
        assert only(result.calls).outcome == "ok"
        assert not result.answered
        assert 0 < result.elapsed < 60
    request = only(bench.model.requests)
    assert (request.instructions, request.messages[0].content[0].text) == ("short", "capital of Peru?")


async def test_an_exception_of_the_code_is_a_result_and_keeps_what_was_set() -> None:
    async with Bench().session() as session:
        result = await session.eval_cell("print('before')\nx = 1\n1 / 0")
        assert result.error is not None
        assert result.error.type == "ZeroDivisionError"
        assert "1 / 0" in result.error.traceback
        assert (result.stdout, result.variables_changed) == ("before\n", ("x",))
        assert await values(session, "x") == [1]


@pytest.mark.parametrize("code", ["x ==", "if", "del x", "yield 1", "class A(B): pass"])
async def test_code_that_the_sandbox_does_not_take_is_a_result(code: str) -> None:
    async with Bench().session() as session:
        result = await session.eval_cell(code)
        assert result.error is not None
        assert result.error.type in ("SyntaxError", "NotImplementedError")
        assert await values(session, "1") == [1]


async def test_variables_changed_are_the_new_the_rebound_and_the_grown() -> None:
    async with Bench().session() as session:
        await good(session, "a = 1\nb = [1]\nc = 'same'\nimport json\n_private = 1")
        result = await good(session, "a = 2\nb.append(2)\nd = {}\nc[0]")
        assert result.variables_changed == ("a", "b", "d")
        assert session.variables == {
            "a": ReplVariable(type="int"),
            "b": ReplVariable(type="list", size=2),
            "c": ReplVariable(type="str", size=4),
            "d": ReplVariable(type="dict", size=0),
        }


async def test_show_vars_tells_a_cell_what_is_there() -> None:
    async with Bench().session(inputs={"context": "abc" * 10}) as session:
        assert await values(session, "n = 1\nshow_vars()") == [{"context": "str, 30 long"}]
        assert await values(session, "show_vars()") == [{"context": "str, 30 long", "n": "int"}]


async def test_e08_the_inputs_are_known_from_the_first_cell_on() -> None:
    async with Bench().session(inputs={"context": "text", "options": {"a": [1, None]}}) as session:
        first = await good(session, "context, options")
        assert first.value == ["text", {"a": [1, None]}]
        assert first.variables_changed == ()


@pytest.mark.parametrize("name", ["answer", "model_query", "show_vars", "not valid", "class", "_hidden", ""])
def test_e08_reserved_names_can_not_be_set(name: str) -> None:
    with pytest.raises(ConfigurationError, match="inputs"):
        Bench().session(inputs={name: 1})


async def test_e08_a_shadowed_host_function_is_back_in_the_next_cell() -> None:
    async with Bench("real").session() as session:
        await good(
            session, "async def model_query(p): return 'fake'\nanswer = 5\nassert await model_query('q') == 'fake'"
        )
        result = await good(session, "answer(await model_query('q'))")
        assert result.final_answer == "real"
        assert "answer" not in session.variables


async def test_a_cell_that_takes_the_names_of_builtins_hurts_only_itself() -> None:
    async with Bench().session() as session:
        await good(session, "x = 1")
        await good(session, "len = type = isinstance = id = 3")
        assert await values(session, "x") == [1]


async def test_e11_the_latest_answer_wins() -> None:
    async with Bench().session() as session:
        result = await good(session, "answer(1)\nanswer({'b': 2})")
        assert (result.answered, result.final_answer) == (True, {"b": 2})
        nothing = await good(session, "answer(None)")
        assert (nothing.answered, nothing.final_answer) == (True, None)
        assert not (await good(session, "1")).answered


async def test_emit_tells_readers_while_the_cell_runs() -> None:
    bench = Bench()
    async with bench.session() as session:
        cell = asyncio.ensure_future(session.eval_cell("emit('progress', {'done': 1})\nawait tool_call('hang')"))
        await bench.hung.wait()
        assert (only(bench.customs).name, only(bench.customs).data) == ("progress", {"done": 1})
        assert not cell.done()
        bench.released.set()
        assert (await cell).value == "released"


async def test_cells_wait_for_their_turn() -> None:
    async with Bench().session() as session:
        await good(session, "x = 0")
        await asyncio.gather(*(session.eval_cell("x = x + 1") for _ in range(10)))
        assert await values(session, "x") == [10]


async def test_pauses_overlap_and_do_not_count_as_computing() -> None:
    async with Bench().session() as session:
        code = (
            "import asyncio, time\ntime.sleep(0.001)\nawait asyncio.gather(*[asyncio.sleep(0.01) for _ in range(20)])"
        )
        assert (await good(session, code)).value == [None] * 20


async def test_sessions_side_by_side_do_not_see_each_other() -> None:
    async with Bench("a").session() as one, Bench("b").session() as other:
        code = "x = await model_query('q')\nx"
        assert [each.value for each in await asyncio.gather(one.eval_cell(code), other.eval_cell(code))] == ["a", "b"]


async def test_an_input_may_be_fetched_when_the_session_begins() -> None:
    class Elsewhere:
        async def get(self) -> Any:
            return "fetched"

    async with Bench().session(inputs={"context": Elsewhere()}) as session:
        assert await values(session, "context") == ["fetched"]


async def test_only_an_open_session_evaluates() -> None:
    session = Bench().session()
    with pytest.raises(ReplClosedError, match="async with"):
        await session.eval_cell("1")
    async with session:
        await good(session, "1")
    with pytest.raises(ReplClosedError):
        await session.eval_cell("1")
    await session.close()


async def test_a_session_leaves_nothing_behind() -> None:
    before = sandboxes()
    with nothing_left():
        async with Bench().session() as session:
            await good(session, "await model_query('q')")
            assert len(sandboxes()) == len(before) + 1
    assert sandboxes() == before


async def test_a_session_that_evaluates_nothing_starts_no_process() -> None:
    before = sandboxes()
    async with Bench().session():
        assert sandboxes() == before
