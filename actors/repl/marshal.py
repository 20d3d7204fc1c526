"""Values on their way into a cell and out of it: whatever it is becomes what JSON can hold, and never an error.

Text, booleans, `None`, floats (NaN and the infinities too) and integers stay what they are; integers of more than 4,300 digits become hexadecimal
text, as no JSON reader takes them. Bytes become text where they are UTF-8, else `base64:` and their base64. Tuples, sets and the like become
lists, keys become text, times become ISO text, instances of classes become dicts of their attributes, functions and classes their
representation. Lone surrogates in text become "?". What refers to itself, or is nested deeper than 64 levels, ends in "…".
"""

import base64
import datetime
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

DEPTH: Final = 64
"""Levels of nesting that are kept."""

ELLIPSIS: Final = "…"
"""Stands for what is left out."""

PIECE: Final = 2**20
"""Characters of a large text that are worked on at once; each piece holds Python's lock for a millisecond or less."""

_MAX_BITS: Final = 14_281
"""An integer of so many bits has at most 4,300 digits."""


class _Writer:
    """Takes apart one value, and stops when the bytes it may take are used up."""

    def __init__(self, max_bytes: int) -> None:
        self.left = max_bytes
        self.cut = False
        self.values = 0
        self.abandoned = False

    def value(self, value: Any, depth: int = DEPTH) -> Any:
        if self.abandoned:
            raise AbandonedError
        self.values += 1
        if isinstance(value, str):
            return self._text(value)
        if value is None or isinstance(value, bool | float):
            self.left -= 8
            return value
        if isinstance(value, int):
            return self._integer(value)
        if depth == 0 or self.left <= 0:
            self.cut = True
            return ELLIPSIS
        self.left -= 2
        if is_mapping(value):
            return self._mapping(value, depth)
        if _is_sequence(value):
            return self._sequence(value, depth)
        return self._other(value, depth)

    def _text(self, text: str) -> str:
        if len(text) <= self.left:
            clean, size = clean_text(text)
            if size <= self.left:
                self.left -= size + 2
                return clean
        # No character takes more than four bytes, so that most of a long text is not looked at.
        kept = cut_text(text[: max(self.left, 0)], max(self.left, 0))
        self.left, self.cut = 0, True
        return kept + ELLIPSIS

    def _integer(self, value: int) -> int | str:
        if value.bit_length() <= _MAX_BITS:
            self.left -= 8 + value.bit_length() // 3
            return value
        return self._text(hex(value))

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, each in value.items():
            if self.left <= 0:
                self.cut = True
                break
            found[self._key(key)] = self.value(each, depth - 1)
        return found

    def _key(self, key: Any) -> str:
        plain = self.value(key, 2)
        return plain if isinstance(plain, str) else str(plain)

    def _sequence(self, values: Iterable[Any], depth: int) -> list[Any]:
        found: list[Any] = []
        for each in values:
            if self.left <= 0:
                self.cut = True
                found.append(ELLIPSIS)
                break
            found.append(self.value(each, depth - 1))
        return found

    def _other(self, value: Any, depth: int) -> Any:
        if isinstance(value, bytes | bytearray):
            return self._text(_bytes(bytes(value), self.left))
        if isinstance(value, datetime.datetime | datetime.date | datetime.time):
            return self._text(value.isoformat())
        attributes = getattr(value, "attributes", None)
        if is_mapping(attributes):
            return self._mapping(attributes, depth)
        return self._text(_described(value))


def plain(value: Any, max_bytes: int = sys.maxsize) -> Any:
    """Return a value as JSON can hold it.

    Args:
        value: What a sandbox handed out.
        max_bytes: How much of it is kept, about; the rest is replaced by "…".
    """
    return _Writer(max_bytes).value(value)


@dataclass(frozen=True)
class Measured:
    """A value as JSON can hold it."""

    value: Any
    size: int
    """Bytes it takes in JSON, about."""
    values: int
    """Values, keys and elements in it."""


class AbandonedError(Exception):
    """Nobody waits for the value any more."""


class Measuring:
    """The work of making a value as JSON can hold it and of telling how large it is."""

    def __init__(self, value: Any) -> None:
        """Take the value."""
        self._value = value
        self._writer = _Writer(sys.maxsize)

    def measure(self) -> Measured:
        """Do the work.

        Raises:
            AbandonedError: It was given up in the meantime.
        """
        if isinstance(self._value, str):
            return Measured(*clean_text(self._value), values=1)
        found = self._writer.value(self._value)
        return Measured(found, sys.maxsize - self._writer.left, self._writer.values)

    def abandon(self) -> None:
        """Give the work up; from any thread."""
        self._writer.abandoned = True


def plain_whole(value: Any, max_bytes: int, what: str) -> Any:
    """Return a value as JSON can hold it, all of it.

    Raises:
        ValueError: It is too large, or nested too deeply.
    """
    writer = _Writer(max_bytes)
    found = writer.value(value)
    if writer.cut:
        raise ValueError(f"{what} is larger than {max_bytes} bytes, or nested deeper than {DEPTH} levels")
    return found


def clean_text(text: str) -> tuple[str, int]:
    """Return a text with "?" for what is no character, which are lone surrogates, and how many bytes it takes in UTF-8."""
    if text.isascii():
        return text, len(text)
    size, broken = 0, False
    for start in range(0, len(text), PIECE):
        piece = text[start : start + PIECE]
        try:
            size += len(piece.encode())
        except UnicodeEncodeError:
            size += len(piece.encode("utf-8", "replace"))
            broken = True
    if not broken:
        return text, size
    pieces = (text[start : start + PIECE] for start in range(0, len(text), PIECE))
    return "".join(piece.encode("utf-8", "replace").decode() for piece in pieces), size


def cut_text(text: str, max_bytes: int) -> str:
    """Return the beginning of a text that fits, without a broken character."""
    data = text.encode("utf-8", "replace")
    return data.decode() if len(data) <= max_bytes else data[:max_bytes].decode("utf-8", "ignore")


def is_mapping(value: Any) -> TypeGuard[Mapping[Any, Any]]:
    """Return whether a value is a mapping, of whatever."""
    return isinstance(value, Mapping)


def _is_sequence(value: Any) -> TypeGuard[Iterable[Any]]:
    return isinstance(value, list | tuple | set | frozenset)


def _bytes(data: bytes, limit: int) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(data[: max(limit, 0) + 3]).decode()


def _described(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001  # a value that can't be shown is no reason to lose the cell
        return f"<{type(value).__name__}>"
