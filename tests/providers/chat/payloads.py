"""What an answer feeds to the dialect that reads it: a cut that changes none of it changes nothing."""

from collections.abc import Iterable

from runtree.messages.failure import Failure
from runtree.messages.model import Failed, ModelEvent
from runtree.providers.decoder import AnswerDecoder


class _Record:
    """An answer machine that notes what it is fed: what a dialect makes of it depends on nothing else."""

    def __init__(self) -> None:
        self.closed = self.done = False
        self.fed: list[tuple[object, ...]] = []

    def feed(self, data: bytes, event: str | None = None, *, last: bool = False) -> list[ModelEvent]:
        self.fed.append((data, event, last))
        return []

    def feed_body(self, body: bytes) -> list[ModelEvent]:
        self.fed.append((body.strip(),))
        return []

    def finish(self) -> list[ModelEvent]:
        return []

    def fail(self, failure: Failure) -> Failed:
        self.closed = True
        self.fed.append((failure,))
        return Failed(error=failure)


def payloads(reads: Iterable[bytes]) -> list[tuple[object, ...]]:
    """What a dialect is fed of these reads."""
    machine = _Record()
    decoder = AnswerDecoder(machine)
    for read in reads:
        decoder.feed(read)
    decoder.finish()
    return machine.fed
