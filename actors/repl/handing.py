"""A large value in pieces: each is handed over by itself, since a conversion holds Python's lock from its beginning to its end."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from .marshal import PIECE

_NODE: Final = 256
"""What any value, key or element counts in characters: so many take as long to convert."""


@dataclass(frozen=True)
class Piece:
    """A script that puts a piece into its place, and the variables that it needs."""

    code: str
    inputs: Mapping[str, Any]


def handed(name: str, value: Any) -> Iterator[Piece]:
    """Yield what sets a variable, piece by piece; text, or what JSON can hold."""
    if _left(value, PIECE) >= 0:
        yield Piece("None", {name: value})
        return
    yield Piece("_open = []", {})
    yield from _pushed(value)
    yield Piece(f"{name} = _open.pop()\n_open = _piece = _key = None", {})


def _pushed(value: Any) -> Iterator[Piece]:
    """Yield what puts a value on top of the open ones."""
    if _left(value, PIECE) >= 0:
        yield Piece("_open.append(_piece)", {"_piece": value})
    elif isinstance(value, str):
        yield Piece("_open.append([])", {})
        for start in range(0, len(value), PIECE):
            yield Piece("_open[-1].append(_piece)", {"_piece": value[start : start + PIECE]})
        yield Piece("_open[-1] = ''.join(_open[-1])", {})
    elif isinstance(value, dict):
        yield Piece("_open.append({})", {})
        for part in _parts(cast("dict[str, Any]", value).items()):
            if len(part) == 1 and _left(part[0][1], PIECE) < 0:
                key, each = part[0]
                yield from _pushed(each)
                yield Piece("_piece = _open.pop()\n_open[-1][_key] = _piece", {"_key": key})
            else:
                yield Piece("_open[-1].update(_piece)", {"_piece": dict(part)})
    else:
        yield Piece("_open.append([])", {})
        for part in _parts(cast("list[Any]", value)):
            if len(part) == 1 and _left(part[0], PIECE) < 0:
                yield from _pushed(part[0])
                yield Piece("_piece = _open.pop()\n_open[-1].append(_piece)", {})
            else:
                yield Piece("_open[-1].extend(_piece)", {"_piece": part})


def _parts(values: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield the elements in parts of one piece each; what is more than a piece by itself is a part of its own."""
    part: list[Any] = []
    room = PIECE
    for each in values:
        left = _left(each, room)
        if left < 0 and part:
            yield part
            part, left = [], _left(each, PIECE)
        part.append(each)
        room = left
        if room < 0:
            yield part
            part, room = [], PIECE
    if part:
        yield part


def _left(value: Any, room: int) -> int:
    """Return what a value leaves of the room; less than none as soon as it does not fit."""
    room -= _NODE
    if isinstance(value, str):
        return room - len(value)
    if isinstance(value, list | tuple):
        for each in cast("list[Any]", value):
            if room < 0:
                break
            room = _left(each, room)
    elif isinstance(value, dict):
        for key, each in cast("dict[str, Any]", value).items():
            if room < 0:
                break
            room = _left(each, _left(key, room))
    return room
