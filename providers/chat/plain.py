"""The chunks that decide what a delta costs: those that say one thing, as nearly all do.

Each function here answers `None` where the long way has to decide; it may only let pass what that would treat the same.
"""

from typing import Any


def plain_delta(chunk: dict[str, Any]) -> tuple[str, Any] | None:
    """Return the one field of a chunk's delta that is not empty and its value, if the chunk says nothing else."""
    if chunk.get("usage") or chunk.get("error") or chunk.get("object") == "error" or "x_groq" in chunk:
        return None
    try:
        (choice,) = chunk["choices"]
        delta: dict[str, Any] = choice["delta"]
        if choice.get("index") or choice.get("finish_reason") or "usage" in choice or "error" in choice:
            return None
        said = None
        for pair in delta.items():
            if pair[1] and pair[0] != "role":
                if said is not None:
                    return None
                said = pair
        return said
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
