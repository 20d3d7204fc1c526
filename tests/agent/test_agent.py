"""Agents and agent sets: what is refused before anything starts, and what travels."""

import threading
from typing import Any

import cloudpickle
import pytest
from pydantic import BaseModel

from runtree.actors.agent import Agent, AgentSet, Middleware, tool
from runtree.messages.errors import (
    AgentDefinitionError,
    ConfigurationError,
    NotPicklableError,
    ToolDefinitionError,
    UnknownModelError,
)
from runtree.messages.limits import Limits
from runtree.providers.profile import ModelProfile
from runtree.providers.scripted import ScriptedModel

MODEL = ScriptedModel([])


class Answer(BaseModel):
    text: str


@tool
def first() -> str:
    """Do it."""
    return "1"


def plain(a: int) -> int:
    """Plain."""
    return a


def test_sequences_become_tuples_and_functions_tools() -> None:
    agent = Agent("lead", MODEL, tools=[first, plain], agents=[Agent("sub", MODEL)])
    assert isinstance(agent.tools, tuple)
    assert isinstance(agent.agents, tuple)
    assert list(agent.toolset) == ["first", "plain"]
    with pytest.raises(AttributeError):
        agent.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    "fields, words",
    [
        pytest.param({"name": "two words"}, "two words.*tool name", id="name"),
        pytest.param({"name": ""}, "tool name", id="empty-name"),
        pytest.param({"name": "x" * 65}, "at most 64", id="long-name"),
        pytest.param({"name": None}, "no text", id="no-name"),
        pytest.param({"model": ""}, "model: is empty", id="empty-model"),
        pytest.param({"model": object()}, "is no model", id="model"),
        pytest.param({"max_turns": 0}, "max_turns", id="turns"),
        pytest.param({"max_turns": None}, "max_turns", id="no-turns"),
        pytest.param({"max_tool_calls": -1}, "max_tool_calls", id="tool-calls"),
        pytest.param({"max_parallel": 0}, "max_parallel", id="parallel"),
        pytest.param({"max_parallel": True}, "max_parallel", id="bool"),
        pytest.param({"max_attempts": 1.5}, "max_attempts", id="attempts"),
        pytest.param({"tools": first}, r"Write tools=\[…\]", id="tools"),
        pytest.param({"agents": "sub"}, r"Write agents=\[…\]", id="agents"),
        pytest.param({"agents": [3]}, "is no Agent", id="agent"),
        pytest.param({"agents": ["x", "x"]}, "two tools or sub-agents", id="same-agents"),
        pytest.param({"tools": [first], "agents": ["first"]}, "two tools or sub-agents", id="tool-and-agent"),
        pytest.param({"middleware": [Middleware]}, "is no Middleware", id="middleware"),
        pytest.param({"repl": object()}, r"an? \w+ is no ReplPolicy", id="repl"),
        pytest.param({"runs_per_actor": 0}, "runs_per_actor", id="packing"),
        pytest.param({"resources": 3}, "is no mapping", id="resources"),
        pytest.param({"resources": {"": 1}}, "is no name", id="resource-name"),
        pytest.param({"resources": {"CPU": 1}}, "Call it 'num_cpus'", id="Y02-renamed"),
        pytest.param({"resources": {"object_store_memory": 1}}, "can't be asked for", id="Y02-store"),
        pytest.param({"resources": {"num_gpus": -1}}, "is no amount", id="Y02-negative"),
        pytest.param({"resources": {"num_gpus": float("nan")}}, "is no amount", id="Y02-nan"),
        pytest.param({"resources": {"num_gpus": "1"}}, "is no amount", id="Y02-text"),
        pytest.param({"resources": {"num_cpus": 1.5}}, "no whole number", id="Y02-part"),
        pytest.param({"output_type": Answer, "agents": ["final_output"]}, "structured output", id="L06-agent"),
    ],
)
def test_wrong_fields(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(AgentDefinitionError, match=words):
        Agent(**{"name": "lead", "model": MODEL, **fields})


def test_two_tools_of_one_name() -> None:
    with pytest.raises(ToolDefinitionError, match="'first'"):
        Agent("lead", MODEL, tools=[first, first])


def test_schema_name_equal_to_a_tool_name() -> None:
    """L06."""
    clash = tool(name="final_output")(plain)
    with pytest.raises(AgentDefinitionError, match="final_output"):
        Agent("lead", MODEL, tools=[clash], output_type=Answer)
    Agent("lead", MODEL, tools=[clash])


def test_set_keys_are_paths_and_names_are_resolved() -> None:
    leaf = Agent("leaf", MODEL)
    left = Agent("left", MODEL, agents=[leaf, "lead"])
    right = Agent("right", MODEL, agents=[leaf, "left", "right"])
    agents = AgentSet.of(Agent("lead", MODEL, agents=[left, right]))
    assert agents.root_key == "lead"
    assert agents.child_key("lead", "left") == "lead/left"
    assert agents.child_key("lead/left", "lead") == "lead"
    assert agents.child_key("lead/right", "leaf") == agents.child_key("lead/left", "leaf") == "lead/left/leaf"
    assert agents.child_key("lead/right", "right") == "lead/right"
    assert agents.child_key("lead/right", "left") == "lead/left"
    with pytest.raises(AgentDefinitionError, match="'leaf' is not among them"):
        agents.child_key("lead", "leaf")


def test_agents_of_one_name_in_different_places() -> None:
    one, two = Agent("worker", MODEL, description="1"), Agent("worker", MODEL, description="2")
    root = Agent("lead", MODEL, agents=[Agent("a", MODEL, agents=[one]), Agent("b", MODEL, agents=[two])])
    agents = AgentSet.of(root)
    assert agents.agent(agents.child_key("lead/b", "worker")) is two
    with pytest.raises(AgentDefinitionError, match="2 agents of the tree are named 'worker'"):
        AgentSet.of(Agent("top", MODEL, agents=[root, "worker"]))


@pytest.mark.parametrize(
    "agent, error, words",
    [
        pytest.param(Agent("lead", MODEL, agents=["nobody"]), AgentDefinitionError, "no agent is named", id="name"),
        pytest.param(Agent("lead", "nobody:x"), UnknownModelError, "nobody", id="model"),
        pytest.param(Agent("lead", MODEL, input_type=threading.Lock), AgentDefinitionError, "input_type", id="input"),
        pytest.param(Agent("lead", MODEL, output_type=threading.Lock), AgentDefinitionError, "output_type", id="out"),
    ],
)
def test_wrong_sets(agent: Agent, error: type[ConfigurationError], words: str) -> None:
    with pytest.raises(error, match=words):
        AgentSet.of(agent)


class _Model:
    """A model that needs a key and may hold something that can't travel."""

    secret_names = ("SOME_KEY",)

    def __init__(self, held: object = None) -> None:
        self.held = held
        self.profile = ModelProfile(provider="x")

    def stream(self, request: object) -> Any: ...


class _Hook(Middleware):
    def __init__(self) -> None:
        self.lock = threading.Lock()


def _locked() -> Any:
    lock = threading.Lock()

    @tool
    def guarded() -> str:
        with lock:
            return "x"

    return guarded


@pytest.mark.parametrize(
    "agent, part",
    [
        pytest.param(Agent("sub", MODEL, tools=[first, _locked()]), "agent sub, tool guarded", id="tool"),
        pytest.param(Agent("sub", MODEL, middleware=[_Hook()]), "agent sub, middleware _Hook", id="hook"),
        pytest.param(Agent("sub", _Model(threading.Lock())), "agent sub, model", id="model"),
    ],
)
def test_the_part_that_cannot_travel_is_named(agent: Agent, part: str) -> None:
    with pytest.raises(NotPicklableError, match=part):
        AgentSet.of(Agent("lead", MODEL, agents=[agent])).dump()


def test_secret_names_of_all_models() -> None:
    agents = AgentSet.of(Agent("lead", MODEL, agents=[Agent("a", _Model()), Agent("b", _Model())]))
    assert agents.secret_names() == {"SOME_KEY": True}


def test_sets_travel() -> None:
    sub = Agent("sub", MODEL, limits=Limits(max_runs=3), tools=[first], resources={"num_cpus": 1}, reuse=False)
    agents = AgentSet.of(Agent("lead", MODEL, agents=[sub, "lead"], output_type=Answer))
    data = agents.dump()
    copy, other = AgentSet.load(data), AgentSet.load(data)
    there = copy.agent(copy.child_key("lead", "sub"))
    assert (there.name, there.limits, there.toolset["first"]) == ("sub", Limits(max_runs=3), first)
    assert (there.resources, there.reuse) == ({"num_cpus": 1}, False)
    assert copy.agent("lead").model is not other.agent("lead").model, "scripts start anew in every run"
    assert cloudpickle.loads(cloudpickle.dumps(sub)).name == "sub"
