r"""Server-sent events, parsed incrementally from raw reads.

A parser of our own because the kept library (httpx-sse) reads lines by way of `str.splitlines`, which cuts a payload at U+2028, U+2029 and
U+0085, and because many events arrive in one read: splitting the read at once costs a fraction of an asynchronous step for each line.
Bytes are split at LF, CRLF and CR only, and are decoded by whoever reads the payload, so that a character cut over two reads is whole again.
"""

from ..messages.errors import ProviderProtocolError
from ..messages.failure import Failure

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""Size at which an event is given up."""

BOM = b"\xef\xbb\xbf"
"""What some servers put before their text; it says nothing."""


SseEvent = tuple[bytes, str | None]
"""One event: the payload, of which several `data` lines are joined by LF, and the value of the `event` line, if there was one."""


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
        self._idle = True

    def feed(self, read: bytes) -> list[SseEvent]:
        """Return the events that are complete with this read.

        Raises:
            ProviderProtocolError: An event is larger than the bound.
        """
        if self._after_cr or b"\r" in read:
            read = self._with_lf(read)
        if self._idle and read.endswith(b"\n\n"):
            return self._take_whole(read[:-2])
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
            whole, blank, last = read.rpartition(b"\n\n")
            events = self._take_whole(whole) if blank else []
            if b"\n" in last:
                *lines, last = last.split(b"\n")
                events += self._take(lines)
        self._first_line = False
        if last:
            self._keep(last)
        self._idle = not (last or self._data or self._event)
        return events

    def close(self) -> list[SseEvent]:
        """Return what the end of the stream left without its blank line, if it has data."""
        lines = [b"".join(self._tail), b""] if self._tail else [b""]
        self._tail = []
        return self._take(lines)

    def _take_whole(self, whole: bytes) -> list[SseEvent]:
        """Take events that are complete but for the last blank line.

        Nearly always all of them are of one form: a line of data, or the same after the line of its name. These need no look at lines.
        """
        if len(whole) <= self._max:
            if whole.startswith(b"data: "):
                self._first_line = False
                if b"\n" not in whole:
                    return [(whole[6:], None)]
                return self._take_data(whole[6:].split(b"\n\ndata: "))
            if whole.startswith(b"event: "):
                self._first_line = False
                return self._take_named(whole[7:].split(b"\n\nevent: "))
        return self._take([*whole.split(b"\n"), b""])

    def _take_data(self, blocks: list[bytes]) -> list[SseEvent]:
        events: list[SseEvent] = []
        for block in blocks:
            if b"\n" in block:
                events += self._take([*(b"data: " + block).split(b"\n"), b""])
            else:
                events.append((block, None))
        return events

    def _take_named(self, blocks: list[bytes]) -> list[SseEvent]:
        events: list[SseEvent] = []
        start, size, event = b"\n\n", 0, None
        for block in blocks:
            if not block.startswith(start):
                # Most are named as the one before.
                name, mark, _ = block.partition(b"\ndata: ")
                start, event = name + mark, name.strip().decode("utf-8", "replace") or None
                size = len(start) if mark and b"\n" not in name else 0
            payload = block[size:]
            if not size or not payload or b"\n" in payload:
                events += self._take([*(b"event: " + block).split(b"\n"), b""])
            else:
                events.append((payload, event))
        return events

    def _take(self, lines: list[bytes]) -> list[SseEvent]:
        events: list[SseEvent] = []
        data = self._data
        if self._first_line and lines:
            self._first_line = False
            lines[0] = lines[0].removeprefix(BOM)
        for line in lines:
            if not line:
                if data:
                    events.append((data[0] if len(data) == 1 else b"\n".join(data), self._event))
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
            self._after_cr = False
        if read:
            self._after_cr = read[-1:] == b"\r"
        return read.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _keep(self, part: bytes) -> None:
        if part:
            self._idle = False
            self._tail.append(part)
            self._tail_bytes += len(part)
            self._check_size()

    def _check_size(self) -> None:
        if self._tail_bytes + self._data_bytes > self._max:
            message = f"an event of the stream is larger than {self._max} bytes"
            raise ProviderProtocolError(Failure(code="protocol", message=message))
