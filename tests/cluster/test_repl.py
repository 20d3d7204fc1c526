"""Agents that write programs, on Ray: inputs from the object store, calls seen while a cell runs, and an end from outside."""

import importlib
from pathlib import Path
from typing import Any

import pytest

from runtree import Agent, Runtime
from runtree.messages.errors import ConfigurationError
from runtree.messages.repl import ReplPolicy
from runtree.providers.scripted import ScriptedModel
from tests.kit.agents import hold, lead, leaf
from tests.kit.driver import driver, exit_code
from tests.kit.eventually import eventually
from tests.kit.gates import Gates
from tests.kit.stream_check import check_ledger, check_stream, ends_of

_psutil: Any = importlib.import_module("psutil")

CONTEXT = "".join(f"line {number} says {number % 7}\n" for number in range(100_000))


def programmer(name: str, *cells: str, then: str = "", **options: Any) -> Agent:
    turns = [[f"```python\n{code}\n```"] for code in cells] + [[then]] * bool(then)
    return Agent(name, ScriptedModel(turns), description="programs", repl=ReplPolicy(), **options)


def sandboxes() -> set[int]:
    return {each.pid for each in _psutil.process_iter(["name"]) if each.info["name"] == "monty"}


async def test_e02_a_long_context_is_split_over_sub_agents(runtime: Runtime) -> None:
    before = sandboxes()
    counter = programmer("counter", "answer(context.count(' says 3'))")
    tree = programmer(
        "coder",
        "found = await agent_query_batched('counter', ['a', 'b'])",
        "answer([len(context), [each['value'] for each in found]])",
        agents=[counter],
    )
    run = await runtime.start(tree, "count", variables={"context": CONTEXT})
    items: list[Any] = [item async for item in run]
    check_stream(items)
    result = await run.result()
    check_ledger(items, result)
    count = CONTEXT.count(" says 3")
    assert result.output == f'[{len(CONTEXT)},["{count}","{count}"]]'
    assert len(ends_of(items)) == 3
    assert {item.outcome for item in items if item.kind == "repl_call" and item.phase == "completed"} == {"ok"}
    await eventually(lambda: sandboxes() <= before)


async def test_e02_calls_are_seen_before_their_cell_ends(runtime: Runtime, gates: Gates) -> None:
    tree = programmer("coder", "await tool_call('hold')\nanswer(await model_query('x'))", tools=[hold], then="yes")
    run = await runtime.start(tree, "go", deps=gates)
    seen: list[Any] = []
    item: Any
    async for item in run:
        seen.append(item)
        if item.kind == "repl_call" and (item.call_kind, item.phase) == ("tool_call", "started"):
            await gates.passed("hold")
            gates.open("go")
    calls = [(item.call_kind, item.phase) for item in seen if item.kind == "repl_call"]
    assert calls == [(kind, phase) for kind in ("tool_call", "model_query") for phase in ("started", "completed")]
    assert (await run.result()).output == "yes"


async def test_e02_another_driver_stops_the_spinning_cell_of_a_grandchild(
    runtime: Runtime, tmp_path: Path, ray_environment: dict[str, str]
) -> None:
    before = sandboxes()
    spinning = programmer("spinning", "print('spins')\nwhile True: pass")
    run = await runtime.start(lead(lead(spinning, name="inner")), "go")
    await eventually(lambda: sandboxes() - before)
    source = f"""
        import asyncio
        from runtree import Runtime

        async def main():
            async with Runtime(warm=0) as runtime:
                report = await runtime.cancel({run.run_id!r}, grace=5)
                print(len(report.cancelled), len(report.killed))

        asyncio.run(main())
    """
    with driver(source, tmp_path, ray_environment) as process:
        assert await exit_code(process) == 0, (tmp_path / "stderr").read_text()
    assert (tmp_path / "stdout").read_text() == "3 0\n"
    items: list[Any] = [item async for item in run]
    check_stream(items)
    assert {item.kind for item in ends_of(items).values()} == {"run_cancelled"}
    await eventually(lambda: sandboxes() <= before)


async def test_variables_need_somebody_who_finds_them(runtime: Runtime) -> None:
    with pytest.raises(ConfigurationError, match="no agent of the tree has a REPL"):
        await runtime.start(leaf(), "go", variables={"context": "x"})
    with pytest.raises(ConfigurationError, match="host function"):
        await runtime.start(programmer("coder", "1"), "go", variables={"answer": "x"})
