"""Answers of the messages protocol in the shapes that servers are known to send, with what must come of them."""

import json
from dataclasses import dataclass, field
from typing import Any

from runtree.messages.failure import FailureCode
from runtree.messages.transcript import FinishReason

from .answers import (
    PING,
    SERVER_CALL,
    SIGNATURE,
    WEATHER,
    begin,
    call,
    delta,
    end,
    event,
    message,
    named,
    opened,
    start,
    stop,
    stream,
    text,
    thinking,
    whole,
)


@dataclass
class Case:
    """A body and what it says. `calls` are (id, name, arguments), the id `None` where the server sent none."""

    name: str
    body: bytes
    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str | None, str, dict[str, Any] | None]] = field(default_factory=list)
    finish: FinishReason = "stop"
    failure: FailureCode | None = None
    usage: tuple[int | None, int | None] = (12, 9)

    def __str__(self) -> str:
        return self.name


_WEATHER_TEXT = json.dumps(WEATHER, ensure_ascii=False)
_CALLED: list[tuple[str | None, str, dict[str, Any] | None]] = [("toolu_1", "get_weather", WEATHER)]
_TOOL = call(0, "toolu_1", "get_weather", "", _WEATHER_TEXT[:9], _WEATHER_TEXT[9:])

CASES = [
    Case("plain", named(stream(PING, text(0, "Grüße ", "🌲"))), text="Grüße 🌲"),
    Case("P01-separators", stream(text(0, "a\u2028b\u2029c\u0085d\x0ce")), text="a\u2028b\u2029c\u0085d\x0ce"),
    Case("P02-crlf", named(stream(text(0, "x"))).replace(b"\n", b"\r\n"), text="x"),
    Case("P02-cr", named(stream(text(0, "x"))).replace(b"\n", b"\r"), text="x"),
    Case(
        "P02-no-space",
        named(stream(text(0, " x"))).replace(b"data: ", b"data:").replace(b"event: ", b"event:"),
        text=" x",
    ),
    Case("P02-no-last-newline", stream(text(0, "x")).rstrip(), text="x"),
    Case("P03-comments", b": hello\n\n" + stream(text(0, "x"), b": keep-alive\n", PING, b"id: 3\n\n"), text="x"),
    Case(
        "P04-error-first",
        event("error", error={"type": "overloaded_error", "message": "no"}),
        failure="overloaded",
        usage=(None, None),
    ),
    Case(
        "P04-error-inside-a-call",
        start()
        + opened(0, "toolu_1", "get_weather", '{"ci')
        + event("error", error={"type": "api_error", "message": "no"}, space=""),
        calls=[("toolu_1", "get_weather", None)],
        failure="provider",
        usage=(12, 1),
    ),
    Case(
        "P04-error-without-a-type",
        start() + b'data: {"error": {"message": "no"}}\n\n',
        failure="provider",
        usage=(12, 1),
    ),
    Case("P05-end-in-the-text", start() + text(0, "x"), text="x", failure="protocol", usage=(12, 1)),
    Case(
        "P05-end-before-the-last-event",
        stream(text(0, "x"))[: -len(event("message_stop"))],
        text="x",
        failure="protocol",
    ),
    Case(
        "P05-end-inside-a-call",
        start() + opened(0, "toolu_1", "get_weather", '{"city"'),
        calls=[("toolu_1", "get_weather", None)],
        failure="protocol",
        usage=(12, 1),
    ),
    Case(
        "P05-message-without-the-end-of-a-call",
        stream(opened(0, "toolu_1", "get_weather"), reason="tool_use"),
        calls=[("toolu_1", "get_weather", None)],
        failure="protocol",
    ),
    Case("P05-nothing", b"", failure="protocol", usage=(None, None)),
    Case(
        "P06-unary",
        json.dumps(message([{"type": "text", "text": "x"}, {**SERVER_CALL}], "end_turn"), indent=1).encode(),
        text="x",
        usage=(12, 1),
    ),
    Case(
        "P06-unary-error",
        json.dumps({"type": "error", "error": {"type": "rate_limit_error", "message": "no"}}).encode(),
        failure="rate_limit",
        usage=(None, None),
    ),
    Case("P06-unary-of-something-else", b'{"object": "list"}', failure="protocol", usage=(None, None)),
    Case(
        "P06-a-message-as-an-event",
        event("message", **{**message([{"type": "text", "text": "x"}], "end_turn"), "type": "message"}),
        text="x",
        usage=(12, 1),
    ),
    Case(
        "P07-nulls",
        start(id=None, model=None, usage=None)
        + begin(None, {"type": "text", "text": None, "citations": None})
        + delta(None, "text_delta", text=None)
        + delta(None, "text_delta", text="x")
        + stop(None)
        + end(None, usage=None)[: -len(event("message_stop"))]
        + end("end_turn", usage={"output_tokens": None, "input_tokens": None}),
        text="x",
        usage=(None, None),
    ),
    Case(
        "P10-no-id",
        stream(call(0, None, "now"), call(1, "", "now"), reason="tool_use"),
        calls=[(None, "now", {}), (None, "now", {})],
        finish="tool_calls",
    ),
    Case(
        "P10-same-id-twice",
        stream(call(0, "a", "now"), call(1, "a", "now"), reason="tool_use"),
        calls=[("a", "now", {}), (None, "now", {})],
        finish="tool_calls",
    ),
    Case("P10-no-name", stream(call(0, "a", None), reason="tool_use"), failure="protocol", usage=(12, 1)),
    Case(
        "P11-arguments-as-an-object",
        stream(call(0, "toolu_1", "get_weather", WEATHER), reason="tool_use"),
        calls=_CALLED,
        finish="tool_calls",
    ),
    Case(
        "P11-unreadable",
        stream(call(0, "a", "now", "{city: x}"), reason="tool_use"),
        calls=[("a", "now", None)],
        finish="tool_calls",
    ),
    Case(
        "P11-no-object",
        stream(call(0, "a", "now", "[1]"), reason="tool_use"),
        calls=[("a", "now", None)],
        finish="tool_calls",
    ),
    Case(
        "P12-length-inside-a-call",
        stream(text(0, "x"), call(1, "a", "now", '{"b'), reason="max_tokens"),
        text="x",
        calls=[("a", "now", None)],
        finish="length",
    ),
    Case(
        "P12-length-before-the-arguments",
        stream(opened(0, "a", "now"), reason="max_tokens"),
        calls=[("a", "now", None)],
        finish="length",
    ),
    Case("P12-window", stream(text(0, "x"), reason="model_context_window_exceeded"), text="x", finish="length"),
    Case("P17-thinking", stream(thinking(0, "Hm", "…", signature=SIGNATURE), text(1, "x")), reasoning="Hm…", text="x"),
    Case(
        "P17-thoughts",
        stream(
            thinking(0, "a", signature="1="),
            thinking(1, "b", signature="2="),
            _TOOL.replace(b'"index":0', b'"index":2'),
            reason="tool_use",
        ),
        reasoning="ab",
        calls=_CALLED,
        finish="tool_calls",
    ),
    Case(
        "P17-no-arguments",
        stream(call(0, "a", "now", ""), reason="tool_use"),
        calls=[("a", "now", {})],
        finish="tool_calls",
    ),
    Case(
        "P17-arguments-at-once",
        stream(call(0, "toolu_1", "get_weather", input=WEATHER), reason="tool_use"),
        calls=_CALLED,
        finish="tool_calls",
    ),
    Case(
        "P17-arguments-at-once-without-an-end",
        stream(opened(0, "toolu_1", "get_weather", input=WEATHER), reason="tool_use"),
        calls=_CALLED,
        finish="tool_calls",
    ),
    Case("P17-tool", named(stream(_TOOL, reason="tool_use")), calls=_CALLED, finish="tool_calls"),
    Case("calls-and-end-turn", stream(_TOOL), calls=_CALLED, finish="tool_calls"),
    Case(
        "calls-in-turn",
        stream(
            opened(0, "a", "f", '{"x"'),
            opened(1, "b", "g", "{"),
            delta(0, "input_json_delta", partial_json=": 1}"),
            delta(1, "input_json_delta", partial_json="}"),
            stop(1),
            stop(0),
            reason="tool_use",
        ),
        calls=[("a", "f", {"x": 1}), ("b", "g", {})],
        finish="tool_calls",
    ),
    Case(
        "begun-with-everything",
        event(
            "message_start",
            message=message(
                [{"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": WEATHER}], "tool_use"
            ),
        )
        + event("message_stop"),
        calls=_CALLED,
        finish="tool_calls",
        usage=(12, 1),
    ),
    Case("begun-twice", start() + start() + text(0, "x") + end(), text="x"),
    Case(
        "begun-twice-as-another",
        start() + text(0, "x") + start(id="msg_2") + text(1, "y") + end(),
        text="x",
        failure="protocol",
        usage=(12, 1),
    ),
    Case("never-begun", text(0, "x") + end(usage={"input_tokens": 1, "output_tokens": 2}), text="x", usage=(1, 2)),
    Case(
        "pieces-without-a-block",
        stream(delta(0, "text_delta", text="x"), delta(1, "thinking_delta", thinking="y")),
        text="x",
        reasoning="y",
    ),
    Case(
        "arguments-without-a-call",
        stream(delta(0, "input_json_delta", partial_json="{}"), reason="tool_use"),
        failure="protocol",
        usage=(12, 1),
    ),
    Case(
        "unknown-events",
        stream(event("some_future_event", index=0), text(0, "x"), delta(0, "future_delta", thing=1)),
        text="x",
    ),
    Case(
        "done-in-place-of-the-end",
        start() + text(0, "x") + end()[: -len(event("message_stop"))] + b"data: [DONE]\n\n",
        text="x",
    ),
    Case("done-after-the-end", stream(text(0, "x")) + b"data: [DONE]\n\n", text="x"),
    Case("done-inside", start() + text(0, "x") + b"data: [DONE]\n\n", text="x", failure="protocol", usage=(12, 1)),
    Case("pause", stream(whole(0, SERVER_CALL), reason="pause_turn"), finish="pause"),
    Case(
        "compaction", stream(whole(0, {"type": "compaction", "content": "so far"}), reason="compaction"), finish="pause"
    ),
    Case("refusal", stream(reason="refusal"), finish="refusal"),
    Case(
        "refusal-after-a-call",
        stream(text(0, "x"), _TOOL.replace(b'"index":0', b'"index":1'), reason="refusal"),
        text="x",
        calls=[("toolu_1", "get_weather", None)],
        finish="refusal",
    ),
    Case("stop-sequence", stream(reason="stop_sequence"), finish="stop"),
    Case("unheard-of", stream(text(0, "x"), reason="tired"), text="x", finish="unknown"),
    Case("no-json", start() + b"data: hello\n\n", failure="protocol", usage=(12, 1)),
    Case(
        "half-a-character",
        start()
        + text(0, "x")
        + b'data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "\\ud83d"}}\n\n'
        + end(),
        text="x",
    ),
    Case(
        "U01-null-usage",
        stream(text(0, "x"), event("message_delta", delta={}, usage={"input_tokens": None, "output_tokens": 2})),
        text="x",
    ),
    Case(
        "U01-later-input",
        start() + text(0, "x") + end(usage={"input_tokens": 10, "cache_read_input_tokens": 0, "output_tokens": 9}),
        text="x",
        usage=(10, 9),
    ),
]
