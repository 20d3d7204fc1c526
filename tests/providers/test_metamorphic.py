"""Recorded answers sent in other ways that mean the same still say what they said: cases P01 to P03, P06 to P15, P17, U01.

Each change is tried on a sample of the recordings, alone and together with another one, in every way that events are written in.
"""

import json
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest

from runtree.providers.chat import dialects
from tests.kit.recordings import recordings

from . import test_recorded as chat_recorded
from .anthropic import test_recorded as anthropic_recorded
from .anthropic.test_stream import decode as decode_anthropic
from .changes import anthropic, chat, responses
from .changes.bodies import BODIES
from .changes.frames import WRITINGS, Change, Frames, frames_of, written
from .responses import test_recorded as responses_recorded

Recording: TypeAlias = dict[str, Any]
_ALONE, _PAIRS = 4, 5
_ENDS_IN_AN_ERROR = "83605debae0a"
"""The account stands in the frame of the error, and what comes after that is not read."""


def _chat_problems(name: str, recording: Recording, body: bytes) -> Iterator[object]:
    for profile in (chat_recorded.profile_of(recording), dialects.GENERIC):
        yield from chat_recorded.problems_of(recording, chat_recorded.read(recording, body, profile))


def _anthropic_problems(name: str, recording: Recording, body: bytes) -> Iterator[object]:
    return anthropic_recorded.problems_of(recording["truth"], decode_anthropic([body]))


class Dialect(NamedTuple):
    """A folder of recordings, what may be changed in them, and what is wrong with an answer."""

    folder: str
    changes: dict[str, Change]
    problems: Callable[[str, Recording, bytes], Iterable[object]]

    def __str__(self) -> str:
        return self.folder

    def wrong(self, name: str, recording: Recording, body: bytes) -> list[object]:
        try:
            return list(self.problems(name, recording, body))
        except (AssertionError, LookupError, TypeError, ValueError) as error:
            # Which one of thousands it was matters more than where.
            return [repr(error)]


DIALECTS = [
    Dialect("openai_chat", chat.CHANGES, _chat_problems),
    Dialect("openai_responses", responses.CHANGES, responses_recorded.problems_of),
    Dialect("anthropic", anthropic.CHANGES, _anthropic_problems),
]
each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=str)
CONTRADICTIONS = [
    {"only the end", "empty output at the end"},
    {"only the end", "output null at the end"},
    {"only the end", "no output at the end"},
    {"only the end", "item ids change"},
    {"types on event lines", "characters"},
    {"types on event lines", "put together"},
    {"types on event lines", "unknown deltas"},
    {"types on event lines", "unknown fields"},
    {"types on event lines", "usage in parts"},
]
"""Changes that take away together what each of them leaves."""


def _streams(streams: Path, dialect: Dialect) -> Iterator[tuple[str, Recording, Frames]]:
    for name, recording, body in recordings(streams / "stream" / dialect.folder):
        if name != _ENDS_IN_AN_ERROR:
            yield name, recording, frames_of(body)


@each_dialect
def test_one_change(streams: Path, dialect: Dialect) -> None:
    dice = random.Random(1)
    wrong: dict[tuple[str, str], list[object]] = {}
    for name, recording, frames in _streams(streams, dialect):
        bodies = {way: WRITINGS[way](frames) for way in dice.sample(sorted(WRITINGS), _ALONE)}
        bodies |= {
            change: written(dialect.changes[change](frames)) for change in dice.sample(sorted(dialect.changes), _ALONE)
        }
        wrong |= {(name, way): bad for way, body in bodies.items() if (bad := dialect.wrong(name, recording, body))}
    assert not wrong


@each_dialect
def test_two_changes(streams: Path, dialect: Dialect) -> None:
    dice = random.Random(2)
    ways = sorted(set(WRITINGS) - {"without event lines", "with event lines"})
    wrong: dict[tuple[str, ...], list[object]] = {}
    for name, recording, frames in _streams(streams, dialect):
        for _ in range(_PAIRS):
            first, second = dice.sample(sorted(dialect.changes), 2)
            if {first, second} in CONTRADICTIONS:
                continue
            way = dice.choice(ways)
            body = WRITINGS[way](dialect.changes[second](dialect.changes[first](frames)))
            if bad := dialect.wrong(name, recording, body):
                wrong[name, first, second, way] = bad
    assert not wrong


@each_dialect
def test_p06_unary_answers(streams: Path, dialect: Dialect) -> None:
    wrong: dict[tuple[str, str], list[object]] = {}
    for name, recording, body in recordings(streams / "nonstream" / dialect.folder):
        for way, change in BODIES.items():
            if bad := dialect.wrong(name, recording, change(json.loads(body))):
                wrong[name, way] = bad
    assert not wrong


def test_changes_change_something(streams: Path) -> None:
    """A change that fits no recording tests nothing."""
    for dialect in DIALECTS:
        idle = set(dialect.changes)
        for _, _, frames in _streams(streams, dialect):
            idle -= {name for name in idle if written(dialect.changes[name](frames)) != written(frames)}
        assert not idle, dialect
