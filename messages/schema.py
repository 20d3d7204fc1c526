"""The JSON Schema of the stream: what a program that reads `runtree run --json` can rely on."""

from collections.abc import Iterator
from typing import Any, Final

from pydantic import TypeAdapter

from .items import AnyStreamItem
from .model import JsonSchema
from .version import VERSION

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def stream_schema() -> JsonSchema:
    """Return the schema of one stream item: one definition for each kind, told apart by `kind`.

    Kinds and blocks that a newer version may add match the definitions whose names begin with `Unknown`.
    """
    schema = TypeAdapter[Any](AnyStreamItem).json_schema(mode="serialization")
    definitions: dict[str, JsonSchema] = schema["$defs"]
    for union in _unions(schema):
        _tell_apart(union, definitions)
    return {
        "$schema": _DIALECT,
        "title": "StreamItem",
        "description": f"One item of the stream of a run tree, as runtree {VERSION} writes it.",
        **schema,
    }


def _unions(node: Any) -> Iterator[JsonSchema]:
    """Yield every `oneOf` of references in a schema."""
    if isinstance(node, list):
        for entry in node:  # pyright: ignore[reportUnknownVariableType]
            yield from _unions(entry)
    elif isinstance(node, dict):
        members: Any = node.get("oneOf")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if isinstance(members, list) and all("$ref" in member for member in members):  # pyright: ignore[reportUnknownVariableType]
            yield node  # pyright: ignore[reportUnknownVariableType]
        for value in node.values():  # pyright: ignore[reportUnknownVariableType]
            yield from _unions(value)


def _tell_apart(union: JsonSchema, definitions: dict[str, JsonSchema]) -> None:
    """Name the tag of a union, and keep its open member from matching what the others describe."""
    mapping: dict[str, str] = {}
    open_members: list[JsonSchema] = []
    for member in union["oneOf"]:
        definition = definitions[member["$ref"].rpartition("/")[2]]
        tag: JsonSchema = definition["properties"]["kind"]
        if "const" in tag:
            mapping[tag["const"]] = member["$ref"]
            definition["required"] = ["kind", *(name for name in definition.get("required", ()) if name != "kind")]
        else:
            open_members.append(tag)
    for tag in open_members:
        tag["not"] = {"enum": sorted(mapping)}
    union["discriminator"] = {"propertyName": "kind", "mapping": mapping}
