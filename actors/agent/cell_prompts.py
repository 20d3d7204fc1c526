"""What the model of an agent with a REPL is told: how to work, what its cells can call, and what its bounds are."""

from collections.abc import Iterable, Mapping
from string import Template
from typing import Final

from pydantic_core import to_json

from ...messages.repl import ReplPolicy, ReplUse
from .subagents import SubAgent
from .tool import Tool

_CELLS: Final = """\
You have a Python REPL. To use it, write one fenced block of Python and stop:

```python
print(1 + 1)
```

The block is run as a cell, and you are shown what it printed, the value of its last line and its error, if there is one. Variables stay from cell to
cell. It is a sandbox: no files, no network, no packages beyond a part of the standard library. Only `answer(value)` gives your answer; what you
print is for you.

"""

_PARTS: Final = """\

Functions, to be awaited where `await` is written; `asyncio.gather` runs several at once (`import asyncio`):
$functions

$tools$agents$variables$bounds"""

_EXPLORE: Final = (
    _CELLS
    + """\
The variables below hold material that is too long to be read at once. Never print all of it. Look at its length and its beginning first, then
search and split it with Python, and give pieces to `model_query_batched` with a precise question each: the model it asks sees its prompt and nothing
else. Join what comes back in Python or by one more question, check what is doubtful, and call `answer`.
"""
    + _PARTS
)

_ORCHESTRATE: Final = (
    _CELLS
    + """\
Your part is to lead. Divide the task into parts that do not need each other, give each to the agent that suits it by `agent_query_batched`, and look at the
results: an item `{"ok": False, "error": ...}` of a batch failed, and may be tried again in another way. Then put the parts together and call
`answer`.
"""
    + _PARTS
)

_COMPUTE: Final = (
    _CELLS
    + """\
Work out the task by program. Write down what is given, compute step by step, and check the result in a second way before you call `answer`. Do not do
arithmetic in your head.
"""
    + _PARTS
)

_TEMPLATES: Final[Mapping[ReplUse, str]] = {"explore": _EXPLORE, "orchestrate": _ORCHESTRATE, "compute": _COMPUTE}

_MODEL: Final = """\
- await model_query(prompt: str, instructions: str = "") -> str: asks a model that sees only this
- await model_query_batched(prompts: list[str], instructions: str = "") -> list[dict]: all at once, in order; each {"ok": True, "value": str} or \
{"ok": False, "error": str}"""

_TOOL: Final = """\
- await tool_call(name: str, arguments: dict) -> result of a tool
- await tool_call_batched(name: str, arguments: list[dict]) -> list[dict]: as above"""

_AGENT: Final = """\
- await agent_query(name: str, input) -> output of an agent
- await agent_query_batched(name: str, inputs: list) -> list[dict]: as above"""

_PLAIN: Final = """\
- show_vars() -> dict[str, str]: the variables of earlier cells
- emit(name: str, data): tells the user something on the way
- answer(value): gives the final answer; the last one counts"""

NUDGE: Final = (
    "There was no fenced block of Python in that. Write one to go on, with answer(value) in it once you know the answer. "
    "If what you wrote was the answer itself, write it again."
)


def instructions(
    policy: ReplPolicy, own: str, tools: Iterable[Tool], agents: Iterable[SubAgent], variables: Mapping[str, str]
) -> str:
    """Return the system prompt of an agent with a REPL.

    Args:
        policy: Names the template, or holds one.
        own: The agent's instructions, which come first.
        tools: What `tool_call` reaches.
        agents: What `agent_query` reaches.
        variables: What the cells find, and what it is.
    """
    tools, agents = tuple(tools), tuple(agents)
    functions = [_MODEL, *([_TOOL] if tools else []), *([_AGENT] if agents else []), _PLAIN]
    text = Template(_TEMPLATES[policy.use] if policy.prompt is None else policy.prompt).safe_substitute(
        functions="\n".join(functions),
        tools=_section("Tools", [_described(tool) for tool in tools]),
        agents=_section("Agents", [_described(agent) for agent in agents]),
        variables=_section("Variables", [f"- {name}: {what}" for name, what in variables.items()]),
        bounds=_bounds(policy),
    )
    return f"{own}\n\n{text}" if own else text


def _described(target: Tool | SubAgent) -> str:
    definition = target.definition
    schema = to_json(definition.parameters).decode()
    return f"- {definition.name}: {definition.description or 'no description'} Arguments: {schema}"


def _section(title: str, lines: list[str]) -> str:
    return "\n".join([f"{title}:", *lines, "\n"]) if lines else ""


def _bounds(policy: ReplPolicy) -> str:
    return (
        f"Bounds: {policy.cells} cells of {policy.cell_time:g} s each, {policy.model_calls} model calls, {policy.tool_calls} tool calls, "
        f"{policy.agent_calls} agent calls. Of what a cell prints you see the first {policy.shown_bytes} bytes."
    )
