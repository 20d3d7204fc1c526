"""What an agent may ask of a node, and whose runs may share a process (Y02, rules N)."""

import pytest

from runtree import Agent, tool
from runtree.actors.agent import AgentSet
from runtree.messages.errors import AgentDefinitionError
from runtree.providers.scripted import ScriptedModel


@tool
def look_up(word: str) -> str:
    """Block a thread."""
    return word


@tool
async def ask(word: str) -> str:
    """Wait as it should."""
    return word


def test_n_an_agent_with_a_sync_tool_is_refused_packing_at_start() -> None:
    worker = Agent("worker", ScriptedModel([]), tools=[ask, look_up], runs_per_actor=10)
    with pytest.raises(
        AgentDefinitionError, match=r"worker, runs_per_actor=10: the tool 'look_up' is not async.*Make look_up an async"
    ):
        AgentSet.of(Agent("lead", ScriptedModel([]), agents=[worker]))


def test_n_async_tools_and_sub_agents_may_share_a_process() -> None:
    leaf = Agent("leaf", ScriptedModel([]), tools=[look_up])
    AgentSet.of(Agent("lead", ScriptedModel([]), tools=[ask], agents=[leaf], runs_per_actor=10))


def test_y02_what_a_node_can_have_is_taken() -> None:
    Agent("a", ScriptedModel([]), resources={"num_cpus": 0.5, "num_gpus": 2, "memory": 512 * 2**20, "tpu": 4.0})
