"""What becomes of a responses answer, however it is cut: cases P01 to P13, K07 and K08, rules L2 and L3."""

import re
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtree.messages.content import ProviderDataBlock, TextBlock, ThinkingBlock, ToolCallBlock
from runtree.messages.failure import Failure
from runtree.messages.model import (
    Completed,
    Failed,
    ModelEvent,
    ReasoningDelta,
    SignatureDelta,
    TextDelta,
    ToolCallDelta,
)
from runtree.providers.decoder import AnswerDecoder

from .answers import CREATED, announced, answer, call, end, events_of, message, reasoning, refusal, search, stream, text
from .cases import CALL, CASES, PLAIN, Case
from .reading import check_pieces, completed, decode, ends_once, failed, merge, message_of


def check(case: Case, events: list[ModelEvent]) -> None:
    last, said = events[-1], message_of(events)
    ends_once(events)
    assert (said.text if said else "") == case.text
    assert (said.reasoning if said else "") == case.reasoning
    blocks = said.content if said else ()
    assert [block.signature for block in blocks if isinstance(block, ThinkingBlock)] == case.signatures
    assert case.kinds is None or [block.kind for block in blocks] == case.kinds
    calls = said.tool_calls if said else ()
    assert [(block.tool_name, block.arguments) for block in calls] == [(name, args) for _, name, args in case.calls]
    for block, (call_id, _, _) in zip(calls, case.calls, strict=True):
        assert block.call_id == call_id or (call_id is None and block.call_id.startswith("call_"))
    assert len({block.call_id for block in calls}) == len(calls)
    assert isinstance(last, Completed | Failed)
    usage = last.response.usage if isinstance(last, Completed) else last.usage
    assert (usage.input_tokens, usage.output_tokens) == case.usage
    if isinstance(last, Failed):
        assert (last.error.code, last.error.retryable) == (case.failure, case.retryable)
    else:
        assert case.failure is None, last
        assert last.response.finish_reason == case.finish == last.response.message.finish_reason
    if case.name != "interleaved":
        check_pieces(events, said)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_answer_in_one_read(case: Case) -> None:
    check(case, decode([case.body]))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_p01_answer_byte_by_byte(case: Case) -> None:
    check(case, decode(case.body[at : at + 1] for at in range(len(case.body))))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_p01_any_cut_gives_the_same_payloads(case: Case) -> None:
    """What a cut may change is what the machine is fed, as it sees nothing else of the bytes."""
    whole = payloads([case.body])
    for at in range(len(case.body)):
        assert payloads([case.body[:at], case.body[at:]]) == whole, f"cut at {at}"


@pytest.mark.parametrize("name", ["plain", "P02-no-last-newline", "P06-json-after-blank-lines", "P11-no-json"])
def test_p01_any_cut_gives_the_same_events(name: str) -> None:
    (case,) = (case for case in CASES if case.name == name)
    whole = merge(decode([case.body]))
    for at in range(len(case.body)):
        assert merge(decode([case.body[:at], case.body[at:]])) == whole, f"cut at {at}"


class Payloads:
    """A machine that only notes what it is fed."""

    def __init__(self) -> None:
        self.closed = self.done = False
        self.fed: list[object] = []

    def feed(self, data: bytes, event: str | None = None, *, last: bool = False) -> list[ModelEvent]:
        self.fed.append((data, event, last))
        return []

    def feed_body(self, body: bytes) -> list[ModelEvent]:
        self.fed.append(body)
        return []

    def finish(self) -> list[ModelEvent]:
        return []

    def fail(self, failure: Failure) -> Failed:
        self.closed = True
        self.fed.append(failure)
        return Failed(error=failure)


def payloads(reads: Iterable[bytes]) -> list[object]:
    machine = Payloads()
    decoder = AnswerDecoder(machine)
    for read in reads:
        decoder.feed(read)
    decoder.finish()
    return machine.fed


@given(st.sampled_from(CASES), st.lists(st.integers(0, 4000), max_size=12))
def test_p01_any_cuts_give_the_same_events(case: Case, cuts: list[int]) -> None:
    ends = sorted({min(cut, len(case.body)) for cut in cuts} | {len(case.body)})
    reads = [case.body[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    assert merge(decode(reads)) == merge(decode([case.body]))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_p05_what_ends_anywhere_ends_in_one_terminal_event(case: Case) -> None:
    """Whatever is cut off, only an answer with its last event is one. Between the ends of events, every seventh byte is tried."""
    marks = [found.start() for found in re.finditer(rb"\n|\r|\}", case.body)]
    whole = case.body.rfind(b"}") + 1
    for at in sorted({mark + near for mark in marks for near in (0, 1)} | set(range(0, len(case.body), 7))):
        events = decode([case.body[:at]])
        ends_once(events)
        if at < whole and case.failure is None:
            error = failed(events).error
            assert (error.code, error.retryable) == ("protocol", True), f"cut at {at}"


def test_l2_the_name_is_told_before_the_arguments() -> None:
    events = [event for event in decode([stream(*CALL[:2])]) if isinstance(event, ToolCallDelta)]
    assert [(event.call_id, event.tool_name, event.arguments) for event in events] == [("call_1", "get", "")]


def test_each_piece_is_told_as_it_comes() -> None:
    events = answer(reasoning("one", "two"), message("abcd"), call("{}"), size=2)
    told = [event for event in decode([stream(*events)]) if not isinstance(event, Completed)]
    assert [type(event) for event in told[1:-1]] == [
        *[ReasoningDelta] * 4,
        SignatureDelta,
        *[TextDelta] * 2,
        *[ToolCallDelta] * 2,
    ]
    assert [event.text for event in told if isinstance(event, ReasoningDelta)] == ["on", "e", "\n\ntw", "o"]


def test_l3_the_whole_item_decides_over_its_pieces() -> None:
    events = answer(message("abcd"), call())
    wrong = [{**event, "delta": "zz"} if event["type"].endswith(".delta") else event for event in events]
    said = completed(decode([stream(*wrong)]))
    assert (said.text, said.tool_calls[0].arguments) == ("abcd", {"city": "Zürich"})


def test_l3_the_last_event_decides_over_what_was_never_finished() -> None:
    listed: dict[str, Any] = {"type": "mcp_list_tools", "id": "mcpl_1", "tools": [{"name": "x"}]}
    begun = {"type": "response.output_item.added", "output_index": 0, "item": {**listed, "tools": []}}
    said = completed(decode([stream(CREATED, begun, *events_of(message("x"), 1), end(listed, message("x")))]))
    assert said.content[0] == ProviderDataBlock(provider="openai", data=listed)


def test_k02_the_encrypted_content_is_that_of_the_whole_item() -> None:
    """Not the short one of the announcement, nor the fresh one of the last event."""
    last = end(reasoning(encrypted="fresh"))
    (block,) = completed(decode([stream(*answer(reasoning(encrypted="whole"), last=last))])).content
    assert isinstance(block, ThinkingBlock)
    assert (block.text, block.signature, block.provider) == ("", "whole", "openai")
    assert block.extras == {"item": {"id": "rs_1", "type": "reasoning", "summary": []}}


def test_blocks_keep_what_has_to_go_back() -> None:
    items = [message("a", refusal("b"), phase="commentary"), search(), call(namespace="n")]
    first, second, data, asked = completed(decode([stream(*answer(*items))])).content
    assert isinstance(first, TextBlock)
    assert isinstance(second, TextBlock)
    assert isinstance(asked, ToolCallBlock)
    assert first.extras == {
        "item": {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "phase": "commentary"},
        "part": text("", text=None),
    }
    assert (second.text, second.extras) == ("b", {"part": {"type": "refusal", "refusal": None}})
    assert data == ProviderDataBlock(provider="openai", data=search())
    assert asked.extras == {"item": {**call(namespace="n"), "arguments": None, "call_id": None, "name": None}}


def test_u01_usage_and_charge_are_read() -> None:
    usage = {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 2},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 3},
        "cost": 0.0012,
    }
    last = decode([stream(*answer(message("x"), last=end(usage=usage)))])[-1]
    assert isinstance(last, Completed)
    read = last.response.usage
    assert (read.input_tokens, read.cache_read_tokens, read.cache_write_tokens) == (9, 5, 2)
    assert (read.output_tokens, read.reasoning_tokens, read.precision) == (4, 3, "exact")
    assert last.response.cost is not None
    assert str(last.response.cost.amount) == "0.0012"
    assert (last.response.model, last.response.response_id) == ("m-1", "resp_1")


def test_u04_a_charge_in_ticks() -> None:
    usage = {"input_tokens": 1, "output_tokens": 1, "cost_in_usd_ticks": 6618500}
    last = decode([stream(*answer(message("x"), last=end(usage=usage)))])[-1]
    assert isinstance(last, Completed)
    assert last.response.cost is not None
    assert last.response.cost.amount is not None
    assert f"{last.response.cost.amount:f}".rstrip("0") == "0.00066185"


@pytest.mark.parametrize(
    "usage, expected",
    [
        ({"input_tokens": 3}, (3, None, None, "unknown")),
        ({"input_tokens": 3, "output_tokens": 1}, (3, 1, None, "exact")),
        ({"input_tokens": 3, "output_tokens": 1, "input_tokens_details": None}, (3, 1, None, "exact")),
        ({"input_tokens": "3", "output_tokens": -1}, (None, None, None, "unknown")),
        ([], (None, None, None, "unknown")),
    ],
)
def test_u01_what_is_not_reported_is_unknown(usage: Any, expected: tuple[object, ...]) -> None:
    last = decode([stream(*answer(message("x"), last=end(usage=usage)))])[-1]
    assert isinstance(last, Completed)
    read = last.response.usage
    assert (read.input_tokens, read.output_tokens, read.reasoning_tokens, read.precision) == expected


@pytest.mark.parametrize(
    "error, wait",
    [
        ({"headers": {"Retry-After-Ms": "1500", "retry-after": "9"}}, 1.5),
        ({"headers": {"retry-after": 3}}, 3),
        ({"headers": {"x-ratelimit-reset-requests": "1h", "x-ratelimit-reset-tokens": "1m30.5s"}}, 90.5),
        ({"headers": {"x-ratelimit-reset-tokens": "12ms"}}, 0.012),
        ({"message": "Rate limit reached. Please try again in 6.57s. Visit x"}, 6.57),
        ({"message": "Please retry after 20 seconds."}, 20),
        ({"message": "Please try again in 5 minutes"}, None),
        ({"headers": []}, None),
    ],
)
def test_p19_an_error_in_the_stream_says_when_to_try_again(error: dict[str, Any], wait: float | None) -> None:
    body = stream(CREATED, {"type": "error", "error": {"type": "tokens", "code": "rate_limit_exceeded", **error}})
    failure = failed(decode([body])).error
    assert (failure.code, failure.retryable, failure.retry_after) == ("rate_limit", True, wait)


def test_p04_an_error_twice_is_one_failure() -> None:
    failure = {"code": "server_error", "message": "no"}
    events = decode([stream(CREATED, {"type": "error", "error": failure}, end(status="failed", error=failure))])
    ends_once(events)


def test_half_characters_are_no_text() -> None:
    body = stream(*PLAIN).replace("🌲".encode(), b"\\ud83d").replace("ß".encode(), b"\xff")
    assert completed(decode([body])).text == "Grü\ufffde "


def test_an_item_of_no_known_kind_is_kept() -> None:
    item: dict[str, Any] = {"id": "x_1", "type": "hologram_call"}
    assert completed(decode([stream(*answer(item))])).content == (ProviderDataBlock(provider="openai", data=item),)


def test_p12_a_call_that_was_only_announced_is_never_run() -> None:
    begun = {"type": "response.output_item.added", "output_index": 0, "item": announced(call())}
    (block,) = completed(decode([stream(CREATED, begun, end())])).tool_calls
    assert (block.arguments, block.truncated) == (None, True)
