"""A JSON Schema as the provider holds answers to it: closed objects, and none of the bounds it does not know."""

from typing import Any

from ..shapes import is_array, is_object

_BOUNDS = frozenset(
    {
        "exclusiveMaximum",
        "exclusiveMinimum",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "uniqueItems",
    }
)
_NAMED = ("properties", "$defs", "definitions")


def held_to(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with every object closed and without bounds of numbers, texts and lists; whoever reads the answer checks those."""
    closed: dict[str, Any] = {}
    for name, value in schema.items():
        if name in _BOUNDS or (name == "minItems" and value not in (0, 1)):
            continue
        if name in _NAMED and is_object(value):
            closed[name] = {key: _part(part) for key, part in value.items()}
        else:
            closed[name] = value if name in ("enum", "const", "default", "examples") else _part(value)
    if closed.get("type") == "object" or "properties" in closed:
        closed.setdefault("additionalProperties", False)
    return closed


def _part(value: Any) -> Any:
    if is_object(value):
        return held_to(value)
    return [_part(item) for item in value] if is_array(value) else value
