"""Tools: typed functions a model may call."""

import functools
import importlib
import inspect
import math
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, overload

import anyio
import anyio.to_thread
import cloudpickle  # pyright: ignore[reportMissingTypeStubs]

from ...messages.content import ContentBlock
from ...messages.errors import ToolDefinitionError, ToolError
from ...messages.model import ToolDefinition
from .context import ToolContext
from .docstring import Docstring
from .signature import read_signature, resolve_hints
from .tool_output import describe, render

TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What every provider accepts as the name of a tool."""

MAX_OUTPUT: Final = 64 * 1024
"""Bytes of a tool's output that reach the model, unless the tool says otherwise."""


class Tool:
    """A function with what a model has to know of it. Make one with `tool`; it never changes."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: float | None = None,
        idempotent: bool = True,
        max_output: int = MAX_OUTPUT,
        hints: Mapping[str, Any] | None = None,
    ) -> None:
        """Read the function's signature and docstring.

        Raises:
            ToolDefinitionError: The name, a parameter or an option is wrong.
        """
        self.name = name if name is not None else getattr(function, "__name__", type(function).__name__)
        _check(self.name, function, timeout, max_output)
        self.function = function
        self.timeout = timeout
        self.idempotent = idempotent
        self.max_output = max_output
        self._hints = dict(resolve_hints(function, self.name) if hints is None else hints)
        docstring = Docstring.parse(inspect.getdoc(function) if inspect.isroutine(function) else function.__doc__)
        self.description = docstring.description if description is None else description
        self._signature = read_signature(function, self.name, self._hints, docstring)
        self.is_async = _is_async(function)
        self.definition = ToolDefinition(
            name=self.name, description=self.description, parameters=self._signature.parameters
        )
        self.__doc__ = function.__doc__

    def __repr__(self) -> str:
        return f"Tool({self.name})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, as if it were not a tool."""
        return self.function(*args, **kwargs)

    @property
    def takes_context(self) -> bool:
        """Whether the function asks for a `ToolContext`."""
        return self._signature.context_parameter is not None

    def returns_data(self, text: str) -> bool:
        """Return whether a text with which the tool answered stands for a value, and is not meant as text.

        Where the annotation does not tell, objects and arrays are values.
        """
        hint = self._hints.get("return", Any)
        return hint is not str and (hint is not Any or text.startswith(("{", "[")))

    def bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return a model's arguments, validated.

        Raises:
            InvalidArgumentsError: They do not fit the schema.
        """
        return self._signature.bind(arguments)

    async def invoke(self, values: Mapping[str, Any], context: ToolContext) -> tuple[ContentBlock, ...]:
        """Run the function with validated arguments and return what the model reads.

        An async function runs here, any other in a thread of its own; a cancelled call leaves that thread behind.

        Raises:
            ToolError: The tool failed; the message is for the model.
        """
        bound = dict(values)
        if self._signature.context_parameter is not None:
            bound[self._signature.context_parameter] = context
        try:
            if self.is_async:
                return render(await self.function(**bound), self.max_output)
            work = functools.partial(self._work, bound, context)
            limiter = anyio.CapacityLimiter(math.inf)
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter)
        except ToolError:
            raise
        except (Exception, SystemExit) as error:
            raise ToolError(describe(error)) from error

    def _work(self, bound: Mapping[str, Any], context: ToolContext) -> tuple[ContentBlock, ...]:
        with context.in_thread():
            return render(self.function(**bound), self.max_output)

    def __reduce__(self) -> tuple[Any, ...]:
        reference = _reference(self)
        if reference is not None:
            return _import_tool, reference
        options = {
            "name": self.name,
            "description": self.description,
            "timeout": self.timeout,
            "idempotent": self.idempotent,
            "max_output": self.max_output,
            # Annotations that are text can't be resolved on the other side, where the names of the script are missing.
            "hints": self._hints,
        }
        return _rebuild, (self.function, options)


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    idempotent: bool = True,
    max_output: int = MAX_OUTPUT,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    idempotent: bool = True,
    max_output: int = MAX_OUTPUT,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a typed function; its signature and docstring become the schema the model sees.

    A parameter annotated with `ToolContext` is filled in by the run and not shown to the model.

    Args:
        function: The function, sync or async.
        name: Name the model sees; the function's where absent.
        description: What the model is told; the docstring where absent.
        timeout: Seconds one call may take.
        idempotent: Whether a call that may have run already can be made again. If not, a run whose process is lost while such a call is
            open fails as "in doubt" instead of being started again. `ToolContext.idempotency_key` helps to make a tool idempotent.
        max_output: Bytes of output that reach the model.

    Raises:
        ToolDefinitionError: The function can't be made a tool; the text names the parameter and the fix.
    """
    make = functools.partial(
        Tool, name=name, description=description, timeout=timeout, idempotent=idempotent, max_output=max_output
    )
    return make if function is None else make(function)


def _check(name: str, function: Any, timeout: float | None, max_output: int) -> None:
    if not TOOL_NAME.fullmatch(name):
        raise ToolDefinitionError(
            f"tool {name!r}", "is not a name a model can call", "Use letters, digits, _ and -, at most 64"
        )
    if not callable(function):
        raise ToolDefinitionError(f"tool {name}", f"a {type(function).__name__} is not callable", "Pass a function")
    if inspect.isclass(function) or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ToolDefinitionError(
            f"tool {name}", "classes and generators can't be tools", "Pass a function that returns its result"
        )
    if timeout is not None and not timeout > 0:
        raise ToolDefinitionError(f"tool {name}, timeout", "must be above 0", "Leave it out for no limit")
    if max_output < 1:
        raise ToolDefinitionError(f"tool {name}, max_output", "must be above 0", f"The default is {MAX_OUTPUT}")


def _is_async(function: Callable[..., Any]) -> bool:
    target = function
    while isinstance(target, functools.partial):
        target = target.func
    return inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(getattr(target, "__call__", None))  # noqa: B004


def _reference(instance: Tool) -> tuple[str, str] | None:
    """Return module and name under which another process can import the tool; `None` if it can't."""
    module = getattr(instance.function, "__module__", None)
    name = getattr(instance.function, "__qualname__", "")
    if module is None or module == "__main__" or "." in name or module in cloudpickle.list_registry_pickle_by_value():
        return None
    found = getattr(sys.modules.get(module), name, None)
    return (module, name) if found is instance else None


def _import_tool(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def _rebuild(function: Callable[..., Any], options: dict[str, Any]) -> Tool:
    return Tool(function, **options)
