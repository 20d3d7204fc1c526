"""What was seen of an endpoint, as values. `None` always means that it was not seen either way."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from ...messages.failure import FailureCode
from ...messages.value import Value
from .answer import Framing

Verdict = Literal["honoured", "accepted", "ignored", "refused"]
"""What becomes of a field of the request; `accepted` is no error and no sign of an effect."""

UsagePlace = Literal[
    "own event", "event with the finish", "every event", "the choice", "x_groq", "the body", "some events"
]
"""Where usage stands."""


class StreamSeen(Value):
    """How an answer arrives."""

    content_type: str = ""
    """The media type."""
    framing: Framing = "empty"
    """What the body is made of."""
    events: int = 0
    """Events with JSON."""
    median_event_bytes: int = 0
    """Size of the middle event."""
    largest_event_bytes: int = 0
    """Size of the largest event."""
    comments: Mapping[str, int] = Field(default_factory=dict[str, int])
    """Comments between the events, with how often each came."""
    done: bool = False
    """Whether `[DONE]` came."""
    finish: str | None = None
    """The finish reason."""
    unreadable: int = 0
    """Events that are no JSON."""
    crlf: bool = False
    """Whether lines end in CRLF."""
    first_byte: float | None = None
    """Seconds to the first byte of the body."""
    longest_gap: float = 0.0
    """Longest silence between two reads, in seconds."""
    seconds: float = 0.0
    """Seconds for all of it."""
    broken: str | None = None
    """What ended it before its end."""

    @property
    def whole(self) -> bool:
        """Whether it came to its end."""
        return self.broken is None and (self.finish is not None or self.done or self.framing == "json")


class UsageSeen(Value):
    """How usage is told."""

    places: tuple[UsagePlace, ...] = ()
    """Where it stands; empty: nowhere."""
    fields: tuple[str, ...] = ()
    """Names that are filled, members of details with a dot."""
    input_tokens: int | None = None
    """Prompt tokens of this answer."""
    output_tokens: int | None = None
    """Answer tokens of this answer."""
    cached: bool = False
    """Whether cached tokens are told."""
    reasoning: bool = False
    """Whether reasoning tokens are told."""
    reasoning_beside: bool = False
    """Whether reasoning tokens are counted beside the completion, not in it."""
    cost: bool = False
    """Whether the charge is told."""


class CallsSeen(Value):
    """How tool calls arrive."""

    count: int = 0
    """Calls of the answer."""
    fragments: int = 0
    """Pieces they came in."""
    indexed: Literal["all", "some", "none", "same for all"] | None = None
    """Which pieces have an index."""
    ids: tuple[str, ...] = ()
    """The different ids, in order."""
    repeats_id: bool = False
    """Whether later pieces of a call carry its id again."""
    shares_id: bool = False
    """Whether two calls have the same id."""
    lacks_id: bool = False
    """Whether there is a call without an id."""
    repeats_name: bool = False
    """Whether later pieces of a call carry its name again."""
    name_first: bool = False
    """Whether a call is told before its arguments are."""
    whole: bool = False
    """Whether every call comes in one piece."""
    objects: bool = False
    """Whether arguments are an object and no text."""
    extras: tuple[str, ...] = ()
    """Further fields of a call."""


class ReasoningSeen(Value):
    """Where reasoning arrives."""

    fields: tuple[str, ...] = ()
    """Fields of a delta that hold it."""
    proofs: tuple[str, ...] = ()
    """Fields of a delta that hold a signature or the like of it."""
    part: str | None = None
    """The type of the parts of the content that hold it."""
    tags: str | None = None
    """The tag around it in the text."""
    opened: bool = False
    """Whether the text has the closing tag only."""
    signed: bool = False
    """Whether it has signatures or encrypted parts."""

    @property
    def anywhere(self) -> bool:
        """Whether there is any."""
        return bool(self.fields or self.part or self.tags)


class ErrorSeen(Value):
    """How an error is told."""

    status: int | None = None
    """The HTTP status."""
    content_type: str = ""
    """The media type."""
    shape: str = ""
    """The form of the body, without its values."""
    code: FailureCode | None = None
    """What it is taken for."""
    message: str = ""
    """What it says."""


class Seen(Value):
    """All that was seen."""

    stream: StreamSeen = StreamSeen()
    """The first answer."""
    tool_stream: StreamSeen | None = None
    """The answer with tools."""
    unary: StreamSeen | None = None
    """The answer that was not to be streamed."""
    usage: UsageSeen = UsageSeen()
    """Usage of a stream that was asked for it."""
    usage_unasked: bool | None = None
    """Whether a stream tells its usage without being asked."""
    usage_unary: UsageSeen | None = None
    """Usage of the answer that was not streamed."""
    calls: CallsSeen | None = None
    """Tool calls of the stream; `None`: tools were refused or not asked for."""
    unary_calls: CallsSeen | None = None
    """Tool calls of the answer that was not streamed."""
    ids_again: bool | None = None
    """Whether another answer used the same ids."""
    choice_required: bool = False
    """Whether the model called only when it had to."""
    reasoning: ReasoningSeen = ReasoningSeen()
    """Where reasoning arrives."""
    unary_reasoning: ReasoningSeen | None = None
    """Where it stands in an answer that is not streamed."""
    replay: Mapping[str, Verdict] = Field(default_factory=dict[str, Verdict])
    """What becomes of reasoning that is sent back, by field; `honoured`: the prompt grows by it."""
    replay_needed: bool | None = None
    """Whether a history without it is refused."""
    results: Verdict | None = None
    """What becomes of the results of tools."""
    fields: Mapping[str, Verdict] = Field(default_factory=dict[str, Verdict])
    """What becomes of other fields and roles."""
    refusals: Mapping[str, str] = Field(default_factory=dict[str, str])
    """What the server said to what it refused."""
    bad_request: ErrorSeen | None = None
    """The error for a request that makes no sense; `None`: it was accepted or not sent."""
    bad_key: ErrorSeen | None = None
    """The error for a wrong key; `None`: it was accepted or not sent."""
    key_checked: bool | None = None
    """Whether a wrong key is refused."""
    unanswered: Mapping[str, str] = Field(default_factory=dict[str, str])
    """What was asked and neither accepted nor refused, with the reason."""
    marks: Mapping[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])
    """Signs of a family of servers, by family."""
