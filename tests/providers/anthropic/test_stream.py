"""Answers of the messages protocol in every shape and every cut: cases P01 to P12, P17, K06 to K08, U01, U02."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runtree.messages.content import ProviderDataBlock, RedactedThinkingBlock, TextBlock, ThinkingBlock, ToolCallBlock
from runtree.messages.model import Completed, Failed, ModelEvent, ToolCallDelta, UsageDelta
from runtree.messages.usage import Usage
from runtree.providers.anthropic.profile import ANTHROPIC, ANTHROPIC_COMPATIBLE, AnthropicProfile
from runtree.providers.anthropic.stream import MessageStream
from runtree.providers.decoder import AnswerDecoder
from runtree.providers.fold import Fold
from tests.kit.wires.check import end_of, merged, message_of, response_of

from .answers import (
    PING,
    SERVER_CALL,
    SERVER_RESULT,
    SIGNATURE,
    WEATHER,
    begin,
    call,
    delta,
    end,
    event,
    message,
    opened,
    start,
    stop,
    stream,
    text,
    thinking,
    whole,
)
from .cases import CASES, Case


def decode(reads: Iterable[bytes], profile: AnthropicProfile = ANTHROPIC) -> list[ModelEvent]:
    decoder = AnswerDecoder(MessageStream(profile, "asked-for"))
    events: list[ModelEvent] = []
    for read in reads:
        events += decoder.feed(read)
    return events + decoder.finish()


def content_of(body: bytes) -> tuple[object, ...]:
    return response_of(decode([body])).message.content


def told(events: list[ModelEvent]) -> tuple[object, ...]:
    """What a reader and the transcript get, ids of our own making left out."""
    last = end_of(events)
    made = [event.call_id for event in events if isinstance(event, ToolCallDelta) and event.call_id.startswith("call_")]
    if not made:
        return (merged(events), last)
    shown = last.model_dump_json()
    for number, call_id in enumerate(dict.fromkeys(made)):
        shown = shown.replace(call_id, f"made-{number}")
    return (merged(events), shown)


def check(case: Case, events: list[ModelEvent]) -> None:
    last, said = end_of(events), message_of(events)
    assert (said.text if said else "") == case.text
    assert (said.reasoning if said else "") == case.reasoning
    calls = said.tool_calls if said else ()
    assert [(block.tool_name, block.arguments) for block in calls] == [(name, args) for _, name, args in case.calls]
    for block, (call_id, _, _) in zip(calls, case.calls, strict=True):
        assert block.call_id == call_id or (call_id is None and block.call_id.startswith("call_"))
    assert len({block.call_id for block in calls}) == len(calls)
    if isinstance(last, Failed):
        assert last.error.code == case.failure, last
        usage = last.usage
    else:
        assert case.failure is None, last
        assert last.response.finish_reason == case.finish == last.response.message.finish_reason
        usage = last.response.usage
    assert (usage.input_tokens, usage.output_tokens) == case.usage
    fold = Fold()
    for item in events:
        fold.add(item)
    pieces = fold.message("stop")
    assert (pieces.text, pieces.reasoning) == (case.text, case.reasoning), "the events say what the message says"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_answer_in_one_read(case: Case) -> None:
    """P02-P17, U01."""
    check(case, decode([case.body]))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_p01_any_cut_gives_the_same(case: Case) -> None:
    whole_answer = told(decode([case.body]))
    assert told(decode(case.body[at : at + 1] for at in range(len(case.body)))) == whole_answer
    for at in range(1, len(case.body)):
        assert told(decode([case.body[:at], case.body[at:]])) == whole_answer, f"cut at {at}"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_p05_a_stream_that_ends_anywhere_runs_no_half_call(case: Case) -> None:
    if case.body[:1] == b"{":
        return  # a cut body is no JSON, which the fuzz test below has
    complete = {
        (block.tool_name, block.arguments_json) for block in _calls(decode([case.body])) if block.arguments is not None
    }
    for at in range(0, len(case.body), 1 if case.name in ("P17-tool", "calls-in-turn") else 5):
        events = decode([case.body[:at]])
        last = end_of(events)
        assert isinstance(last, Completed) or last.error.retryable or last.error.code == case.failure, at
        if isinstance(last, Completed):
            runnable = [block for block in _calls(events) if block.arguments is not None]
            assert {(block.tool_name, block.arguments_json) for block in runnable} <= complete, at


def _calls(events: list[ModelEvent]) -> tuple[ToolCallBlock, ...]:
    said = message_of(events)
    return said.tool_calls if said else ()


def test_l2_a_call_is_told_at_its_name() -> None:
    decoder = AnswerDecoder(MessageStream(ANTHROPIC))
    decoder.feed(start())
    (first,) = decoder.feed(begin(0, {"type": "tool_use", "id": "a", "name": "f", "input": {}}))
    assert first == ToolCallDelta(call_id="a", tool_name="f", arguments="")
    (piece,) = decoder.feed(delta(0, "input_json_delta", partial_json='{"x'))
    assert piece == ToolCallDelta(call_id="a", tool_name="f", arguments='{"x')


def test_t1_blocks_stand_in_the_order_they_were_sent() -> None:
    redacted = {"type": "redacted_thinking", "data": "EmwK/+=="}
    body = stream(
        text(0, "\n\n"),
        thinking(1, "one", signature="1="),
        whole(2, redacted),
        call(3, "a", "f", "{}"),
        thinking(4, "two", signature="2="),
        thinking(5, signature="3="),
        text(6, "x"),
        text(7, "y"),
        whole(8, SERVER_CALL),
        whole(9, SERVER_RESULT),
        call(10, "b", "g", "{}", caller={"type": "direct"}),
        reason="tool_use",
    )
    assert content_of(body) == (
        TextBlock(text="\n\n"),
        ThinkingBlock(text="one", signature="1=", provider="anthropic"),
        RedactedThinkingBlock(data="EmwK/+==", provider="anthropic"),
        ToolCallBlock(call_id="a", tool_name="f", arguments={}, provider="anthropic"),
        ThinkingBlock(text="two", signature="2=", provider="anthropic"),
        ThinkingBlock(text="", signature="3=", provider="anthropic"),
        TextBlock(text="x"),
        TextBlock(text="y"),
        ProviderDataBlock(provider="anthropic", data=SERVER_CALL),
        ProviderDataBlock(provider="anthropic", data=SERVER_RESULT),
        ToolCallBlock(
            call_id="b", tool_name="g", arguments={}, provider="anthropic", extras={"caller": {"type": "direct"}}
        ),
    )


@pytest.mark.parametrize("signature", ["", SIGNATURE])
def test_p17_a_signature_counts_once(signature: str) -> None:
    """Empty or whole at the start, and in pieces or as a whole at the end."""
    opening = begin(0, {"type": "thinking", "thinking": "", "signature": signature})
    rest = [SIGNATURE] if signature else [SIGNATURE[:4], SIGNATURE[4:]]
    body = stream(opening, *(delta(0, "signature_delta", signature=piece) for piece in rest), stop(0))
    assert content_of(body) == (ThinkingBlock(text="", signature=SIGNATURE, provider="anthropic"),)


def test_p17_a_block_that_says_nothing_is_none() -> None:
    assert content_of(stream(thinking(0, ""), thinking(1, signature=""), text(2, ""), text(3, "x"))) == (
        TextBlock(text="x"),
    )


def test_what_a_server_tool_was_asked_is_put_together() -> None:
    body = stream(
        begin(0, {**SERVER_CALL, "input": {}}),
        *(delta(0, "input_json_delta", partial_json=piece) for piece in ("", '{"query": ', '"x"}')),
        PING,
        whole(1, SERVER_RESULT),
        stop(0),
    )
    assert content_of(body) == tuple(
        ProviderDataBlock(provider="anthropic", data=data) for data in (SERVER_CALL, SERVER_RESULT)
    )


def test_blocks_of_unknown_kinds_are_kept_as_they_are() -> None:
    grown = [
        begin(0, {"type": "connector_text", "text": "a", "list": None, "n": 1}),
        delta(0, "connector_text_delta", text="b", n=2, list=[1]),
        delta(0, "citations_delta", citation={"url": "u"}),
        stop(0),
    ]
    compaction = [
        begin(1, {"type": "compaction", "content": None}),
        delta(1, "compaction_delta", content="so far"),
        stop(1),
    ]
    (first, second) = content_of(stream(*grown, *compaction))
    expected: dict[str, Any] = {
        "type": "connector_text",
        "text": "ab",
        "list": [1],
        "n": 2,
        "citations": [{"url": "u"}],
    }
    assert first == ProviderDataBlock(provider="anthropic", data=expected)
    assert second == ProviderDataBlock(provider="anthropic", data={"type": "compaction", "content": "so far"})


def test_citations_stay_with_their_text() -> None:
    cited = [begin(1, {"type": "text", "text": "", "citations": []}), delta(1, "text_delta", text="b")]
    cited += [delta(1, "citations_delta", citation={"url": url}) for url in ("u", "v")]
    assert content_of(stream(text(0, "a"), *cited, stop(1), text(2, "c"))) == (
        TextBlock(text="a"),
        TextBlock(text="b", extras={"citations": [{"url": "u"}, {"url": "v"}]}, provider="anthropic"),
        TextBlock(text="c"),
    )


def test_k07_a_unary_answer_tells_the_same_as_a_stream() -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "Hm", "signature": SIGNATURE},
        {"type": "redacted_thinking", "data": "EmwK"},
        {"type": "text", "text": "x", "citations": None},
        {"type": "tool_use", "id": "a", "name": "get_weather", "input": WEATHER},
    ]
    unary = decode([json.dumps(message(blocks, "tool_use", usage={"input_tokens": 1, "output_tokens": 2})).encode()])
    streamed = decode(
        [
            start(usage={"input_tokens": 1, "output_tokens": 0}),
            thinking(0, "H", "m", signature=SIGNATURE),
            whole(1, blocks[1]),
            text(2, "x"),
            call(3, "a", "get_weather", '{"city": ', '"Zürich"}'),
            end("tool_use", usage={"output_tokens": 2}),
        ]
    )
    assert told(unary) == told(streamed)
    assert response_of(unary).message.reasoning == "Hm"
    assert sum(item.kind == "reasoning_delta" for item in unary) == 1


def test_u02_cache_counts_are_part_of_the_input() -> None:
    created = {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 1}
    begun = {"input_tokens": 3, "cache_creation_input_tokens": 4, "cache_read_input_tokens": 5, "output_tokens": 1}
    ended = {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 6}}
    for first in (begun, {**begun, "cache_creation_input_tokens": None}):
        events = decode([start(usage={**first, "cache_creation": created}), text(0, "x"), end(usage=ended)])
        reports = [item.usage for item in events if isinstance(item, UsageDelta)]
        counted = Usage(
            input_tokens=12, output_tokens=1, cache_read_tokens=5, cache_write_tokens=4, cache_write_1h_tokens=1
        )
        final = counted.model_copy(update={"output_tokens": 9, "reasoning_tokens": 6})
        assert reports == [counted.model_copy(update={"precision": "unknown"}), final]
        assert response_of(events).usage == final


def test_u05_a_broken_stream_knows_what_it_began_with() -> None:
    last = end_of(decode([start(), text(0, "x")]))
    assert isinstance(last, Failed)
    assert (last.usage.input_tokens, last.usage.precision) == (12, "unknown")


def test_a_server_without_a_last_event() -> None:
    body = start() + text(0, "x") + end()[: -len(event("message_stop"))]
    assert response_of(decode([body], ANTHROPIC_COMPATIBLE)).message.text == "x"
    assert isinstance(end_of(decode([start() + text(0, "x")], ANTHROPIC_COMPATIBLE)), Failed)


# Anything

_JSON = st.sampled_from(
    [
        None,
        True,
        -1,
        10**30,
        1.5,
        float("nan"),
        "",
        "x",
        "{}",
        [],
        {},
        [{"error": {"message": "x"}}],
        {"type": "text"},
        {"x": 1},
    ]
)
_KINDS = [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
]
_TYPES = ["text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "text_delta", "thinking_delta"]
_TYPES += ["signature_delta", "input_json_delta", "citations_delta", "compaction_delta"]
_FIELDS = [
    "text",
    "thinking",
    "signature",
    "data",
    "id",
    "name",
    "input",
    "partial_json",
    "citation",
    "content",
    "stop_reason",
]
_INNER = st.fixed_dictionaries({"type": st.sampled_from(_TYPES) | _JSON}, optional=dict.fromkeys(_FIELDS, _JSON))
_EVENT = st.fixed_dictionaries(
    {"type": st.sampled_from([*_KINDS, "ping", "error", "message"]) | _JSON},
    optional=dict.fromkeys(("message", "content_block", "delta", "usage", "error", "content"), _INNER | _JSON)
    | {"index": st.integers(0, 2) | _JSON},
)


@settings(max_examples=60)
@given(st.lists(_EVENT, max_size=6), st.booleans())
@example(
    [
        {"type": "content_block_start", "content_block": {"type": "x"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "", "": "x"}},
    ],
    True,
)
def test_fuzz_events_of_any_shape(chunks: list[dict[str, Any]], begun: bool) -> None:
    frames = [start()] * begun + [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks]
    body = b"".join(frames)
    whole_answer, pieces = decode([body]), decode(body[at : at + 5] for at in range(0, len(body), 5))
    assert repr(told(pieces)) == repr(told(whole_answer)), "as text: nothing equals NaN, not even itself"


@given(
    st.binary(max_size=40) | _JSON.map(lambda value: json.dumps(value).encode()),
    st.sampled_from([b"", b"data: ", start() + b"data: "]),
)
def test_fuzz_bytes(body: bytes, before: bytes) -> None:
    end_of(decode([before + body]))


@given(_JSON, st.integers(0, 400))
def test_fuzz_bodies(value: Any, cut: int) -> None:
    body = json.dumps(
        message([{"type": "tool_use", "name": "f", "id": "a", "input": {"x": 1}}, value], "tool_use")
    ).encode()
    events = decode([body[:cut]])
    assert isinstance(end_of(events), Failed) or cut >= len(body)
    end_of(decode([body]))


def test_p12_half_a_call_is_told_and_never_run() -> None:
    events = decode([start() + opened(0, "a", "f", '{"x": ') + end("max_tokens")])
    (block,) = response_of(events).message.tool_calls
    assert (block.arguments, block.truncated) == (None, True)
