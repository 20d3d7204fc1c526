"""An answer in neutral words: what any provider could say, before it is put into a dialect."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from runtree.messages.model import ModelEvent, ReasoningDelta, SignatureDelta, TextDelta, ToolCallDelta, UsageDelta
from runtree.messages.transcript import FinishReason
from runtree.messages.usage import Usage

Pieces: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Said:
    """Visible text."""

    pieces: Pieces

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True)
class Thought:
    """Reasoning, or the summary of it, and its proof of origin."""

    pieces: Pieces = ()
    signature: str | None = None

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True)
class Hidden:
    """Reasoning that only the provider can read."""

    data: str


@dataclass(frozen=True)
class Called:
    """A call of a tool. Without pieces the arguments come in one, as `whole`; without either there are none."""

    call_id: str | None
    name: str
    pieces: Pieces = ()
    whole: dict[str, Any] | None = None

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)


Part: TypeAlias = Said | Thought | Hidden | Called

USAGE = Usage(input_tokens=20, output_tokens=9, cache_read_tokens=6, reasoning_tokens=3)


@dataclass(frozen=True)
class Script:
    """One answer."""

    parts: Sequence[Part]
    finish: FinishReason = "stop"
    usage: Usage | None = field(default=USAGE)

    @property
    def calls(self) -> list[Called]:
        return [part for part in self.parts if isinstance(part, Called)]

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Said))

    @property
    def reasoning(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Thought))


def events_of(script: Script) -> list[ModelEvent]:
    """The turn of a scripted model that says the same; hidden reasoning has no event."""
    events: list[ModelEvent] = []
    thinking = 0
    for part in script.parts:
        match part:
            case Said():
                events += [TextDelta(text=piece) for piece in part.pieces if piece]
            case Thought():
                events += [ReasoningDelta(text=piece, index=thinking) for piece in part.pieces]
                if part.signature:
                    events.append(SignatureDelta(signature=part.signature, index=thinking))
                thinking += 1
            case Called():
                call_id = part.call_id or ""
                events += [
                    ToolCallDelta(call_id=call_id, tool_name=part.name, arguments=piece) for piece in ("", *part.pieces)
                ]
            case Hidden():
                pass
    if script.usage is not None:
        events.append(UsageDelta(usage=script.usage))
    return events


def until(frames: Sequence[bytes], word: str) -> list[bytes]:
    """The frames up to the first one in which the word stands."""
    at = next(number for number, frame in enumerate(frames) if word.encode() in frame)
    return list(frames[: at + 1])


def split(frames: Sequence[bytes], words: Sequence[str]) -> list[bytes]:
    """The stream in parts, each of which ends with the first frame in which the next word stands."""
    ends = [len(until(frames, word)) for word in words]
    return [b"".join(frames[start:end]) for start, end in zip([0, *ends], [*ends, len(frames)], strict=True)]
