"""The bytes of an answer, in any cut, to model events: a stream, or one JSON body where a stream was asked for or not."""

from typing import Protocol

from ..messages.errors import ProviderError
from ..messages.failure import Failure
from ..messages.model import Failed, ModelEvent
from .sse import BOM, SseParser

MAX_BODY_BYTES = 64 * 1024 * 1024
"""Size at which a JSON body is given up."""


class AnswerMachine(Protocol):
    """One dialect's answer as a state machine without I/O: payloads in, events out; the last event is `Completed` or `Failed`."""

    closed: bool
    """Whether the terminal event is out."""
    done: bool
    """Whether the server said that nothing follows."""

    def feed(self, data: bytes, event: str | None = None, *, last: bool = False) -> list[ModelEvent]:
        """Take the data of one event.

        Args:
            data: The data.
            event: The name on the event's own line.
            last: Whether the stream ended inside this event: what can't be read then is only the end of a cut stream.
        """
        ...

    def feed_body(self, body: bytes) -> list[ModelEvent]:
        """Take a JSON body, which is a whole answer or a whole error."""
        ...

    def finish(self) -> list[ModelEvent]:
        """Take the end of the answer and return what is left to tell, the terminal event last."""
        ...

    def fail(self, failure: Failure) -> Failed:
        """Return the terminal event of a call that failed, with what was said until then."""
        ...


class AnswerDecoder:
    """Takes reads and gives events. The first byte that is no white space tells a JSON body from a stream."""

    def __init__(self, machine: AnswerMachine) -> None:
        self._machine = machine
        self._sse: SseParser | None = None
        self._body: list[bytes] = []
        self._size = 0

    @property
    def ended(self) -> bool:
        """Whether nothing more needs to be read."""
        return self._machine.closed or self._machine.done

    def feed(self, read: bytes) -> list[ModelEvent]:
        """Take one read."""
        if self._sse is None:
            return [] if self._machine.closed else self._begin(read)
        try:
            received = self._sse.feed(read)
        except ProviderError as error:
            return [self._machine.fail(error.details)]
        if len(received) == 1:
            return self._machine.feed(*received[0])
        events: list[ModelEvent] = []
        feed = self._machine.feed
        for data, event in received:
            events += feed(data, event)
        return events

    def finish(self) -> list[ModelEvent]:
        """Take the end of the answer; the last event is terminal, unless it was given before."""
        if self._machine.closed:
            return []
        if self._sse is None:
            body = _said(b"".join(self._body))
            return (self._machine.feed_body(body) if body else []) + self._machine.finish()
        events: list[ModelEvent] = []
        for data, event in self._sse.close():
            events += self._machine.feed(data, event, last=True)
        return events + self._machine.finish()

    def fail(self, failure: Failure) -> Failed:
        """Return the terminal event of a call that failed outside of its answer."""
        return self._machine.fail(failure)

    def _begin(self, read: bytes) -> list[ModelEvent]:
        self._body.append(read)
        self._size += len(read)
        # A body is recognised by its first part that says anything, which stays the first one.
        if not _said(self._body[0]):
            self._body = [b"".join(self._body)]
        start = _said(self._body[0])
        if start[:1] in (b"{", b"["):
            if self._size > MAX_BODY_BYTES:
                message = f"the answer is larger than {MAX_BODY_BYTES} bytes"
                return [self._machine.fail(Failure(code="protocol", message=message))]
            return []
        if start[:1] == b"<":
            message = "the answer is a web page. Check base_url: it should end where the provider's own path begins"
            return [self._machine.fail(Failure(code="protocol", message=message))]
        if not start:
            return []
        whole = b"".join(self._body)
        self._body = []
        self._sse = SseParser()
        return self.feed(whole)


def _said(answer: bytes) -> bytes:
    """Return the beginning of an answer from where it says something: white space and a byte order mark, also a part of one, do not."""
    start = answer.lstrip()
    return b"" if BOM.startswith(start) else start.removeprefix(BOM).lstrip()
