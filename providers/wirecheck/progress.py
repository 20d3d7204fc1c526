"""How far a conversation has come, and what its requests are made like."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ...messages.failure import FailureCode
from .answer import read_answer
from .observe_errors import code_of
from .recording import Recording
from .wire import Target

CHAT = "/chat/completions"
OPENINGS = ("hello", "hello_2", "hello_3", "hello_4", "hello_5", "hello_6")
"""Probes that find a request which the server accepts, the usual one first."""

_FINAL: frozenset[FailureCode | None] = frozenset({"authentication", "model_not_found", "quota"})
"""Refusals that no other form of the request changes."""


@dataclass(frozen=True)
class Question:
    """A request to send."""

    body: Mapping[str, Any] | None
    path: str = CHAT
    key: Literal["own", "wrong"] = "own"

    @property
    def method(self) -> Literal["GET", "POST"]:
        """How it is asked."""
        return "GET" if self.body is None else "POST"


@dataclass
class Progress:
    """What is known so far."""

    target: Target
    recordings: dict[str, Recording] = field(default_factory=dict[str, Recording])

    @property
    def opening(self) -> Mapping[str, Any] | None:
        """The first request that was accepted: the others are made like it."""
        found = self._opened()
        return found.request if found else None

    @property
    def gone(self) -> bool:
        """Whether the server has stopped to answer."""
        sent = list(self.recordings.values())
        return len(sent) > 1 and all(recording.status is None for recording in sent[-2:])

    @property
    def hopeless(self) -> bool:
        """Whether nothing more is worth asking."""
        opened = self._opened()
        if opened is not None:
            return self.gone or read_answer(opened).framing not in ("events", "json")
        tried = [self.recordings[name] for name in OPENINGS if name in self.recordings]
        return bool(tried) and not (tried[-1].refused and code_of(tried[-1]) not in _FINAL)

    @property
    def called(self) -> Recording:
        """The streamed answer with tools: the one that had to call, if the other did not."""
        found = (self.recordings[name] for name in ("required_tools", "tools") if self.accepted(name))
        return next(found, Recording())

    def takes(self, name: str) -> bool:
        """Whether a probe was not refused."""
        return name not in self.recordings or not self.recordings[name].refused

    def accepted(self, name: str) -> bool:
        """Whether a probe was sent and accepted."""
        return name in self.recordings and self.recordings[name].accepted

    def answered(self, name: str) -> bool:
        """Whether a probe was accepted or refused, and did not just fail."""
        return self.accepted(name) or not self.takes(name)

    def request(
        self, messages: Sequence[Mapping[str, Any]], *, limit: int | None = None, stream: bool
    ) -> dict[str, Any]:
        """Return a request as this server takes it."""
        opening = self.opening or {}
        bound = "max_completion_tokens" if "max_completion_tokens" in opening else "max_tokens"
        body: dict[str, Any] = {"model": self.target.model, "messages": list(messages)}
        if stream:
            body |= {"stream": True}
            body |= {name: opening[name] for name in ("stream_options",) if name in opening}
        return {**body, bound: limit or self.target.max_tokens, **self.target.extra_body}

    def _opened(self) -> Recording | None:
        return next((self.recordings[name] for name in OPENINGS if self.accepted(name)), None)


@dataclass(frozen=True)
class Probe:
    """One thing to find out."""

    name: str
    title: str
    """What is asked, for people."""
    make: Callable[[Progress], Question | None]
    """The request, or `None` if there is no need for it."""
