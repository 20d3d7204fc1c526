"""Bodies of streams taken apart into frames, written again in other ways that mean the same: cases P01 to P03."""

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

from runtree.providers.sse import SseParser


class Frame(NamedTuple):
    """One event: its data, read if they are a JSON object, and the value of its `event` line."""

    data: Any
    event: str | None = None

    @property
    def said(self) -> dict[str, Any] | None:
        """The data, if they are a JSON object."""
        return self.data if isinstance(self.data, dict) else None


Frames: TypeAlias = list[Frame]
Change: TypeAlias = Callable[[Frames], Frames]
Writing: TypeAlias = Callable[[Frames], bytes]


def frames_of(body: bytes) -> Frames:
    """The events of a stream."""
    parser = SseParser()
    return [Frame(_read(data), event) for data, event in parser.feed(body) + parser.close()]


def _read(data: bytes) -> Any:
    try:
        said = json.loads(data)
    except ValueError:
        return data.decode()
    return said if isinstance(said, dict) else data.decode()


def text_of(data: Any, **style: Any) -> str:
    """The data as text."""
    return data if isinstance(data, str) else json.dumps(data, **{"ensure_ascii": False, **style})


def written(
    frames: Iterable[Frame], *, end: str = "\n", space: str = " ", between: str = "", events: bool = True, **style: Any
) -> bytes:
    """The frames as a stream; `between` stands before each, `style` goes to the JSON writer."""
    parts: list[str] = []
    for frame in frames:
        lines = [f"event:{space}{frame.event}"] if events and frame.event else []
        lines += [f"data:{space}{line}" for line in text_of(frame.data, **style).split("\n")]
        parts.append(between + "".join(line + end for line in lines) + end)
    return "".join(parts).encode()


def _mixed(frames: Frames) -> bytes:
    ends = ["\n", "\r\n", "\r"]
    return b"".join(written([frame], end=ends[number % 3]) for number, frame in enumerate(frames))


def _named(frames: Frames) -> Frames:
    """Each frame named by its type, as most servers do that have types."""
    return [Frame(frame.data, str((frame.said or {}).get("type") or "") or None) for frame in frames]


def _unended(frames: Frames) -> bytes:
    return written(frames).rstrip(b"\n")


WRITINGS: dict[str, Writing] = {
    "plain": written,
    "crlf": lambda frames: written(frames, end="\r\n"),
    "cr": lambda frames: written(frames, end="\r"),
    "mixed line ends": _mixed,
    "no space": lambda frames: written(frames, space=""),
    "comments": lambda frames: written(frames, between=": OPENROUTER PROCESSING\n\n: ping - now\n"),
    "comments inside": lambda frames: written(frames).replace(b"\ndata:", b"\n: keep-alive\ndata:"),
    "other fields": lambda frames: written(frames, between="id: 7\nretry: 100\n"),
    "blank lines": lambda frames: b"\n\n\n" + written(frames, between="\n\n"),
    "empty data": lambda frames: written(frames, between="data:\n\n"),
    "byte order mark": lambda frames: b"\xef\xbb\xbf" + written(frames),
    "no end": _unended,
    "no end, crlf": lambda frames: written(frames, end="\r\n").rstrip(),
    "without event lines": lambda frames: written(frames, events=False),
    "with event lines": lambda frames: written(_named(frames)),
    "many data lines": lambda frames: written(frames, indent=1),
    "many data lines, crlf, no space": lambda frames: written(frames, indent=2, end="\r\n", space=""),
    "escapes": lambda frames: written(frames, ensure_ascii=True),
    "tight": lambda frames: written(frames, separators=(",", ":")),
    "trailing spaces": lambda frames: b"".join(
        written([Frame(f"{text_of(frame.data)}   ", frame.event)]) for frame in frames
    ),
}
"""Ways to write the same frames."""


def each(change: Callable[[dict[str, Any]], Any]) -> Change:
    """A change of every JSON object; `None` drops the frame, a list is put in its place."""

    def changed(frames: Frames) -> Frames:
        out: Frames = []
        for frame in frames:
            made = frame.data if frame.said is None else change(json.loads(json.dumps(frame.said)))
            for data in made if isinstance(made, list) else [made]:
                if data is not None:
                    out.append(Frame(data, frame.event))
        return out

    return changed


def reordered(value: Any) -> Any:
    """A JSON value with the keys of each object in the other order."""
    if isinstance(value, dict):
        return {name: reordered(value[name]) for name in reversed(value)}
    return [reordered(item) for item in value] if isinstance(value, list) else value


def without_done(frames: Frames) -> Frames:
    """The stream without its end mark."""
    return [frame for frame in frames if frame.data != "[DONE]"]


def with_done(frames: Frames) -> Frames:
    """The stream with one end mark."""
    return [*without_done(frames), Frame("[DONE]")]
