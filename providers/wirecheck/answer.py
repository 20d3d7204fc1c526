"""A recorded body as what it is: events of a stream, one JSON value, or something that nobody asked for."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pydantic_core

from ...messages.errors import ProviderProtocolError
from ..shapes import as_object, as_objects, is_object
from ..sse import SseEvent, SseParser
from .recording import Recording

Framing = Literal["events", "json", "web page", "other", "empty"]
"""What a body is made of."""


@dataclass(frozen=True)
class Chunk:
    """The JSON object of one event, or of a whole body."""

    value: dict[str, Any]
    """The object."""
    size: int
    """Its bytes."""
    seconds: float
    """When it was there."""
    event: str | None = None
    """The name on the event's own line."""

    @property
    def choice(self) -> dict[str, Any]:
        """The first choice, empty if there is none."""
        choices = as_objects(self.value.get("choices"))
        return next((choice for choice in choices if not choice.get("index")), dict[str, Any]())

    @property
    def delta(self) -> dict[str, Any]:
        """What the first choice says: a delta, or a whole message where there is no delta."""
        return as_object(self.choice.get("delta") if "delta" in self.choice else self.choice.get("message"))


@dataclass(frozen=True)
class Answer:
    """A body, taken apart."""

    framing: Framing = "empty"
    """What it is made of."""
    chunks: tuple[Chunk, ...] = ()
    """Its JSON objects."""
    comments: tuple[str, ...] = ()
    """The comments between the events."""
    done: bool = False
    """Whether `[DONE]` came."""
    unreadable: int = 0
    """Events that are no JSON object."""

    @property
    def text(self) -> str:
        """The text of all deltas, where content is text."""
        pieces = (chunk.delta.get("content") for chunk in self.chunks)
        return "".join(piece for piece in pieces if isinstance(piece, str))


def read_answer(recording: Recording) -> Answer:
    """Return the body of a recording, taken apart."""
    body = recording.body.strip()
    if not body:
        return Answer()
    if body[:1] == b"<" or recording.content_type == "text/html":
        return Answer("web page")
    if body[:1] in (b"{", b"["):
        value = _parse(body)
        if value is None:
            return Answer("other", unreadable=1)
        objects = [value] if is_object(value) else as_objects(value)
        seconds = recording.reads[-1][0]
        return Answer("json", tuple(Chunk(item, len(body), seconds) for item in objects))
    return _read_events(recording)


def _read_events(recording: Recording) -> Answer:
    chunks: list[Chunk] = []
    done, unreadable = False, 0
    for seconds, (data, event) in _events(recording):
        value = _parse(data)
        if data.strip() == b"[DONE]":
            done = True
        elif is_object(value):
            chunks.append(Chunk(value, len(data), seconds, event))
        elif data.strip():
            unreadable += 1
    comments = _comments(recording.body)
    events = bool(chunks or done or comments or b"data:" in recording.body)
    return Answer("events" if events else "other", tuple(chunks), comments, done, unreadable)


def _events(recording: Recording) -> Iterator[tuple[float, SseEvent]]:
    parser = SseParser()
    try:
        for seconds, data in recording.reads:
            yield from ((seconds, event) for event in parser.feed(data))
        yield from ((recording.seconds, event) for event in parser.close())
    except ProviderProtocolError:
        return


def _comments(body: bytes) -> tuple[str, ...]:
    lines = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return tuple(line[1:].strip().decode("utf-8", "replace") for line in lines if line[:1] == b":")


def _parse(data: bytes) -> Any:
    try:
        return pydantic_core.from_json(data)
    except ValueError:
        return None
