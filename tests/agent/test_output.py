"""Structured output: by the provider's own schema or by a tool, validated, and tried again."""

from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel

from runtree.actors.agent import Agent, parse_output, tool
from runtree.messages.transcript import ToolMessage
from runtree.providers.profile import ModelProfile
from runtree.providers.scripted import ScriptedModel, tool_call
from tests.agent.test_loop import assert_valid
from tests.kit.host import MemoryTree


class Report(BaseModel):
    title: str
    day: date


GOOD = {"title": "a", "day": "2024-01-02"}
NATIVE = ModelProfile(provider="x", native_output_schema=True)


@pytest.mark.parametrize("native", [False, True])
async def test_structured_output(native: bool) -> None:
    """L06."""
    turn: list[Any] = ['{"title": "a", "day": "2024-01-02"}'] if native else [tool_call("final_output", GOOD)]
    model = ScriptedModel([turn], profile=NATIVE if native else None)
    agent = Agent("lead", model, output_type=Report)
    tree = MemoryTree(agent)
    result = await tree.execute()
    assert_valid(result)
    assert (result.status, result.output) == ("completed", GOOD)
    assert parse_output(agent, result) == Report(title="a", day=date(2024, 1, 2))
    request = model.requests[0]
    assert (request.output_schema is not None, [each.name for each in request.tools]) == (
        native,
        [] if native else ["final_output"],
    )
    schema = request.output_schema or request.tools[0]
    assert schema.parameters["required"] == ["title", "day"]
    assert tree.items[-1].output == GOOD
    assert result.usage.tool_calls == 0, "the output is no tool call"


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("bad", [2, 3])
async def test_invalid_output_is_tried_again_up_to_a_limit(bad: int, native: bool) -> None:
    """L06."""
    wrong: list[Any] = ['{"title": "a"}'] if native else [tool_call("final_output", {"title": "a"})]
    right: list[Any] = ['{"title": "a", "day": "2024-01-02"}'] if native else [tool_call("final_output", GOOD)]
    model = ScriptedModel([*([wrong] * bad), right], profile=NATIVE if native else None)
    result = await MemoryTree(Agent("lead", model, output_type=Report)).execute()
    assert_valid(result)
    answer = model.requests[1].messages[-1]
    told = answer.results[0].text if isinstance(answer, ToolMessage) else answer.content[0].text  # type: ignore[union-attr]
    assert "day: Field required" in told
    if bad == 2:
        assert result.output == GOOD
    else:
        assert result.error is not None
        assert (result.status, result.error.code) == ("failed", "output_invalid")
        assert "day: Field required" in result.error.message
        assert len(model.requests) == 3


async def test_prose_is_not_an_output() -> None:
    """L06."""
    model = ScriptedModel([["here you are"], ['{"title": "a", "day": "2024-01-02"}']])
    result = await MemoryTree(Agent("lead", model, output_type=Report)).execute()
    assert result.output == GOOD
    assert "not JSON" in model.requests[1].messages[-1].content[0].text  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "output_type, value", [(int, 3), (list[Report], [GOOD]), (dict[str, int], {"a": 1}), (int | None, None)]
)
async def test_outputs_that_are_no_objects(output_type: Any, value: Any) -> None:
    arguments = value if isinstance(value, dict) else {"value": value}
    model = ScriptedModel([[tool_call("final_output", {"other": "x"})], [tool_call("final_output", arguments)]])
    agent = Agent("lead", model, output_type=output_type)
    result = await MemoryTree(agent).execute()
    assert result.output == value
    assert parse_output(agent, result) == ([Report(**GOOD)] if value == [GOOD] else value)  # type: ignore[arg-type]


async def test_other_calls_of_the_last_turn_run_as_well() -> None:
    ran: list[str] = []

    @tool
    async def save() -> None:
        ran.append("saved")

    model = ScriptedModel([[tool_call("final_output", GOOD), tool_call("save")]])
    result = await MemoryTree(Agent("lead", model, tools=[save], output_type=Report)).execute()
    assert (result.output, ran) == (GOOD, ["saved"])
    assert_valid(result)


async def test_output_of_a_child_is_json_for_its_parent() -> None:
    sub = Agent("sub", ScriptedModel([[tool_call("final_output", GOOD)]]), output_type=Report)
    model = ScriptedModel([[tool_call("sub", {"input": "x"})], ["done"]])
    result = await MemoryTree(Agent("lead", model, agents=[sub])).execute()
    message = result.messages[2]
    assert isinstance(message, ToolMessage)
    assert message.results[0].text == '{"title":"a","day":"2024-01-02"}'
