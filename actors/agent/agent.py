"""The agent: what it is told, what it may call, and its own bounds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, cast

from ...messages.errors import AgentDefinitionError, ToolDefinitionError
from ...messages.limits import Limits
from ...messages.model import ModelSettings
from ...messages.repl import ReplPolicy
from ...providers.extra_body import checked_extra_body
from ...providers.protocol import Model
from .middleware import Middleware
from .placement import check_resources
from .tool import TOOL_NAME, Tool

OUTPUT_TOOL: Final = "final_output"
"""The tool that takes a structured answer where the model has no native support for one."""


@dataclass(frozen=True, eq=False)
class Agent:
    """An immutable description of an agent; it runs nothing by itself.

    Raises:
        AgentDefinitionError: A field is wrong; the text names it and the fix.
        ToolDefinitionError: A function in `tools` can't be made a tool, or two share a name.
    """

    name: str
    """Letters, digits, `_` and `-`: it is also the name of the tool that other agents call it by."""
    model: Model | str
    """A model, or a string such as `"openai:gpt-5"` that is resolved where the agent runs."""
    description: str = ""
    """What it does, for the model of an agent that has it as a sub-agent."""
    instructions: str = ""
    """System prompt."""
    tools: Sequence[Tool | Callable[..., Any]] = ()
    """Functions its model may call; plain typed functions are wrapped as by `tool`."""
    agents: "Sequence[Agent | str]" = ()
    """Sub-agents its model may call. A name stands for an agent of the same tree, also for this one: that makes recursion."""
    input_type: Any = str
    """What it is given: text, or a type whose JSON schema callers have to follow."""
    output_type: Any = str
    """What it gives back: text, or a type its answer is validated against."""
    middleware: Sequence[Middleware] = ()
    """Hooks, the first one outermost."""
    model_settings: ModelSettings | None = None
    """Sampling and size of answers."""
    limits: Limits | None = None
    """Bounds of the sub-tree of each of its runs."""
    max_turns: int = 25
    """Model turns of one run."""
    max_tool_calls: int = 50
    """Executed tool calls of one run, sub-agents included."""
    max_parallel: int | None = None
    """Calls of one turn that run at once; `None`: all."""
    max_attempts: int = 2
    """Attempts of one run: it is started again when its process is lost, as long as one is left."""
    repl: ReplPolicy | None = None
    """Makes its model write programs: fenced Python in an answer is evaluated in a sandbox, where tools, sub-agents and the model are functions."""
    resources: Mapping[str, float] | None = None
    """What a run needs of its node, such as `{"num_cpus": 1, "memory": 512 * 2**20}`."""
    runs_per_actor: int = 1
    """Runs of one tree that may share a process, for agents whose tools are async: dense, but killing one of them ends the others' process too."""
    reuse: bool = True
    """Whether its runs may use and leave behind a warm process."""

    def __post_init__(self) -> None:
        if not TOOL_NAME.fullmatch(_text(self.name, "name")):
            raise AgentDefinitionError(
                f"agent name {self.name!r}",
                "it must work as a tool name",
                "Use letters, digits, _ and -, at most 64 characters",
            )
        self._convert()
        self._check_fields()
        self._check_names()

    @property
    def poolable(self) -> bool:
        """Whether a warm process will do for its runs: one that asks for resources of its own needs a process that was placed for it."""
        return self.reuse and not self.resources

    @property
    def model_name(self) -> str:
        """Name of its model, for people."""
        return self.model if isinstance(self.model, str) else self.model.profile.model

    @property
    def unrepeatable(self) -> frozenset[str]:
        """Names of the tools whose calls must not be made twice."""
        return frozenset(tool.name for tool in self.toolset.values() if not tool.idempotent)

    def __repr__(self) -> str:
        return f"Agent({self.name!r})"

    @cached_property
    def toolset(self) -> Mapping[str, Tool]:
        """The tools by name."""
        return {tool.name: tool for tool in cast("Sequence[Tool]", self.tools)}

    def _convert(self) -> None:
        for field in ("tools", "agents", "middleware"):
            value: Any = getattr(self, field)
            if isinstance(value, str) or not isinstance(value, Sequence):
                raise self._problem(field, f"a {type(value).__name__} is no list", f"Write {field}=[…]")
            object.__setattr__(self, field, tuple(getattr(self, field)))
        tools = tuple(each if isinstance(each, Tool) else Tool(each) for each in self.tools)
        object.__setattr__(self, "tools", tools)

    def _check_fields(self) -> None:
        for field in ("description", "instructions"):
            _text(getattr(self, field), f"agent {self.name}, {field}")
        model: Any = self.model
        if isinstance(model, str):
            if not model:
                raise self._problem("model", "is empty", "Name one, such as 'local:smollm2'")
        elif not isinstance(model, Model):
            problem = f"a {type(model).__name__} is no model"
            raise self._problem("model", problem, "Pass a model string, or an object with `profile` and `stream`")
        for field in ("max_turns", "max_tool_calls", "max_parallel", "max_attempts", "runs_per_actor"):
            _positive(getattr(self, field), f"agent {self.name}, {field}", optional=field == "max_parallel")
        for layer in self.middleware:
            if not isinstance(layer, Middleware):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise self._problem("middleware", f"{layer!r} is no Middleware", "Pass instances of its subclasses")
        for entry in self.agents:
            if not isinstance(entry, Agent | str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise self._problem("agents", f"{entry!r} is no Agent", "Pass agents, or names of agents of the tree")
        if self.model_settings is not None:
            checked_extra_body(self.model_settings.extra_body, f"agent {self.name}, model_settings.extra_body")
        if self.repl is not None and not isinstance(self.repl, ReplPolicy):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise self._problem("repl", f"a {type(self.repl).__name__} is no ReplPolicy", "Pass ReplPolicy(...)")
        check_resources(self.name, self.resources)

    def _check_names(self) -> None:
        seen: set[str] = {OUTPUT_TOOL} if self.output_type is not str else set()
        tools = [tool.name for tool in self.toolset.values()]
        if OUTPUT_TOOL in seen and OUTPUT_TOOL in tools + [_name_of(entry) for entry in self.agents]:
            problem = f"{OUTPUT_TOOL!r} is the tool that takes the structured output"
            raise self._problem("tools", problem, "Rename yours")
        for name in (tool.name for tool in cast("Sequence[Tool]", self.tools)):
            if name in seen:
                raise ToolDefinitionError(
                    f"agent {self.name}, tools", f"two tools are named {name!r}", "Rename one with @tool(name=…)"
                )
            seen.add(name)
        for name in map(_name_of, self.agents):
            if name in seen:
                raise self._problem(
                    "agents", f"{name!r} is the name of two tools or sub-agents", "Names must differ: rename one"
                )
            seen.add(name)

    def _problem(self, field: str, problem: str, fix: str) -> AgentDefinitionError:
        return AgentDefinitionError(f"agent {self.name}, {field}", problem, fix)


def _name_of(entry: Agent | str) -> str:
    return entry if isinstance(entry, str) else entry.name


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise AgentDefinitionError(field, f"a {type(value).__name__} is no text", "Pass a str")
    return value


def _positive(value: Any, field: str, *, optional: bool) -> None:
    if optional and value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise AgentDefinitionError(field, f"{value!r} is no whole number above 0", "Pass 1 or more")
