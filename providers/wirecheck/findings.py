"""What was seen, in sentences for people. Pure functions."""

from collections.abc import Iterator
from typing import Literal

from ...messages.value import Value
from .findings_calls import say_calls, say_reasoning
from .seen import ErrorSeen, Seen, StreamSeen, UsagePlace, UsageSeen, Verdict

Tone = Literal["good", "plain", "bad"]
"""As it should be; worth knowing; a fault that a conversation may fail on."""

Said = tuple[Tone, str]

_PLACES: dict[UsagePlace, str] = {
    "own event": "in an event of its own, without choices",
    "event with the finish": "in the event with the finish reason",
    "every event": "in every event, cumulative",
    "the choice": "inside the choice",
    "x_groq": "in x_groq",
    "the body": "in the body",
    "some events": "in events with choices",
}
_VERDICTS: dict[Verdict, str] = {
    "honoured": "honoured",
    "accepted": "accepted",
    "ignored": "accepted, but without effect",
    "refused": "refused",
}


class Finding(Value):
    """One thing that was found."""

    topic: str
    """What it is about."""
    tone: Tone
    """How good it is."""
    text: str
    """What it is, one sentence."""


def findings(seen: Seen) -> list[Finding]:
    """Return all findings, in the order of the topics."""
    said: dict[str, list[Said]] = {
        "stream": [*_say_stream(seen.stream), *_say_ending(seen)],
        "usage": list(_say_usage(seen)),
        "tool calls": list(say_calls(seen)),
        "reasoning": list(say_reasoning(seen)),
        "in one piece": list(_say_unary(seen)),
        "requests": list(_say_fields(seen)),
        "errors": list(_say_errors(seen)),
        "not known": [("plain", f"{asked}: {reason}") for asked, reason in seen.unanswered.items()],
    }
    return [Finding(topic=topic, tone=tone, text=text) for topic, lines in said.items() for tone, text in lines]


def _say_stream(stream: StreamSeen) -> Iterator[Said]:
    kind = f"content type {stream.content_type or 'missing'}"
    match stream.framing:
        case "events":
            yield ("good" if stream.content_type == "text/event-stream" else "plain"), f"server-sent events, {kind}"
        case "json":
            yield "plain", f"ignores stream: true and answers with one JSON body, {kind}"
            return
        case "web page":
            yield "bad", f"answers with a web page, {kind}: the address is not that of an API"
            return
        case "other":
            yield "bad", f"the answer is neither events nor JSON, {kind}"
            return
        case "empty":
            yield "bad", "no answer" + (f": {stream.broken}" if stream.broken else "")
            return
    sizes = f"{stream.events} events, the middle one {stream.median_event_bytes} bytes, the largest {stream.largest_event_bytes}"
    yield "plain", sizes
    if stream.first_byte is not None:
        yield (
            "plain",
            f"first byte after {stream.first_byte:.2f} s, longest silence after it {stream.longest_gap:.2f} s",
        )
    if stream.comments:
        told = ", ".join(
            f"{text or 'empty'!r} {'once' if count == 1 else f'{count} times'}"
            for text, count in stream.comments.items()
        )
        yield "plain", f"keeps the connection alive with comments: {told}"
    else:
        yield "plain", "no comments to keep the connection alive were seen"
    if stream.crlf:
        yield "plain", "lines end in CRLF"
    if stream.unreadable:
        yield "bad", f"{stream.unreadable} of the events are no JSON object"


def _say_ending(seen: Seen) -> Iterator[Said]:
    for what, stream in (("the answer", seen.stream), ("the answer with tools", seen.tool_stream)):
        if stream is None or stream.framing != "events":
            continue
        if stream.broken:
            yield "bad", f"{what} broke off: {stream.broken}"
        elif stream.finish is None and not stream.done:
            yield "bad", f"{what} was cut: neither a finish reason nor [DONE]"
        elif stream.finish is None:
            yield "plain", f"{what} ends with [DONE] and without a finish reason"
        else:
            done = "and [DONE]" if stream.done else "and without [DONE], which is not needed"
            yield ("good" if stream.done else "plain"), f"{what} ends with finish reason {stream.finish!r} {done}"


def _say_usage(seen: Seen) -> Iterator[Said]:
    usage = seen.usage
    if seen.stream.framing == "events":
        if usage.places:
            yield "good", f"streams usage, {' and '.join(_PLACES[place] for place in usage.places)}"
        else:
            yield "plain", "tells no usage in a stream: tokens can only be estimated"
        if seen.usage_unasked is not None and usage.places:
            yield (
                "plain",
                "usage comes without being asked for" if seen.usage_unasked else "no usage without stream_options",
            )
    elif usage.places:
        yield "good", "tells usage in the body"
    for known in (usage, seen.usage_unary):
        if known is not None and known.places:
            yield from _say_details(known)
            return


def _say_details(usage: UsageSeen) -> Iterator[Said]:
    parts = {"cached tokens": usage.cached, "reasoning tokens": usage.reasoning, "cost": usage.cost}
    told = [name for name, is_told in parts.items() if is_told]
    untold = [name for name, is_told in parts.items() if not is_told]
    words = [f"tells {' and '.join(told)}" if told else "", f"does not tell {' or '.join(untold)}" if untold else ""]
    yield "plain", ", ".join(word for word in words if word)
    if usage.reasoning_beside:
        yield "plain", "counts reasoning tokens beside the completion, not in it"


def _say_unary(seen: Seen) -> Iterator[Said]:
    unary = seen.unary
    if unary is None:
        if "unary" in seen.refusals:
            yield "bad", f"stream: false is refused: {seen.refusals['unary']}"
        return
    if unary.framing != "json":
        yield "plain", f"stream: false is answered with {unary.framing}, content type {unary.content_type or 'missing'}"
    else:
        usage = "with usage" if seen.usage_unary and seen.usage_unary.places else "without usage"
        yield (
            "good",
            f"stream: false gives one JSON body {usage}, finish reason {unary.finish!r}, in {unary.seconds:.2f} s",
        )


def _say_fields(seen: Seen) -> Iterator[Said]:
    for name, verdict in seen.fields.items():
        good: Tone = "plain" if verdict in ("ignored", "refused") else "good"
        reason = seen.refusals.get(_PROBES.get(name, name), "") if verdict == "refused" else ""
        yield good, f"{name}: {_VERDICTS[verdict]}{f' ({reason})' if reason else ''}"


_PROBES = {
    "role system": "hello",
    "stream_options": "hello",
    "role developer": "developer",
    "response_format json_schema": "schema",
    "tool_choice required": "required_tools",
}
"""The probe that tells of a field, where it has another name."""


def _say_errors(seen: Seen) -> Iterator[Said]:
    if seen.bad_request is not None:
        yield from _say_error("a request that makes no sense", seen.bad_request, ("invalid_request",))
    if seen.key_checked is False:
        yield "plain", "a wrong key is accepted: keys are not checked"
    elif seen.bad_key is not None:
        yield from _say_error("a wrong key", seen.bad_key, ("authentication",))


def _say_error(what: str, error: ErrorSeen, codes: tuple[str, ...]) -> Iterator[Said]:
    tone: Tone = "good" if error.code in codes else "plain"
    yield tone, f"{what}: HTTP {error.status}, {error.shape}, taken for {error.code}: {error.message!r}"
