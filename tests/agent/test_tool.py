"""Tools: what the model is told of a function, what it may pass, and what it gets back."""

import functools
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, Literal

import cloudpickle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from runtree.actors.agent import AgentSet, Tool, ToolContext, tool
from runtree.actors.agent.signature import InvalidArgumentsError
from runtree.actors.agent.tool_output import cut, render
from runtree.messages.content import ImageBlock, TextBlock
from runtree.messages.errors import ToolDefinitionError, ToolError


class Place(BaseModel):
    city: str
    country: str = "DE"


@tool
async def search(
    query: str, limit: int = 5, mode: Literal["fast", "deep"] = "fast", near: Place | None = None, *, ctx: ToolContext
) -> list[str]:
    """Search the index.

    Two lines of it.

    Args:
        query: What to look for,
            in words.
        limit (int): How many.
        mode: How hard.
        near: Where.
        ctx: The call.

    Returns:
        Titles.
    """
    return [query, str(limit), mode, ctx.run_id]


def test_signature_and_docstring_become_the_schema() -> None:
    definition = search.definition
    assert (definition.name, definition.description) == ("search", "Search the index.\n\nTwo lines of it.")
    properties: Any = definition.parameters["properties"]
    assert properties["query"] == {"type": "string", "description": "What to look for, in words."}
    assert properties["limit"] == {"type": "integer", "default": 5, "description": "How many."}
    assert properties["mode"]["enum"] == ["fast", "deep"]
    assert set(properties) == {"query", "limit", "mode", "near"}, "the context is not the model's business"
    assert definition.parameters["required"] == ["query"]
    assert definition.parameters["additionalProperties"] is False


def test_arguments_are_validated_and_defaults_are_the_functions_own() -> None:
    """T04."""
    assert search.bind({"query": "x"}) == {"query": "x"}
    assert search.bind({"query": "x", "near": {"city": "Ulm"}}) == {"query": "x", "near": Place(city="Ulm")}


@pytest.mark.parametrize(
    "arguments, words",
    [
        pytest.param({}, "query: Field required", id="missing"),
        pytest.param({"query": 3}, "query: Input should be a valid string", id="type"),
        pytest.param({"query": "x", "limit": "many"}, "limit: Input should be a valid integer", id="number"),
        pytest.param({"query": "x", "size": 1}, "size: unexpected argument", id="extra"),
        pytest.param({"query": "x", "ctx": {}}, "ctx: unexpected argument", id="context"),
        pytest.param({"query": "x", "near": {}}, "near.city: Field required", id="nested"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], words: str) -> None:
    """T04."""
    with pytest.raises(InvalidArgumentsError, match=words):
        search.bind(arguments)


def test_names_that_pydantic_reserves_are_ordinary_parameters() -> None:
    def odd(json: str, model_config: int, schema: bool, _private: Annotated[int, Field(ge=1)] = 1) -> None: ...

    made = Tool(odd)
    arguments = {"json": "a", "model_config": 1, "schema": True, "_private": 2}
    assert made.bind(arguments) == arguments
    with pytest.raises(InvalidArgumentsError, match="_private"):
        made.bind({**arguments, "_private": 0})


def _no_annotation(a, b: int) -> None: ...  # type: ignore[no-untyped-def]
def _variadic(*values: int) -> None: ...
def _keywords(**values: int) -> None: ...
def _positional(a: int, /) -> None: ...
def _unknown_type(a: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def _no_schema(a: int) -> None: ...
async def _generator() -> AsyncIterator[int]:
    yield 1


class _Opaque:
    pass


_no_schema.__annotations__["a"] = _Opaque


@pytest.mark.parametrize(
    "function, words",
    [
        pytest.param(_no_annotation, "tool _no_annotation, parameter a: has no annotation", id="annotation"),
        pytest.param(_variadic, "Name every parameter", id="variadic"),
        pytest.param(_keywords, "Name every parameter", id="keywords"),
        pytest.param(_positional, "Name every parameter", id="positional"),
        pytest.param(_unknown_type, "Nowhere", id="unknown"),
        pytest.param(_no_schema, "JSON schema", id="schema"),
        pytest.param(_generator, "generators", id="generator"),
        pytest.param(lambda: 1, "is not a name a model can call", id="name"),
        pytest.param(3, "is not callable", id="callable"),
    ],
)
def test_what_is_no_tool(function: Any, words: str) -> None:
    with pytest.raises(ToolDefinitionError, match=words):
        tool(function)


@pytest.mark.parametrize(
    "options", [{"timeout": 0}, {"timeout": -1.0}, {"max_output": 0}, {"name": "two words"}, {"name": "x" * 65}]
)
def test_bad_options(options: dict[str, Any]) -> None:
    with pytest.raises(ToolDefinitionError):
        tool(**options)(lambda: None)


def test_options_and_plain_calls() -> None:
    @tool(name="other", description="Does it.", timeout=2.0, idempotent=False, max_output=10)
    def function(a: int) -> int:
        """Not this."""
        return a + 1

    assert (function.name, function.description, function.timeout) == ("other", "Does it.", 2.0)
    assert (function.idempotent, function.max_output, function.is_async) == (False, 10, False)
    assert function(1) == 2


def test_partials_and_objects() -> None:
    async def base(prefix: str, word: str) -> str:
        return prefix + word

    made = Tool(functools.partial(base, "a"), name="made")
    assert made.is_async
    assert made.bind({"word": "b"}) == {"word": "b"}


def test_module_tools_pickle_by_reference() -> None:
    assert cloudpickle.loads(cloudpickle.dumps(search)) is search


def test_local_tools_pickle_by_value() -> None:
    offset = 10

    @tool(timeout=3)
    def shift(a: int) -> int:
        """Shift it."""
        return a + offset

    copy = cloudpickle.loads(cloudpickle.dumps(shift))
    assert copy(1) == 11
    assert (copy.definition, copy.timeout) == (shift.definition, 3)


def test_tools_of_a_script_travel_with_postponed_annotations(tmp_path: Any) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from __future__ import annotations\n"
        "import sys, cloudpickle\n"
        "from pydantic import BaseModel\n"
        "from runtree.actors.agent import Agent, AgentSet, ToolContext, tool\n"
        "from runtree.providers.scripted import ScriptedModel\n"
        "class Place(BaseModel):\n"
        "    city: str\n"
        "@tool\n"
        "def visit(place: Place, ctx: ToolContext) -> str:\n"
        "    return place.city\n"
        "agent = Agent('a', ScriptedModel([]), tools=[visit], output_type=Place)\n"
        "open(sys.argv[1], 'wb').write(AgentSet.of(agent).dump())\n"
    )
    blob = tmp_path / "blob"
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    subprocess.run([sys.executable, script, blob], check=True, timeout=50, stdin=subprocess.DEVNULL, env=environment)
    agents = AgentSet.load(blob.read_bytes())
    visit = agents.agent(agents.root_key).toolset["visit"]
    assert visit(**visit.bind({"place": {"city": "Ulm"}}), ctx=None) == "Ulm"


@pytest.mark.parametrize(
    "value, text",
    [
        ("plain", "plain"),
        ({"a": [1, 2.5, None]}, '{"a":[1,2.5,null]}'),
        (Place(city="Ulm"), '{"city":"Ulm","country":"DE"}'),
        (None, "null"),
        (float("inf"), "Infinity"),
        ("half \ud800", "half ?"),
    ],
)
def test_output_as_text(value: Any, text: str) -> None:
    blocks = render(value, 1000)
    assert blocks == (TextBlock(text=text),)


def test_output_of_blocks() -> None:
    image = ImageBlock(url="http://localhost/x.png")
    assert render(image, 10) == (image,)
    assert render([TextBlock(text="x"), image], 10) == (TextBlock(text="x"), image)


def _circle() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


@pytest.mark.parametrize("value", [object(), {"x": object()}, b"\xff", _circle()])
def test_output_that_json_cannot_hold(value: Any) -> None:
    """T09."""
    with pytest.raises(ToolError, match="can't be written as JSON"):
        render(value, 1000)


@given(st.text(alphabet="aä€😀"), st.integers(1, 40))
def test_cut_on_a_character_boundary(text: str, size: int) -> None:
    """T07."""
    got = cut(text, size)
    if len(text.encode()) <= size:
        assert got == text
        return
    kept, marker = got.split("\n[cut: ")
    assert text.startswith(kept)
    assert size - 4 < len(kept.encode()) <= size
    assert f"of {len(text.encode())} bytes" in marker
