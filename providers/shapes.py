"""Reading JSON whose shape is not known: a value as an object, an array, a word or a count, or nothing."""

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


def as_count(value: object) -> int | None:
    """Return a number of things as it is, and nothing for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < float("inf") else None
