"""Chat completions answers, written after what servers are known to send, with what must come of them."""

import json
from dataclasses import dataclass, field
from typing import Any

from runtree.messages.failure import FailureCode
from runtree.messages.transcript import FinishReason


def frame(chunk: Any, *, end: str = "\n", space: str = " ") -> bytes:
    return f"data:{space}{json.dumps(chunk, ensure_ascii=False)}{end}{end}".encode()


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m-1", "choices": [choice], **more}


def call(
    index: int | None, call_id: str | None = None, name: str | None = None, arguments: Any = None
) -> dict[str, Any]:
    """A delta with one fragment of a tool call; what is `None` is sent as null, a missing index is left out."""
    fragment = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"tool_calls": [fragment if index is None else {"index": index, **fragment}]}


def stream(*chunks: dict[str, Any], done: bool = True, end: str = "\n", space: str = " ") -> bytes:
    frames = b"".join(frame(item, end=end, space=space) for item in chunks)
    return frames + (f"data:{space}[DONE]{end}{end}".encode() if done else b"")


USAGE = {
    "prompt_tokens": 10,
    "completion_tokens": 4,
    "total_tokens": 14,
    "prompt_tokens_details": {"cached_tokens": 6},
    "completion_tokens_details": {"reasoning_tokens": 1},
}
USAGE_CHUNK = {"id": "chatcmpl-1", "model": "m-1", "choices": [], "usage": USAGE}


@dataclass
class Case:
    """A body and what it says. `calls` are (id, name, arguments), the id `None` where the server sent none."""

    name: str
    body: bytes
    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str | None, str, dict[str, Any] | None]] = field(default_factory=list)
    finish: FinishReason | None = "stop"
    failure: FailureCode | None = None
    usage: tuple[int | None, int | None] = (None, None)

    def __str__(self) -> str:
        return self.name


_ROLE = chunk({"role": "assistant", "content": "", "refusal": None})
_STOP = chunk(finish="stop")
_CALLS = chunk(finish="tool_calls")
_WEATHER = {"city": "Zürich"}
_WEATHER_TEXT = json.dumps(_WEATHER, ensure_ascii=False)

CASES = [
    Case(
        "plain",
        stream(_ROLE, chunk({"content": "Grüße "}), chunk({"content": "🌲"}), _STOP, USAGE_CHUNK),
        text="Grüße 🌲",
        usage=(10, 4),
    ),
    Case("P01-separators", stream(chunk({"content": "a\u2028b\u2029c\u0085d\u000ce"}), _STOP), text="a\u2028b\u2029c\u0085d\x0ce"),
    Case("P02-crlf", stream(chunk({"content": "x"}), _STOP, USAGE_CHUNK, end="\r\n"), text="x", usage=(10, 4)),
    Case("P02-cr", stream(chunk({"content": "x"}), _STOP, end="\r"), text="x"),
    Case("P02-no-space", stream(chunk({"content": " x"}), _STOP, space=""), text=" x"),
    Case("P02-no-last-newline", stream(chunk({"content": "x"}), _STOP, USAGE_CHUNK, done=False).rstrip(), text="x", usage=(10, 4)),
    Case("P02-done-without-newline", stream(chunk({"content": "x"}), _STOP).rstrip(), text="x"),
    Case(
        "P02-many-data-lines",
        b'data: {"choices": [{"index": 0,\ndata: "delta": {"content": "x"},\ndata: "finish_reason": "stop"}]}\n\n',
        text="x",
    ),
    Case("P02-bom", b"\xef\xbb\xbf" + stream(chunk({"content": "x"}), _STOP), text="x"),
    Case(
        "P03-comments",
        b": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n"
        + stream(chunk({"content": "x"}), done=False)
        + b": keep-alive\n\nid: 7\nretry: 10\n"
        + stream(_STOP),
        text="x",
    ),
    Case("P04-first", frame({"error": {"message": "no", "type": "server_error"}}), failure="provider", finish=None),
    Case(
        "P04-later",
        stream(chunk({"content": "x"}), {"error": {"code": 429, "message": "slow"}}, _STOP),
        text="x",
        failure="rate_limit",
        finish=None,
    ),
    Case(
        "P04-inside-a-call",
        stream(chunk(call(0, "c1", "get", '{"a')), {"error": {"message": "overloaded", "type": "overloaded_error"}}),
        calls=[("c1", "get", None)],
        failure="overloaded",
        finish=None,
    ),
    Case(
        "P04-event-line",
        stream(chunk({"content": "x"}), done=False) + b'event: error\ndata: {"error": {"message": "bad", "status_code": 400}}\n\n',
        text="x",
        failure="invalid_request",
        finish=None,
    ),
    Case("P04-flat", frame({"object": "error", "message": "no", "type": "Bad", "code": 500}), failure="provider", finish=None),
    Case(
        "P04-in-choice",
        stream(chunk({"content": "x"}), {"choices": [{"index": 0, "delta": {}, "error": {"code": 502, "message": "gone"}}]}),
        text="x",
        failure="overloaded",
        finish=None,
    ),
    Case("P04-finish-error", stream(chunk({"content": "x"}), chunk(finish="error")), text="x", failure="overloaded", finish=None),
    Case("P05-text-without-end", stream(chunk({"content": "x"}), done=False), text="x", failure="protocol", finish=None),
    Case(
        "P05-inside-a-call",
        stream(chunk(call(0, "c1", "get", '{"a')), done=False),
        calls=[("c1", "get", None)],
        failure="protocol",
        finish=None,
    ),
    Case("P05-done-inside-a-call", stream(chunk(call(0, "c1", "get", '{"a'))), calls=[("c1", "get", None)], failure="protocol", finish=None),
    Case("P05-nothing", b"", failure="protocol", finish=None),
    Case("P05-only-comments", b": ping\n\n: ping\n\n", failure="protocol", finish=None),
    Case(
        "P06-json",
        json.dumps(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "model": "m-1",
                "choices": [
                    {
                        "index": 0,
                        "message": {"role": "assistant", "content": "x", "reasoning_content": "hm", **call(None, "c1", "get", _WEATHER_TEXT)},
                        "finish_reason": "tool_calls",
                    }
                ],
                "usage": USAGE,
            },
            ensure_ascii=False,
        ).encode(),
        text="x",
        reasoning="hm",
        calls=[("c1", "get", _WEATHER)],
        finish="tool_calls",
        usage=(10, 4),
    ),
    Case(
        "P06-json-after-blank-lines",
        b'\n\n\n {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}\n',
        text="x",
    ),
    Case("P06-json-error", b'{"error": {"message": "no", "code": 503}}', failure="overloaded", finish=None),
    Case(
        "P07-nulls",
        stream(
            {"id": None, "model": None, "choices": [{"delta": {"role": None, "content": None, "tool_calls": None}}], "usage": None},
            chunk(call(0, "c1", "get", "")),
            chunk(call(0, None, None, '{"city": ')),
            chunk(call(0, "", "", '"Zürich"}')),
            chunk({"content": None, "tool_calls": None}, finish="tool_calls"),
        ),
        calls=[("c1", "get", _WEATHER)],
        finish="tool_calls",
    ),
    Case(
        "P08-no-index",
        stream(
            chunk(call(None, "c1", "get", '{"city": ')),
            chunk(call(None, "c2", "put", '{"n": 1')),
            chunk(call(None, "c1", None, '"Zürich"}')),
            chunk(call(None, "c2", None, "}")),
            _CALLS,
        ),
        calls=[("c1", "get", _WEATHER), ("c2", "put", {"n": 1})],
        finish="tool_calls",
    ),
    Case(
        "P08-all-index-0",
        stream(
            chunk(call(0, "c1", "get", _WEATHER_TEXT)),
            chunk(call(0, "c2", "put", '{"n": ')),
            chunk(call(0, None, None, "1}")),
            _CALLS,
        ),
        calls=[("c1", "get", _WEATHER), ("c2", "put", {"n": 1})],
        finish="tool_calls",
    ),
    Case(
        "P08-new-index-for-each-fragment",
        stream(chunk(call(0, "c1", "get", '{"city": ')), chunk(call(1, "c1", None, '"Zürich"}')), _CALLS),
        calls=[("c1", "get", _WEATHER)],
        finish="tool_calls",
    ),
    Case(
        "P09-late-name",
        stream(chunk(call(0, "c1", "", "")), chunk(call(0, None, "get", '{"city": ')), chunk(call(0, None, None, '"Zürich"}')), _CALLS),
        calls=[("c1", "get", _WEATHER)],
        finish="tool_calls",
    ),
    Case(
        "P09-name-in-each-fragment",
        stream(
            chunk(call(0, "c1", "get", '{"city": ')),
            chunk(call(0, "c1", "get", '"Zürich"}')),
            chunk(call(0, "c1", "get", "")),
            _CALLS,
        ),
        calls=[("c1", "get", _WEATHER)],
        finish="tool_calls",
    ),
    Case(
        "P10-no-ids",
        stream(
            chunk({"tool_calls": [call(None, "", "get", _WEATHER_TEXT)["tool_calls"][0], call(None, "", "get", "{}")["tool_calls"][0]]}),
            _STOP,
        ),
        calls=[(None, "get", _WEATHER), (None, "get", {})],
        finish="tool_calls",
    ),
    Case(
        "P10-one-id-for-two-calls",
        stream(chunk(call(0, "c1", "get", _WEATHER_TEXT)), chunk(call(1, "c1", "get", '{"city": "Bern"}')), _CALLS),
        calls=[("c1", "get", _WEATHER), (None, "get", {"city": "Bern"})],
        finish="tool_calls",
    ),
    Case("P11-object", stream(chunk(call(0, "c1", "get", _WEATHER)), _CALLS), calls=[("c1", "get", _WEATHER)], finish="tool_calls"),
    Case("P11-empty", stream(chunk(call(0, "c1", "now", "")), _CALLS), calls=[("c1", "now", {})], finish="tool_calls"),
    Case("P11-no-json", stream(chunk(call(0, "c1", "get", "{city: x}")), _CALLS), calls=[("c1", "get", None)], finish="tool_calls"),
    Case("P11-no-object", stream(chunk(call(0, "c1", "get", "[1]")), _CALLS), calls=[("c1", "get", None)], finish="tool_calls"),
    Case(
        "P12-length-inside-a-call",
        stream(chunk({"content": "x"}), chunk(call(0, "c1", "get", '{"city": "Z')), chunk(finish="length")),
        text="x",
        calls=[("c1", "get", None)],
        finish="length",
    ),
    Case(
        "P13-prelude-and-usage-after-the-finish",
        stream(
            {"id": "", "model": "", "choices": [], "prompt_filter_results": []},
            chunk({"content": "x"}),
            _STOP,
            {"choices": [{"index": 0, "content_filter_results": {}, "finish_reason": None}]},
            USAGE_CHUNK,
        ),
        text="x",
        usage=(10, 4),
    ),
    Case(
        "P13-usage-in-choice",
        stream(chunk({"content": "x"}), {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": USAGE}]}),
        text="x",
        usage=(10, 4),
    ),
    Case("P13-usage-beside", stream(chunk({"content": "x"}), {**_STOP, "x_groq": {"usage": USAGE}}), text="x", usage=(10, 4)),
    Case(
        "P13-cumulative-usage-with-nulls",
        stream(
            chunk({"content": "x"}, usage={"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}),
            chunk({"content": "y"}, usage={"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}),
            chunk(finish="stop", usage={"prompt_tokens": 10, "completion_tokens": None, "total_tokens": None}),
        ),
        text="xy",
        usage=(10, 4),
    ),
    Case(
        "P13-reasoning-beside-completion",
        stream(
            chunk({"content": "x"}),
            _STOP,
            {
                "choices": [],
                "usage": {
                    "prompt_tokens": 10,
                    "completion_tokens": 4,
                    "total_tokens": 17,
                    "completion_tokens_details": {"reasoning_tokens": 3},
                },
            },
        ),
        text="x",
        usage=(10, 7),
    ),
    Case(
        "P14-after-the-finish",
        stream(chunk({"content": "x"}), chunk(finish="length"), chunk({"content": ""}, finish="stop"), chunk()),
        text="x",
        finish="length",
    ),
    Case(
        "P14-finish-after-each-call",
        stream(chunk(call(0, "c1", "get", _WEATHER_TEXT), finish="tool_calls"), chunk(call(1, "c2", "now", "{}"), finish="tool_calls")),
        calls=[("c1", "get", _WEATHER), ("c2", "now", {})],
        finish="tool_calls",
    ),
    Case("other-choices", stream({"choices": [{"index": 1, "delta": {"content": "no"}}]}, chunk({"content": "x"}), _STOP), text="x"),
    Case("no-finish-but-done", stream(chunk({"content": "x"})), text="x", finish="unknown"),
    Case("foreign-finish", stream(chunk({"content": "x"}), chunk(finish="eos")), text="x"),
    Case("refusal", stream(chunk({"refusal": "I "}), chunk({"refusal": "won't"}), _STOP), text="I won't", finish="refusal"),
    Case("legacy-function", stream(chunk({"function_call": {"name": "get", "arguments": _WEATHER_TEXT}}), chunk(finish="function_call")),
         calls=[(None, "get", _WEATHER)], finish="tool_calls"),
    Case("P15-content", stream(chunk({"reasoning_content": "h"}), chunk({"reasoning_content": "m", "content": None}), chunk({"content": "x", "reasoning_content": None}), _STOP), text="x", reasoning="hm"),
    Case("P15-same-text-twice", stream(chunk({"reasoning": "hm", "reasoning_content": "hm"}), chunk({"content": "x"}), _STOP), text="x", reasoning="hm"),
    Case("P15-object", stream(chunk({"reasoning": {"text": "hm"}}), chunk({"content": "x"}), _STOP), text="x", reasoning="hm"),
    Case(
        "P15-parts",
        stream(
            chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "x"}]}),
            chunk({"content": "y"}),
            _STOP,
        ),
        text="xy",
        reasoning="hm",
    ),
    Case("P15-summary", stream(chunk({"reasoning_details": [{"type": "reasoning.summary", "summary": "hm"}]}), chunk({"content": "x"}), _STOP), text="x", reasoning="hm"),
    Case("half-a-character", b'data: {"choices": [{"delta": {"content": "a\\ud83d"}, "finish_reason": "stop"}]}\n\n', text="a"),
    Case("not-utf-8", b'data: {"choices": [{"delta": {"content": "a\xff"}, "finish_reason": "stop"}]}\n\n', text="a\ufffd"),
    Case("no-json", stream(chunk({"content": "x"}), done=False) + b"data: {oops\n\n" + stream(_STOP), text="x", failure="protocol", finish=None),
    Case("cut-after-the-finish", stream(chunk({"content": "x"}), _STOP, done=False) + b'data: {"choices": [], "usa', text="x"),
    Case("web-page", b"<!doctype html><title>Sign in</title>", failure="protocol", finish=None),
]  # fmt: skip
