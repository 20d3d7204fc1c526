"""The bytes of a chat completions answer, in any cut, to model events: a stream, or one JSON body where a stream was asked for or not."""

from ..messages.errors import ProviderError
from ..messages.failure import Failure
from ..messages.model import Failed, ModelEvent
from .chat_profile import ChatProfile
from .chat_stream import ChatStream
from .sse import SseParser

MAX_BODY_BYTES = 64 * 1024 * 1024
"""Size at which a JSON body is given up."""


class ChatDecoder:
    """Takes reads and gives events. The first byte that is no white space tells a JSON body from a stream."""

    def __init__(self, profile: ChatProfile, model: str | None = None, *, secret: str | None = None) -> None:
        self._chat = ChatStream(profile, model, secret=secret)
        self._sse: SseParser | None = None
        self._body: list[bytes] = []
        self._size = 0

    @property
    def ended(self) -> bool:
        """Whether nothing more needs to be read."""
        return self._chat.closed or self._chat.done

    def feed(self, read: bytes) -> list[ModelEvent]:
        """Take one read."""
        if self._sse is None:
            return [] if self._chat.closed else self._begin(read)
        try:
            received = self._sse.feed(read)
        except ProviderError as error:
            return [self._chat.fail(error.details)]
        if len(received) == 1:
            return self._chat.feed(*received[0])
        events: list[ModelEvent] = []
        for data, event in received:
            events += self._chat.feed(data, event)
        return events

    def finish(self) -> list[ModelEvent]:
        """Take the end of the answer; the last event is terminal, unless it was given before."""
        if self._sse is None:
            body = b"".join(self._body)
            return (self._chat.feed(body) if body.strip() else []) + self._chat.finish(whole=True)
        events: list[ModelEvent] = []
        for data, event in self._sse.close():
            events += self._chat.feed(data, event, last=True)
        return events + self._chat.finish()

    def fail(self, failure: Failure) -> Failed:
        """Return the terminal event of a call that failed outside of its answer."""
        return self._chat.fail(failure)

    def _begin(self, read: bytes) -> list[ModelEvent]:
        self._body.append(read)
        self._size += len(read)
        # A body is recognised by its first part that says anything, which stays the first one.
        if not self._body[0].strip():
            self._body = [b"".join(self._body)]
        start = self._body[0].lstrip()
        if start[:1] in (b"{", b"["):
            if self._size > MAX_BODY_BYTES:
                message = f"the answer is larger than {MAX_BODY_BYTES} bytes"
                return [self._chat.fail(Failure(code="protocol", message=message))]
            return []
        if start[:1] == b"<":
            message = "the answer is a web page. Check base_url: it should end where /chat/completions begins"
            return [self._chat.fail(Failure(code="protocol", message=message))]
        if not start:
            return []
        whole = b"".join(self._body)
        self._body = []
        self._sse = SseParser()
        return self.feed(whole)
