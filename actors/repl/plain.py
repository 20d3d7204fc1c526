"""A session's surroundings without an agent: a model, and functions as tools."""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import anyio
import anyio.to_thread

from ...messages.errors import ConfigurationError
from ...messages.ids import new_run_id
from ...messages.items import Custom, Item, ReplCall
from ...messages.model import ModelRequest
from ...messages.repl import ReplCallRecord
from ...messages.transcript import UserMessage
from ...providers.protocol import Model
from ..agent.model_call import close, end_of
from ..agent.signature import InvalidArgumentsError
from ..agent.tool import Tool
from .host import CallFailedError, CallStart
from .marshal import plain


class PlainHost:
    """Lets a session call a model and functions, and tells what happens by a callback. It has no agents.

    Args:
        model: What `model_query` asks.
        tools: What `tool_call` calls, by name; functions with type annotations, or tools that take no `ToolContext`.
        on_item: Gets every `repl_call` and `custom` item, on the event loop; this object stands in for the run in their stamp.
    """

    def __init__(
        self,
        model: Model | None = None,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        on_item: Callable[[Item], object] | None = None,
    ) -> None:
        self._model = model
        self._tools = {each.name: each for each in (_as_tool(entry) for entry in tools)}
        self._on_item = on_item
        self._seq = 0
        self._id = new_run_id()

    async def model_query(self, prompt: str, instructions: str) -> str:
        """Ask the model."""
        if self._model is None:
            raise CallFailedError("this session has no model: PlainHost(model=...)", "invalid")
        request = ModelRequest(messages=(UserMessage.of(prompt),), instructions=instructions)
        stream = self._model.stream(request)
        try:
            return (await end_of(stream)).message.text
        finally:
            await close(stream)

    async def tool_call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Call a function."""
        tool = self._tools.get(name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            raise CallFailedError(f"there is no tool {name!r}. Tools: {known}", "invalid")
        try:
            bound = tool.bind(arguments)
        except InvalidArgumentsError as error:
            raise CallFailedError(f"invalid arguments of {name}, it was not called: {error}", "invalid") from error
        if tool.is_async:
            return plain(await tool.function(**bound))
        limiter = anyio.CapacityLimiter(math.inf)  # tools that hang must not keep others waiting
        found = await anyio.to_thread.run_sync(lambda: tool.function(**bound), abandon_on_cancel=True, limiter=limiter)
        return plain(found)

    async def agent_query(self, name: str, value: Any) -> Any:
        """Refuse: an agent needs a run around it."""
        raise CallFailedError(f"agent {name!r}: a session without an agent has no sub-agents", "invalid")

    def emit(self, name: str, data: Any) -> None:
        """Tell a `custom` item."""
        self._tell(Custom, name=name, data=data)

    def call_started(self, call: CallStart) -> None:
        """Tell the start of a call."""
        self._tell(ReplCall, **call.told())

    def call_completed(self, call: CallStart, record: ReplCallRecord) -> None:
        """Tell the end of a call."""
        self._tell(ReplCall, **call.told(record))

    def _tell(self, item_type: type[Item], **fields: Any) -> None:
        if self._on_item is None:
            return
        item = item_type(
            run_id=self._id, parent_run_id=None, root_run_id=self._id, seq=self._seq, time=time.time(), **fields
        )
        self._seq += 1
        self._on_item(item)


def _as_tool(entry: Tool | Callable[..., Any]) -> Tool:
    found = entry if isinstance(entry, Tool) else Tool(entry)
    if found.takes_context:
        raise ConfigurationError(
            f"tool {found.name}", "takes a ToolContext, which only a run has", "Use the session of an Agent(repl=...)"
        )
    return found
