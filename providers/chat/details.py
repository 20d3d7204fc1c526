"""Reasoning as an array of typed parts that come in pieces, merged to what has to be sent back."""

from typing import Any, NamedTuple

from ..shapes import as_objects, is_array
from .parts import readable

_JOINED = ("text", "summary", "data")


class DetailPiece(NamedTuple):
    """What one piece added to which part."""

    part: dict[str, Any]
    """The part, merged so far."""
    text: str
    """What it says for people."""
    is_new: bool
    """Whether the part begins with it."""


class ReasoningDetails:
    """The parts of one answer, in the order in which they began.

    Pieces with the same index and type are one part: their text, summary and data are joined, of anything else the last word counts that
    is one. Encrypted data under another id is another part, as two ciphertexts never make one.
    """

    def __init__(self) -> None:
        self.parts: list[dict[str, Any]] = []
        """The parts as they are sent back."""
        self._begun: dict[tuple[str, str], dict[str, Any]] = {}

    def feed(self, raw: Any) -> list[DetailPiece]:
        """Take what stands in the field."""
        return [self._take(piece) for piece in as_objects(raw if is_array(raw) else [raw])]

    def _take(self, piece: dict[str, Any]) -> DetailPiece:
        key = (repr(piece.get("index")), repr(piece.get("type")))
        text = readable({name: value for name, value in piece.items() if name in ("text", "summary")})
        part = self._begun.get(key)
        if part is None or _is_another(part, piece):
            part = self._begun[key] = dict(piece)
            self.parts.append(part)
            return DetailPiece(part, text, True)
        for name, value in piece.items():
            known = part.get(name)
            if name in _JOINED and isinstance(known, str) and isinstance(value, str):
                part[name] = known + value
            elif name not in part or value not in (None, ""):
                part[name] = value
        return DetailPiece(part, text, False)


def _is_another(part: dict[str, Any], piece: dict[str, Any]) -> bool:
    return bool("data" in piece and part.get("id") and piece.get("id") and part["id"] != piece["id"])
