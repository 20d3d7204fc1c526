"""Content and reasoning in whatever shape, taken apart into pieces of one kind each."""

from typing import Any, Literal

from ..shapes import as_object, as_objects, is_array

PieceKind = Literal["text", "reasoning", "signature", "redacted"]
"""What a piece of an answer is."""

_REASONING_PARTS = ("thinking", "reasoning")
_DEEPEST = 4


def readable(value: Any, depth: int = 0) -> str:
    """Return the text of reasoning in whatever shape: text, an object around it, or a list of these."""
    if isinstance(value, str):
        return value
    if depth > _DEEPEST:
        return ""
    if is_array(value):
        return "".join(readable(part, depth + 1) for part in value)
    said = as_object(value)
    key = next((key for key in ("text", "thinking", "summary", "content") if said.get(key)), None)
    return readable(said[key], depth + 1) if key else ""


def pieces_of(content: Any) -> list[tuple[PieceKind, str]]:
    """Return the pieces of content that is a list of parts."""
    pieces: list[tuple[PieceKind, str]] = []
    for value in content if is_array(content) else [content]:
        part = as_object(value)
        if isinstance(value, str):
            pieces.append(("text", value))
        elif part.get("type") in _REASONING_PARTS:
            pieces.append(("reasoning", readable(part)))
            pieces += _proofs(part)
        else:
            text = part.get("text") or part.get("refusal")
            if isinstance(text, str):
                pieces.append(("text", text))
    return pieces


def _proofs(part: dict[str, Any]) -> list[tuple[PieceKind, str]]:
    """Return the signatures and the encrypted text of a part with reasoning, which stand in it or in its summary."""
    pieces: list[tuple[PieceKind, str]] = []
    for said in [part, *as_objects(part.get("summary"))]:
        signature, data = said.get("signature"), said.get("data")
        if signature and isinstance(signature, str):
            pieces.append(("signature", signature))
        if data and isinstance(data, str):
            pieces.append(("redacted", data))
    return pieces
