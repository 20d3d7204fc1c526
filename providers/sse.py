r"""Server-sent events, parsed incrementally from raw reads.

A parser of our own because the kept library (httpx-sse) reads lines by way of `str.splitlines`, which cuts a payload at U+2028, U+2029 and
U+0085, and because many events arrive in one read: splitting the read at once costs a fraction of an asynchronous step for each line.
Bytes are split at LF, CRLF and CR only, and are decoded by whoever reads the payload, so that a character cut over two reads is whole again.
"""

from typing import NamedTuple

from ..messages.errors import ProviderProtocolError
from ..messages.failure import Failure

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""Size at which an event is given up."""

_BOM = b"\xef\xbb\xbf"


class SseEvent(NamedTuple):
    """One event."""

    data: bytes
    """The payload; several `data` lines are joined by LF."""
    event: str | None = None
    """The value of the `event` line, if there was one."""


class SseParser:
    """Turns reads into events; keeps what a read left unfinished.

    Comments, `id` and `retry` lines and events without data are left out.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        self._tail: list[bytes] = []
        self._tail_bytes = 0
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._event: str | None = None
        self._after_cr = False
        self._first_line = True

    def feed(self, read: bytes) -> list[SseEvent]:
        """Return the events that are complete with this read.

        Raises:
            ProviderProtocolError: An event is larger than the bound.
        """
        if self._after_cr or b"\r" in read:
            read = self._with_lf(read)
        if b"\n" not in read:
            self._keep(read)
            return []
        if self._tail:
            read = b"".join((*self._tail, read))
            self._tail.clear()
            self._tail_bytes = 0
        if self._data or self._event:
            *lines, last = read.split(b"\n")
            events = self._take(lines)
        else:
            *blocks, last = read.split(b"\n\n")
            events = self._take_blocks(blocks)
            if b"\n" in last:
                *lines, last = last.split(b"\n")
                events += self._take(lines)
        self._first_line = False
        if last:
            self._keep(last)
        return events

    def close(self) -> list[SseEvent]:
        """Return what the end of the stream left without its blank line, if it has data."""
        lines = [b"".join(self._tail), b""] if self._tail else [b""]
        self._tail = []
        return self._take(lines)

    def _take_blocks(self, blocks: list[bytes]) -> list[SseEvent]:
        """Take whole events. Nearly all are a single line of data, which needs no look at lines."""
        events: list[SseEvent] = []
        for block in blocks:
            if block[:6] == b"data: " and b"\n" not in block and len(block) <= self._max:
                events.append(SseEvent(block[6:]))
            else:
                events += self._take([*block.split(b"\n"), b""])
        return events

    def _take(self, lines: list[bytes]) -> list[SseEvent]:
        events: list[SseEvent] = []
        data = self._data
        if self._first_line and lines:
            self._first_line = False
            lines[0] = lines[0].removeprefix(_BOM)
        for line in lines:
            if not line:
                if data:
                    events.append(SseEvent(data[0] if len(data) == 1 else b"\n".join(data), self._event))
                    data.clear()
                    self._data_bytes = 0
                self._event = None
            elif line.startswith(b"data:"):
                value = line[6:] if line[5:6] == b" " else line[5:]
                data.append(value)
                self._data_bytes += len(value)
                self._check_size()
            elif line.startswith(b"event:"):
                self._event = line[6:].strip().decode("utf-8", "replace") or None
            elif line == b"data":
                data.append(b"")
        return events

    def _with_lf(self, read: bytes) -> bytes:
        if self._after_cr and read[:1] == b"\n":
            read = read[1:]
        if read:
            self._after_cr = read[-1:] == b"\r"
        return read.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _keep(self, part: bytes) -> None:
        if part:
            self._tail.append(part)
            self._tail_bytes += len(part)
            self._check_size()

    def _check_size(self) -> None:
        if self._tail_bytes + self._data_bytes > self._max:
            message = f"an event of the stream is larger than {self._max} bytes"
            raise ProviderProtocolError(Failure(code="protocol", message=message))
