"""All that the model of one run can call, by name."""

from typing import Any, TypeAlias

from ...messages.model import ToolDefinition
from .agent import OUTPUT_TOOL
from .output import OutputPlan
from .state import RunState
from .subagents import Children, SubAgent
from .tool import Tool

Target: TypeAlias = Tool | SubAgent
"""What a call of the model runs."""


class Toolbox:
    """Tools, sub-agents, and the tool that takes a structured output."""

    def __init__(self, state: RunState, *, native_output: bool) -> None:
        agent, agents, key = state.agent, state.agents, state.key
        self.plan = OutputPlan(agent)
        self.children = Children(state)
        self.native_output = native_output
        self.has_output = False
        self.output: Any = None
        self._targets: dict[str, Target] = dict(agent.toolset)
        for entry in agent.agents:
            name = entry if isinstance(entry, str) else entry.name
            child = agents.child_key(key, name)
            self._targets[name] = SubAgent(agents.agent(child), name, child)

    @property
    def takes_output(self) -> bool:
        """Whether the structured output comes by a tool."""
        return self.plan.structured and not self.native_output

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """What the model is told."""
        found = tuple(target.definition for target in self._targets.values())
        return (*found, self.plan.definition) if self.takes_output else found

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that can be called."""
        return (*self._targets, OUTPUT_TOOL) if self.takes_output else tuple(self._targets)

    def get(self, name: str) -> Target | None:
        """Return the tool or sub-agent of a name."""
        return self._targets.get(name)
