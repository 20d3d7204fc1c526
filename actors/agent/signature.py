"""From a typed function to the arguments a model may give: JSON schema and validation."""

import inspect
import typing
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, create_model
from pydantic_core import PydanticSerializationError, to_json

from ...messages.errors import ToolDefinitionError, ToolError
from .context import ToolContext
from .docstring import Docstring

_MISSING = inspect.Parameter.empty


class InvalidArgumentsError(ToolError):
    """The arguments of a call do not fit the schema; the message names them one by one."""


@dataclass(frozen=True)
class Signature:
    """What a function takes: the part the model fills in, and the parameter that gets the context."""

    arguments: type[BaseModel]
    """Validates the model's arguments; fields are numbered, their aliases are the parameters' names."""
    names: Mapping[str, str]
    """Field to parameter."""
    context_parameter: str | None
    """Parameter that is a `ToolContext`."""
    parameters: dict[str, JsonValue]
    """JSON Schema of the arguments."""

    def bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the validated arguments by parameter, without the ones that were left out.

        Raises:
            InvalidArgumentsError: Something is missing, of a wrong type, or unknown.
        """
        valid = validate(self.arguments, arguments)
        return {self.names[field]: getattr(valid, field) for field in valid.model_fields_set}


def validate(model: type[BaseModel], arguments: Mapping[str, Any]) -> BaseModel:
    """Return the arguments as a value of the model.

    Raises:
        InvalidArgumentsError: They do not fit.
    """
    try:
        return model.model_validate(dict(arguments))
    except ValidationError as error:
        raise InvalidArgumentsError(explain(error)) from None


def explain(error: ValidationError) -> str:
    """Return what is wrong, field by field, in a form a model can act on."""
    lines: list[str] = []
    for part in error.errors(include_url=False, include_context=False, include_input=False):
        where = ".".join(str(step) for step in part["loc"])
        text = "unexpected argument" if part["type"] == "extra_forbidden" else part["msg"]
        lines.append(f"{where}: {text}" if where else text)
    return "; ".join(lines)


def resolve_hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    """Return the annotations of a function as types.

    Raises:
        ToolDefinitionError: An annotation names something that can't be found.
    """
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        return typing.get_type_hints(target, localns=_enclosed(target), include_extras=True)
    except NameError as error:
        raise ToolDefinitionError(
            f"tool {name}", f"an annotation can't be resolved: {error}", "Define the type at the top of its module"
        ) from None


def read_signature(
    function: Callable[..., Any], name: str, hints: Mapping[str, Any], docstring: Docstring
) -> Signature:
    """Read what a function takes.

    Raises:
        ToolDefinitionError: A parameter has no annotation, or is of a kind a model can't fill.
    """
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    context: str | None = None
    for parameter in inspect.signature(function).parameters.values():
        hint = _hint_of(parameter, hints, name)
        if hint is ToolContext:
            context = parameter.name
            continue
        field = f"argument_{len(fields)}"
        names[field] = parameter.name
        fields[field] = (hint, _field(parameter, docstring.arguments.get(parameter.name)))
    try:
        model = create_model(name, __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=False), **fields)
        schema = json_schema(model)
    except Exception as error:
        raise ToolDefinitionError(
            f"tool {name}", f"its parameters have no JSON schema: {_first_line(error)}", "Use types that JSON can carry"
        ) from error
    return Signature(model, names, context, schema)


def json_schema(model: type[BaseModel]) -> dict[str, JsonValue]:
    """Return the schema of a model's input, without the titles pydantic makes up."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a default that JSON can't carry is left out, which is what we want
        schema = model.model_json_schema(by_alias=True)
    schema.pop("title", None)
    for field in schema.get("properties", {}).values():
        field.pop("title", None)
    schema.setdefault("properties", {})
    return schema


def _enclosed(function: Callable[..., Any]) -> dict[str, Any]:
    names: Sequence[str] = getattr(getattr(function, "__code__", None), "co_freevars", ())
    cells: Sequence[Any] = getattr(function, "__closure__", None) or ()
    found: dict[str, Any] = {}
    for name, cell in zip(names, cells, strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # set only after the function was made
            continue
    return found


def _hint_of(parameter: inspect.Parameter, hints: Mapping[str, Any], name: str) -> Any:
    where = f"tool {name}, parameter {parameter.name}"
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
        raise ToolDefinitionError(
            where, "a model can't fill *args, **kwargs or positional-only parameters", "Name every parameter"
        )
    if parameter.annotation is _MISSING:
        raise ToolDefinitionError(where, "has no annotation", f"Write a type, such as `{parameter.name}: str`")
    return hints.get(parameter.name, parameter.annotation)


def _field(parameter: inspect.Parameter, description: str | None) -> Any:
    if parameter.default is _MISSING:
        return Field(alias=parameter.name, description=description)
    try:
        to_json(parameter.default)
    except (PydanticSerializationError, ValueError):
        return Field(default=None, alias=parameter.name, description=description)
    return Field(default=parameter.default, alias=parameter.name, description=description)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
