"""What stands for `openai:` when the README is run: calls each tool once, then answers; with a REPL it writes a program."""

from collections.abc import Mapping
from typing import Any

from runtree.messages import ModelRequest, ToolMessage
from runtree.providers.profile import ModelProfile
from runtree.providers.scripted import Part, ScriptedModel, tool_call

_SAMPLES: Mapping[str, Any] = {"string": "Lima", "integer": 2, "number": 24.5}


def make(name: str) -> ScriptedModel:
    """Return the model."""
    return ScriptedModel([_answer], profile=ModelProfile(provider="openai", model=name), loop=True)


_PROGRAM = """```python
import asyncio
lines = context.splitlines()
replies = await model_query_batched([lines[0], lines[-1]])
answer(f"{sum('calm' in line for line in lines)} days. {replies[1]['value']}")
```"""


def _answer(request: ModelRequest) -> list[Part]:
    if "You have a Python REPL" in request.instructions:
        return [_PROGRAM]
    answered = {
        result.tool_name
        for message in request.messages
        if isinstance(message, ToolMessage)
        for result in message.results
    }
    left = [tool for tool in request.tools if tool.name not in answered]
    # The tool that takes the output comes last: it ends the run.
    now = [tool for tool in left if tool.name != "final_output"] or left
    return [tool_call(tool.name, _arguments(tool.parameters)) for tool in now] or ["It is ", "done."]


def _arguments(schema: Any) -> dict[str, Any]:
    return {name: _SAMPLES[schema["properties"][name]["type"]] for name in schema.get("required", ())}
