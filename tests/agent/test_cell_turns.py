"""Agents that write programs: cells, prose, answers and their bounds, in whole runs."""

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from runtree import Agent, Limits, ToolContext, tool
from runtree.actors.agent import AgentRun
from runtree.actors.agent.cell_turns import code_of
from runtree.messages.content import TextBlock
from runtree.messages.model import ModelResponse
from runtree.messages.repl import ReplPolicy
from runtree.messages.result import RunResult
from runtree.messages.transcript import AssistantMessage
from runtree.providers import secrets
from runtree.providers.scripted import Hang, ScriptedModel
from tests.kit.eventually import eventually
from tests.kit.host import MemoryTree

FENCE = "```"


def cell(code: str) -> str:
    return f"I try this.\n\n{FENCE}python\n{code}\n{FENCE}\n"


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def programmer(*answers: Any, policy: ReplPolicy | None = None, **fields: Any) -> Agent:
    return Agent("coder", ScriptedModel(answers), repl=policy or ReplPolicy(), **fields)


async def played(agent: Agent, **options: Any) -> tuple[RunResult, MemoryTree]:
    tree = MemoryTree(agent, **options)
    return await tree.execute(), tree


def said(result: RunResult) -> list[str]:
    """What the model was told after its input."""
    return [text_of(message) for message in result.messages if message.kind == "user"][1:]


def text_of(message: Any) -> str:
    return "".join(block.text for block in message.content if block.kind == "text")


def cells_of(tree: MemoryTree) -> list[Any]:
    return [item.data for item in tree.of("custom") if item.name == "repl_cell"]


@pytest.mark.parametrize(
    "text, code",
    [
        ("no code", None),
        (f"{FENCE}python\na = 1\n{FENCE}", "a = 1\n"),
        (f"{FENCE}py\na = 1\n{FENCE}\nand\n{FENCE}repl\nb = 2\n{FENCE}", "a = 1\n\nb = 2\n"),
        (f"{FENCE}\na = 1\n{FENCE}", "a = 1\n"),
        (f"{FENCE}\nout\n{FENCE}\n{FENCE}python\na = 1\n{FENCE}", "a = 1\n"),
        (f"{FENCE}json\n1\n{FENCE}", None),
        (f"{FENCE}python\n{FENCE}", None),
        (f"~~~python\nprint('''{FENCE}''')\n~~~", f"print('''{FENCE}''')\n"),
        (f"- a list\n  {FENCE}python\n  a = 1\n  {FENCE}", "a = 1\n"),
    ],
)
def test_fenced_python_is_the_program(text: str, code: str | None) -> None:
    assert code_of(text) == code


async def test_cells_keep_their_variables_until_one_answers() -> None:
    agent = programmer(
        cell("total = sum(range(10))\nprint('so far', total)"),
        cell("answer(await tool_call('add', a=total, b=1))"),
        tools=[add],
    )
    result, tree = await played(agent)
    assert result.output == "46"
    assert "so far 45" in said(result)[0]
    assert "total" in said(result)[0]
    assert [(each["cell"], each["stdout"], each["answered"]) for each in cells_of(tree)] == [
        (1, "so far 45\n", False),
        (2, "", True),
    ]
    begun, completed = tree.of("repl_call")
    assert (begun.phase, completed.phase, completed.call_kind, completed.name) == (
        "started",
        "completed",
        "tool_call",
        "add",
    )


async def test_the_model_is_offered_no_tools_but_told_of_them() -> None:
    model = ScriptedModel([cell("answer('done')")])
    child = Agent("reader", ScriptedModel(["x"]), description="Reads a page.")
    agent = Agent("coder", model, instructions="Be brief.", tools=[add], agents=[child], repl=ReplPolicy(model_calls=7))
    result, _ = await played(agent, variables={"context": "x" * 500})
    assert result.output == "done"
    (request,) = model.requests
    assert request.tools == ()
    assert request.output_schema is None
    for part in ("Be brief.", "- add: Add.", "- reader: Reads a page.", "- context: str, 500 long", "7 model calls"):
        assert part in request.instructions
    assert "$" not in request.instructions


@pytest.mark.parametrize("use", ["explore", "orchestrate", "compute"])
async def test_each_use_has_a_prompt_of_its_own(use: Any) -> None:
    model = ScriptedModel([cell("answer('done')")])
    await played(Agent("coder", model, repl=ReplPolicy(use=use)))
    told = model.requests[0].instructions
    assert {"explore": "too long", "orchestrate": "lead", "compute": "compute"}[use] in told
    assert "answer(value)" in told
    assert "model_query_batched" in told


async def test_a_template_takes_the_place_of_the_prompt() -> None:
    model = ScriptedModel([cell("answer('done')")])
    await played(Agent("coder", model, repl=ReplPolicy(prompt="Program, for $5.\n$functions\n$bounds")))
    told = model.requests[0].instructions
    assert told.startswith("Program, for $5.\n- await model_query")
    assert told.rstrip().endswith("bytes.")


async def test_e11_prose_is_nudged_once_and_then_the_answer() -> None:
    result, _ = await played(programmer("It is 4.", "It is 4."))
    assert result.output == "It is 4."
    assert len(said(result)) == 1
    assert "fenced block" in said(result)[0]


async def test_e11_a_nudge_that_helps() -> None:
    result, _ = await played(programmer("Let me think.", cell("x = 2"), "It is 2."))
    assert result.output == "It is 2."


async def test_e11_the_last_answer_of_a_cell_counts() -> None:
    result, _ = await played(programmer(cell("answer(1)\nanswer({'a': [2]})")))
    assert result.output == '{"a":[2]}'


async def test_an_answer_before_an_error_does_not_end_the_run() -> None:
    result, _ = await played(programmer(cell("answer(1)\n1 / 0"), cell("answer(2)")))
    assert result.output == "2"
    assert "ZeroDivisionError" in said(result)[0]


class Place(BaseModel):
    """A place."""

    town: str
    size: int


@pytest.mark.parametrize("output_type, good", [(Place, {"town": "Bonn", "size": 3}), (list[int], [1, 2])])
async def test_an_answer_has_to_fit_the_output_type(output_type: Any, good: Any) -> None:
    agent = programmer(cell("answer('nothing')"), cell(f"answer({good!r})"), output_type=output_type)
    result, _ = await played(agent)
    assert result.output == good
    assert "does not fit" in said(result)[0]


async def test_prose_has_to_fit_the_output_type_too() -> None:
    result, _ = await played(programmer("hm", "not it", "[1, 2]", output_type=list[int]))
    assert result.output == [1, 2]


async def test_e10_a_stopped_cell_is_told_and_the_next_one_goes_on() -> None:
    policy = ReplPolicy(cell_time=0.2)
    result, tree = await played(programmer(cell("x = 1"), cell("while True: pass"), cell("answer(x)"), policy=policy))
    assert result.output == "1"
    assert "cell_time" in said(result)[1]
    assert "as before" in said(result)[1]
    assert "cell_time" in cells_of(tree)[1]["error"]


async def test_e4_the_model_is_told_when_no_cell_is_left() -> None:
    policy = ReplPolicy(cells=1)
    result, _ = await played(programmer(cell("x = 1"), cell("x = 2"), "Two.", policy=policy))
    assert result.output == "Two."
    assert "No cells are left" in said(result)[-1]


async def test_e4_who_goes_on_with_cells_fails() -> None:
    policy = ReplPolicy(cells=1)
    result, _ = await played(programmer(cell("x = 1"), cell("x = 2"), cell("x = 3"), policy=policy))
    assert result.status == "failed"
    assert result.error is not None
    assert (result.error.code, result.error.limit) == ("limit_exceeded", "cells")


async def test_half_a_program_is_not_run() -> None:
    half = TextBlock(text=f"{FENCE}python\nanswer('half')\n")
    cut = ModelResponse(message=AssistantMessage(content=(half,)), finish_reason="length")
    result, tree = await played(programmer(cut, cell("answer('whole')")))
    assert result.output == "whole"
    assert "was cut" in said(result)[0]
    assert len(cells_of(tree)) == 1


async def test_a_long_output_is_shown_in_part() -> None:
    policy = ReplPolicy(shown_bytes=100)
    result, tree = await played(programmer(cell("print('ä' * 1000)"), cell("answer(1)"), policy=policy))
    assert "ä" * 50 in said(result)[0]
    assert "ä" * 51 not in said(result)[0]
    assert "2001 bytes" in said(result)[0]
    assert len(cells_of(tree)[0]["stdout"]) < 200


async def test_variables_are_found_by_the_cells_of_the_whole_tree() -> None:
    inner = Agent("inner", ScriptedModel([cell("answer(context[-3:])")]), description="looks", repl=ReplPolicy())
    outer = programmer(cell("answer(context[:3] + await agent_query('inner', 'look'))"), agents=[inner])
    result, tree = await played(outer, variables={"context": "abc" + "-" * 5000 + "xyz"})
    assert result.output == "abcxyz"
    assert all("-----" not in text_of(message) for message in result.messages if message.kind == "user")
    assert len(tree.of("run_completed")) == 2


async def test_e03_a_cancel_stops_a_cell_that_spins_and_what_is_below() -> None:
    spinning = Agent("inner", ScriptedModel([cell("while True: pass")]), description="spins", repl=ReplPolicy())
    tree = MemoryTree(programmer(cell("await agent_query('inner', 'go')"), agents=[spinning]))
    run = tree.run()
    ending = started(run)
    await eventually(lambda: len(tree.of("turn_started")) == 2)
    tree.cancel(tree.root.stamp.run_id, "enough")
    result = await ending
    tree.root.end(result)
    tree.check()
    assert result.status == "cancelled"
    assert [item.reason for item in tree.of("run_cancelled")] == ["enough", "enough"]


def started(run: AgentRun) -> "asyncio.Task[RunResult]":
    return asyncio.ensure_future(run.execute())


async def test_e03_a_cancel_drops_a_model_query_that_hangs() -> None:
    tree = MemoryTree(Agent("coder", ScriptedModel([cell("await model_query('q')"), [Hang()]]), repl=ReplPolicy()))
    ending = started(tree.run())
    await eventually(lambda: tree.of("repl_call"))
    tree.cancel(tree.root.stamp.run_id, "enough")
    result = await ending
    assert result.status == "cancelled"
    assert [(item.phase, item.outcome) for item in tree.of("repl_call")] == [
        ("started", None),
        ("completed", "cancelled"),
    ]


async def test_s8_a_limit_of_the_tree_holds_for_the_calls_of_cells() -> None:
    agent = programmer(cell("await model_query_batched(['a', 'b', 'c'])"), "x")
    result, tree = await played(agent, limits=Limits(max_model_calls=2))
    assert result.status == "failed"
    assert result.error is not None
    assert result.error.limit == "max_model_calls"
    assert tree.supervisor.registry.get(result.run_id).usage.model_calls <= 2


async def test_s7_every_call_of_a_cell_has_an_idempotency_key_of_its_own() -> None:
    keys: list[str] = []

    @tool
    async def pay(number: int, context: ToolContext) -> None:
        """Pay."""
        keys.append(context.idempotency_key)

    batch = "await tool_call_batched('pay', [{'number': 1}, {'number': 2}])\n"
    agent = programmer(cell(batch + "await tool_call('pay', number=3)"), cell(batch + "answer('paid')"), tools=[pay])
    result, _ = await played(agent)
    assert result.output == "paid"
    assert len(keys) == len(set(keys)) == 5
    assert [key.removeprefix(result.run_id) for key in keys] == [
        *(f":1:pay:{number}" for number in (1, 2, 3)),
        *(f":2:pay:{number}" for number in (1, 2)),
    ]


@pytest.mark.parametrize("limits", [None, Limits(max_tool_calls=50)])
async def test_x08_a_batch_keeps_to_the_tool_calls_of_its_agent(limits: Limits | None) -> None:
    made: list[int] = []

    @tool
    async def count(number: int) -> None:
        """Count."""
        made.append(number)

    code = "await tool_call_batched('count', [{'number': n} for n in range(20)])"
    result, _ = await played(programmer(cell(code), cell("answer(1)"), tools=[count], max_tool_calls=3), limits=limits)
    assert len(made) == 3
    assert "max_tool_calls" in said(result)[0]


async def test_secrets_that_a_tool_returns_reach_no_item() -> None:
    secrets.keep("sk-very-secret-key")

    @tool
    async def env() -> str:
        """Tell."""
        return "key=sk-very-secret-key"

    code = "k = await tool_call('env')\nprint(k)\nemit('k', {'a': [k]})\n"
    agent = programmer(cell(code + "k"), cell("raise ValueError(k)"), cell("answer(1)"), tools=[env])
    _, tree = await played(agent)
    told = [item.model_dump_json() for item in tree.of("custom")]
    assert len(told) == 4
    assert not any("very-secret" in text for text in told)


@pytest.mark.parametrize("finish", ["refusal", "content_filter"])
async def test_e07_an_answer_that_was_withheld_is_a_failed_call(finish: Any) -> None:
    withheld = ModelResponse(message=AssistantMessage(content=(TextBlock(text="no"),)), finish_reason=finish)
    agent = programmer(cell("await model_query_batched(['a'])"), withheld, cell("answer(1)"))
    result, tree = await played(agent)
    assert "'ok': False" in said(result)[0] or '"ok":false' in said(result)[0]
    assert [item.outcome for item in tree.of("repl_call") if item.phase == "completed"] == ["error"]


async def test_items_of_cells_are_of_bounded_size() -> None:
    cells = (
        cell("raise ValueError('x' * 5_000_000)"),
        cell("await tool_call_batched('n' * 1_000_000, [{}] * 5)"),
        cell("emit('n' * 1_000_000)"),
        cell("answer(1)"),
    )
    result, tree = await played(programmer(*cells))
    assert result.output == "1"
    assert max(len(item.model_dump_json()) for item in tree.items if item.kind in ("custom", "repl_call")) < 40_000


async def test_a_result_that_was_cut_is_not_taken_for_a_value() -> None:
    @tool
    async def many() -> list[int]:
        """List."""
        return list(range(50_000))

    result, _ = await played(programmer(cell("await tool_call('many')"), cell("answer(1)"), tools=[many]))
    assert "cut" in said(result)[0]
    assert "RuntimeError" in said(result)[0]
