"""Reading JSON whose shape is not known: a value as an object or as an array, or nothing."""

from typing import Any, TypeGuard


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a JSON value is an object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Return whether a JSON value is an array."""
    return isinstance(value, list)


def as_object(value: object) -> dict[str, Any]:
    """Return a JSON object as it is, and an empty one for anything else."""
    return value if is_object(value) else {}


def as_array(value: object) -> list[Any]:
    """Return a JSON array as it is, and an empty one for anything else."""
    return value if is_array(value) else []


def as_objects(value: object) -> list[dict[str, Any]]:
    """Return the objects of a JSON array."""
    return [item for item in map(as_object, as_array(value)) if item]
