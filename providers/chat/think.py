"""Reasoning that a server left in the text, between tags such as `<think>` and `</think>`."""

from collections.abc import Sequence

from .parts import PieceKind


class ThinkSplitter:
    """Splits text into pieces of text and of reasoning; a tag may be cut over any number of pieces.

    Args:
        names: Names of the tags.
        opened: Whether the text begins inside of a tag. An opening tag at its beginning is one all the same.
    """

    def __init__(self, names: Sequence[str] = ("think",), *, opened: bool = False) -> None:
        self._opening = tuple(f"<{name}>" for name in names)
        self._closing = tuple(f"</{name}>" for name in names)
        self._inside = opened
        self._may_open = opened
        self._held = ""

    def feed(self, piece: str) -> list[tuple[PieceKind, str]]:
        """Return what is certain with this piece, as pairs of kind and text."""
        text = self._held + piece
        pieces: list[tuple[PieceKind, str]] = []
        while True:
            if self._may_open:
                text, undecided = self._without_opening(text)
                if undecided:
                    self._held = text
                    return pieces
            before, found, after = _first_tag(text, self._tags)
            if not found:
                break
            pieces.append((self._kind, before))
            self._inside = not self._inside
            text = after
        kept = max((_overlap(text, tag) for tag in self._tags), default=0)
        self._held = text[len(text) - kept :]
        pieces.append((self._kind, text[: len(text) - kept]))
        return [(kind, part) for kind, part in pieces if part]

    def close(self) -> list[tuple[PieceKind, str]]:
        """Return what was held back because it might have become a tag."""
        held, self._held = self._held, ""
        return [(self._kind, held)] if held else []

    def _without_opening(self, text: str) -> tuple[str, bool]:
        """Return the text without an opening tag at its beginning, and whether there may be one still."""
        start = text.lstrip()
        if any(len(start) < len(tag) and tag.startswith(start) for tag in self._opening):
            return text, True
        self._may_open = False
        tag = next((tag for tag in self._opening if start.startswith(tag)), None)
        return (start[len(tag) :] if tag else text), False

    @property
    def _tags(self) -> tuple[str, ...]:
        return self._closing if self._inside else self._opening

    @property
    def _kind(self) -> PieceKind:
        return "reasoning" if self._inside else "text"


def _first_tag(text: str, tags: Sequence[str]) -> tuple[str, bool, str]:
    """Return what stands before the first of the tags, whether there is one, and what stands after it."""
    found = [(at, tag) for tag in tags if (at := text.find(tag)) >= 0]
    if not found:
        return text, False, ""
    at, tag = min(found)
    return text[:at], True, text[at + len(tag) :]


def _overlap(text: str, tag: str) -> int:
    """Return how many characters at the end of the text may be the beginning of the tag."""
    return next((size for size in range(len(tag) - 1, 0, -1) if text.endswith(tag[:size])), 0)
