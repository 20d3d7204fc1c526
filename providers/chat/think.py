"""Reasoning that a server left in the text, between `<think>` and `</think>`."""

_OPEN, _CLOSE = "<think>", "</think>"


class ThinkSplitter:
    """Splits text into pieces of text and of reasoning; a tag may be cut over any number of pieces."""

    def __init__(self) -> None:
        self._inside = False
        self._held = ""

    def feed(self, piece: str) -> list[tuple[str, str]]:
        """Return what is certain with this piece, as pairs of kind and text."""
        text = self._held + piece
        pieces: list[tuple[str, str]] = []
        while True:
            tag = _CLOSE if self._inside else _OPEN
            before, found, after = text.partition(tag)
            if not found:
                break
            pieces.append((self._kind, before))
            self._inside = not self._inside
            text = after
        kept = _overlap(text, tag)
        self._held = text[len(text) - kept :]
        pieces.append((self._kind, text[: len(text) - kept]))
        return [(kind, part) for kind, part in pieces if part]

    def close(self) -> list[tuple[str, str]]:
        """Return what was held back because it might have become a tag."""
        held, self._held = self._held, ""
        return [(self._kind, held)] if held else []

    @property
    def _kind(self) -> str:
        return "reasoning" if self._inside else "text"


def _overlap(text: str, tag: str) -> int:
    """Return how many characters at the end of the text may be the beginning of the tag."""
    return next((size for size in range(len(tag) - 1, 0, -1) if text.endswith(tag[:size])), 0)
