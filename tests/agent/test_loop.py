"""The loop: turns, limits and how a run ends."""

import anyio

from runtree.actors.agent import Agent, tool
from runtree.messages.transcript import ToolMessage
from runtree.providers.scripted import Hang, ScriptedModel, tool_call
from tests.kit.host import MemoryTree


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


async def test_answer_after_a_tool_call() -> None:
    model = ScriptedModel([["let me ", "see", tool_call("add", {"a": 2, "b": 3}, "c1")], ["it is ", "5"]])
    tree = MemoryTree(Agent("lead", model, tools=[add]))
    result = await tree.execute("2+3?")
    assert (result.status, result.output, result.error) == ("completed", "it is 5", None)
    assert tree.kinds() == [
        "run_started",
        "turn_started",
        "model_delta",
        "model_delta",
        "tool_call_started",
        "tool_call_args_delta",
        "assistant_message",
        "usage_updated",
        "tool_call_completed",
        "turn_started",
        "model_delta",
        "model_delta",
        "assistant_message",
        "usage_updated",
        "run_completed",
    ]
    assert [message.kind for message in result.messages] == ["user", "assistant", "tool", "assistant"]
    answer = result.messages[2]
    assert isinstance(answer, ToolMessage)
    assert (answer.results[0].outcome, answer.results[0].text) == ("ok", "5")
    assert (result.usage.model_calls, result.usage.tool_calls) == (2, 1)
    assert result.total_usage == result.usage


async def test_cancel_while_streaming() -> None:
    model = ScriptedModel([["some text", Hang()]])
    tree = MemoryTree(Agent("lead", model))
    run = tree.run()
    async with anyio.create_task_group() as group:
        results = []

        async def execute() -> None:
            results.append(await run.execute())

        group.start_soon(execute)
        await anyio.wait_all_tasks_blocked()
        run.cancel("user")
    tree.check()
    assert results[0].status == "cancelled"
    assert results[0].messages[-1].text == "some text"
    assert results[0].usage.precision == "estimated"


async def test_nested_children() -> None:
    leaf = Agent("leaf", ScriptedModel([["leaf says hi"]], loop=True))
    middle = Agent("middle", ScriptedModel([[tool_call("leaf", {"input": "x"})], ["m"]], loop=True), agents=[leaf])
    lead = Agent(
        "lead",
        ScriptedModel([[tool_call("middle", {"input": "1"}), tool_call("middle", {"input": "2"})], ["done"]]),
        agents=[middle],
    )
    tree = MemoryTree(lead)
    result = await tree.execute()
    assert result.output == "done"
    assert len(tree.hosts) == 5
    assert result.total_usage.model_calls == 2 + 4 + 2
    assert len(tree.admissions[0]) == 2
