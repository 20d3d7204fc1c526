"""Answers of the responses protocol, with what must come of them."""

import json
from dataclasses import dataclass, field
from typing import Any

from runtree.messages.failure import FailureCode
from runtree.messages.transcript import FinishReason

from .answers import (
    CREATED,
    WEATHER,
    WEATHER_TEXT,
    Event,
    announced,
    answer,
    call,
    end,
    events_of,
    message,
    reasoning,
    refusal,
    response,
    search,
    stream,
    text,
    thought,
)


@dataclass
class Case:
    """A body and what it says. `calls` are (id, name, arguments), the id `None` where the server sent none."""

    name: str
    body: bytes
    text: str = ""
    reasoning: str = ""
    signatures: list[str | None] = field(default_factory=list)
    calls: list[tuple[str | None, str, dict[str, Any] | None]] = field(default_factory=list)
    kinds: list[str] | None = None
    finish: FinishReason | None = "stop"
    failure: FailureCode | None = None
    retryable: bool = True
    usage: tuple[int | None, int | None] = (10, 4)

    def __str__(self) -> str:
        return self.name


def failing(
    name: str,
    body: bytes,
    code: FailureCode,
    *,
    retryable: bool = True,
    spent: tuple[int | None, int | None] = (None, None),
    **more: Any,
) -> Case:
    return Case(name, body, failure=code, retryable=retryable, finish=None, usage=spent, **more)


def without(events: list[Event], *kinds: str) -> list[Event]:
    return [event for event in events if event["type"].removeprefix("response.") not in kinds]


def placeless(event: Event) -> Event:
    return {name: value for name, value in event.items() if name != "output_index"}


def typeless(events: list[Event]) -> bytes:
    """The events with their type on the event line only."""
    bare = [(event["type"], {name: value for name, value in event.items() if name != "type"}) for event in events]
    return "".join(f"event: {kind}\ndata: {json.dumps(rest)}\n\n" for kind, rest in bare).encode()


def interleaved() -> list[Event]:
    """Two calls and a message whose pieces come in turns."""
    rows = [list(events_of(item, index)) for index, item in enumerate([call(), message("Grüße 🌲"), SECOND])]
    longest = max(map(len, rows))
    streamed = [row[at] for at in range(longest) for row in rows if at < len(row)]
    return [CREATED, *streamed, end(call(), message("Grüße 🌲"), SECOND)]


def rotating() -> list[Event]:
    """The same items under another id in each event."""
    events: list[Event] = []
    for number, event in enumerate(answer(reasoning("hm"), call())):
        changed = {**event, "item_id": f"x{number}"} if "item_id" in event else event
        item = changed.get("item")
        events.append({**changed, "item": {**item, "id": f"y{number}"}} if item else changed)
    return events


SECOND = call('{"n": 1}', "put", "call_2", 2)
PLAIN = answer(message("Grüße 🌲"))
CALL = answer(call())
CUSTOM = {
    "type": "custom_tool_call",
    "id": "ct_1",
    "call_id": "call_1",
    "name": "sql",
    "input": 'say "é"\n',
    "status": "completed",
}
CUT = call('{"city": "Z', status="incomplete")
LENGTH = end(status="incomplete", incomplete_details={"reason": "max_output_tokens"})
FILTER = end(status="incomplete", incomplete_details={"reason": "content_filter"})
ERROR = {"message": "slow down", "type": "tokens", "code": "rate_limit_exceeded", "param": None}
FAILED = end(status="failed", error={"code": "rate_limit_exceeded", "message": "too fast"})
GET = ("call_1", "get", WEATHER)

CASES = [
    Case("plain", stream(*PLAIN), text="Grüße 🌲", kinds=["text"]),
    Case("P01-separators", stream(*answer(message("a\u2028b\u2029c\u0085d\u000ce"))), text="a\u2028b\u2029c\u0085d\x0ce"),
    Case("P02-crlf", stream(*PLAIN, end="\r\n"), text="Grüße 🌲"),
    Case("P02-no-event-lines-and-done", stream(*PLAIN, named=False, done=True), text="Grüße 🌲"),
    Case("P02-no-last-newline", stream(*PLAIN).rstrip(), text="Grüße 🌲"),
    Case("P02-type-on-the-event-line", typeless(CALL), calls=[GET], finish="tool_calls"),
    Case("P03-comments", b": OPENROUTER PROCESSING\n\n" + stream(*PLAIN).replace(b"\n\n", b"\n\n: ping\n\n"), text="Grüße 🌲"),
    Case(
        "unknown-events",
        stream({"type": "keepalive"}, CREATED, {"type": "response.news"}, {"type": "response.web_search_call.searching"}, *PLAIN[1:]),
        text="Grüße 🌲",
    ),
    Case("empty-answer", stream(CREATED, end()), kinds=[]),
    Case(
        "summaries",
        stream(*answer(reasoning("first", "second"), message("x"))),
        text="x",
        reasoning="first\n\nsecond",
        signatures=["gAAA=="],
        kinds=["thinking", "text"],
    ),
    Case("K07-terminal-repeats", stream(*answer(reasoning("hm"), last=end(reasoning("hm", encrypted="other")))), reasoning="hm", signatures=["gAAA=="]),
    Case(
        "K07-summary-and-text",
        stream(*answer({**reasoning("short"), "content": [{"type": "reasoning_text", "text": "long"}]}, message("x"))),
        text="x",
        reasoning="short",
        signatures=["gAAA=="],
    ),
    Case("K07-only-in-the-whole-item", stream(*without(answer(reasoning("a", "b")), "reasoning_summary_text.delta")), reasoning="a\n\nb", signatures=["gAAA=="]),
    Case("K08-hidden-reasoning", stream(*answer(reasoning())), signatures=["gAAA=="], kinds=["thinking"]),
    Case("reasoning-text", stream(*answer(thought("hm hm"), message("x"))), text="x", reasoning="hm hm", signatures=[None]),
    Case(
        "reasoning-text-with-a-number-for-each-piece",
        stream(*[{**event, "content_index": at} if "reasoning_text.delta" in event["type"] else event for at, event in enumerate(answer(thought("hm hm hm")))]),
        reasoning="hm hm hm",
        signatures=[None],
    ),
    Case(
        "items-in-order",
        stream(*answer(reasoning(number=1), search(), reasoning(number=2), message("x"), call())),
        text="x",
        signatures=["gAAA==", "gAAA=="],
        calls=[GET],
        finish="tool_calls",
        kinds=["thinking", "provider_data", "thinking", "text", "tool_call"],
    ),
    Case("several-parts", stream(*answer(message("a", text("b", annotations=[{"type": "url_citation"}]), "c"))), text="abc", kinds=["text"] * 3),
    Case("refusal", stream(*answer(message(refusal("I won't")))), text="I won't", finish="refusal"),
    Case("P09-call", stream(*CALL), calls=[GET], finish="tool_calls"),
    Case("P09-two-calls", stream(*answer(call(), SECOND)), calls=[GET, ("call_2", "put", {"n": 1})], finish="tool_calls"),
    Case("interleaved", stream(*interleaved()), text="Grüße 🌲", calls=[GET, ("call_2", "put", {"n": 1})], finish="tool_calls", kinds=["tool_call", "text", "tool_call"]),
    Case("rotating-ids", stream(*rotating()), reasoning="hm", signatures=["gAAA=="], calls=[GET], finish="tool_calls"),
    Case("no-places", stream(*map(placeless, answer(call(), SECOND, message("x")))), text="x", calls=[GET, ("call_2", "put", {"n": 1})], finish="tool_calls"),
    Case("one-place-for-all", stream(*[{**event, "output_index": 0} for event in answer(call(), SECOND, message("x"))]), text="x", calls=[GET, ("call_2", "put", {"n": 1})], finish="tool_calls"),
    Case("never-announced", stream(*without(answer(reasoning("hm"), call()), "output_item.added")), reasoning="hm", signatures=["gAAA=="], calls=[GET], finish="tool_calls"),
    Case("only-whole-items", stream(*[event for event in answer(reasoning("hm"), call()) if not event["type"].endswith((".delta", ".added"))]), reasoning="hm", signatures=["gAAA=="], calls=[GET], finish="tool_calls"),
    Case("only-the-last-event", stream(end(reasoning("hm"), message("x"), call())), text="x", reasoning="hm", signatures=["gAAA=="], calls=[GET], finish="tool_calls"),
    Case("last-event-without-output", stream(*answer(message("x"), call(), last=end())), text="x", calls=[GET], finish="tool_calls"),
    Case("items-without-end", stream(*without(answer(message("x"), call()), "output_item.done")), text="x", calls=[GET], finish="tool_calls"),
    Case("items-without-end-nor-copy", stream(*without(answer(message("x"), call(), last=end()), "output_item.done", "function_call_arguments.done")), text="x", calls=[GET], finish="tool_calls"),
    Case("P10-no-call-id", stream(*answer(call(call_id=""), {**SECOND, "call_id": None})), calls=[(None, "get", WEATHER), (None, "put", {"n": 1})], finish="tool_calls"),
    Case("P10-one-id-for-two-calls", stream(*answer(call(), {**SECOND, "call_id": "call_1"})), calls=[GET, (None, "put", {"n": 1})], finish="tool_calls"),
    Case("P10-late-call-id", stream({**CREATED}, {"type": "response.output_item.added", "output_index": 0, "item": {**announced(call()), "call_id": None}}, *CALL[2:]), calls=[GET], finish="tool_calls"),
    Case("P11-object", stream(CREATED, {"type": "response.output_item.done", "output_index": 0, "item": {**call(), "arguments": WEATHER}}, end()), calls=[GET], finish="tool_calls"),
    Case("P11-empty", stream(*answer(call(""))), calls=[("call_1", "get", {})], finish="tool_calls"),
    Case("P11-no-json", stream(*answer(call("{city: x}"))), calls=[("call_1", "get", None)], finish="tool_calls"),
    Case("custom-call", stream(*answer(CUSTOM)), calls=[("call_1", "sql", {"input": 'say "é"\n'})], finish="tool_calls"),
    Case("P12-length-inside-a-call", stream(*answer(message("x"), CUT, last=LENGTH)), text="x", calls=[("call_1", "get", None)], finish="length"),
    Case("P12-length-after-a-whole-call", stream(*answer(call(), last=LENGTH)), calls=[GET], finish="length"),
    Case("P12-cut-call-in-a-completed-answer", stream(*answer(call(status="incomplete"))), calls=[("call_1", "get", None)], finish="tool_calls"),
    Case("P12-length-in-reasoning", stream(*answer(reasoning("hm"), last=LENGTH)), reasoning="hm", signatures=["gAAA=="], finish="length"),
    Case("P12-status-against-the-event", stream(*answer(message("x"), last={**LENGTH, "type": "response.completed"})), text="x", finish="length"),
    Case("P12-the-event-without-a-status", stream(*answer(message("x"), last=end(status="incomplete") | {"response": {}})), text="x", finish="unknown", usage=(None, None)),
    Case("completed-although-in-progress", stream(*answer(message("x"), last={"type": "response.completed", "response": response(message("x"), status="in_progress")})), text="x", usage=(None, None)),
    Case("content-filter", stream(*answer(message("x", status="incomplete"), last=FILTER)), text="x", finish="content_filter"),
    Case("P07-nulls", stream(*[{**event, "delta": None} if event["type"] == "response.output_text.delta" else event for event in PLAIN]), text="Grüße 🌲"),
    Case("no-usage", stream(*answer(message("x"), last=end(usage=None))), text="x", usage=(None, None)),
    Case("P06-json", json.dumps(response(reasoning("a", "b"), search(), message("x"), call()), ensure_ascii=False).encode(), text="x", reasoning="a\n\nb", signatures=["gAAA=="], calls=[GET], finish="tool_calls", kinds=["thinking", "provider_data", "text", "tool_call"]),
    Case("P06-json-after-blank-lines", b"\n\n " + json.dumps(response(message("x"))).encode(), text="x"),
    Case("P06-json-cut-short", json.dumps(response(CUT, status="incomplete", incomplete_details={"reason": "max_output_tokens"})).encode(), calls=[("call_1", "get", None)], finish="length"),
    failing("P06-json-error", b'{"error": {"message": "no", "code": 503}}', "overloaded"),
    failing("P06-json-failed", json.dumps(response(status="failed", error={"code": "server_error", "message": "no"})).encode(), "provider"),
    failing("P06-json-in-the-background", json.dumps(response(status="queued")).encode(), "protocol", retryable=False),
    failing("P04-flat", stream(CREATED, {**ERROR, "type": "error"}), "rate_limit"),
    failing("P04-nested", stream(*PLAIN[:-2], {"type": "error", "error": ERROR}, FAILED), "rate_limit", text="Grüße 🌲"),
    failing("P04-only-failed", stream(*PLAIN[:3], FAILED), "rate_limit", text="Grüß"),
    failing("P04-failed-without-reason", stream(CREATED, end(status="failed")), "provider"),
    failing("P04-first", stream({"type": "error", "error": {"type": "server_error", "message": ""}}), "provider"),
    failing("P04-without-type", stream(CREATED, {"error": {"message": "gone", "code": 502}}), "overloaded"),
    failing("P04-quota", stream({"type": "error", "code": "insufficient_quota", "message": "pay"}), "quota", retryable=False),
    failing("P04-overflow", stream(CREATED, {"type": "error", "error": {"code": "context_length_exceeded", "message": "big"}}), "context_overflow", retryable=False),
    failing("P04-inside-a-call", stream(*CALL[:4], {"type": "error", "error": ERROR}), "rate_limit", calls=[("call_1", "get", None)]),
    failing("P04-after-a-whole-call", stream(*CALL[:-1], FAILED), "rate_limit", calls=[GET]),
    failing("P04-completed-with-an-error", stream(*PLAIN[:3], end(error={"code": "server_error", "message": "no"})), "provider", text="Grüß", spent=(10, 4)),
    failing("cancelled-there", stream(*PLAIN[:3], end(status="cancelled")), "provider", text="Grüß"),
    failing("P05-all-items-done", stream(*CALL[:-1]), "protocol", calls=[GET]),
    failing("P05-done-without-end", stream(*PLAIN[:-1], done=True), "protocol", text="Grüße 🌲"),
    failing("P05-inside-a-call", stream(*CALL[:4]), "protocol", calls=[("call_1", "get", None)]),
    failing("P05-nothing", b"", "protocol"),
    failing("P05-only-comments", b": ping\n\n: ping\n\n", "protocol"),
    failing("no-json", stream(*PLAIN[:3]) + b"data: {oops\n\n" + stream(*PLAIN[3:]), "protocol", text="Grüß"),
    failing("no-name", stream(*answer(call(name=""))), "protocol", spent=(10, 4)),
    failing("web-page", b"<!doctype html><title>Sign in</title>", "protocol", retryable=False),
    Case("P01-character-by-character", stream(*answer(call(WEATHER_TEXT), size=1)), calls=[GET], finish="tool_calls"),
]  # fmt: skip
