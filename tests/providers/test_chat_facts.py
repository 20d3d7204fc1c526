"""What single servers of the chat completions protocol are known to send, and what must come of it: P04, P07 to P14, U01, U04."""

import json
from decimal import Decimal
from typing import Any

import pytest

from runtree.messages.model import Completed, Failed, ModelEvent, ModelResponse
from runtree.messages.transcript import AssistantMessage
from runtree.providers.chat import dialects as known
from runtree.providers.chat.profile import ChatProfile

from .answers import USAGE, USAGE_CHUNK, call, chunk, stream
from .chat.conversation import decode

_X = chunk({"content": "x"})
_STOP = chunk(finish="stop")
_CALLS = chunk(finish="tool_calls")


def _response(body: bytes, profile: ChatProfile = known.GENERIC, model: str = "asked-for") -> ModelResponse:
    last = decode([body], profile, model)[-1]
    assert isinstance(last, Completed), last
    return last.response


def _failed(body: bytes, profile: ChatProfile) -> Failed:
    last: ModelEvent = decode([body], profile)[-1]
    assert isinstance(last, Failed), last
    return last


def _calls(message: AssistantMessage) -> list[tuple[str, str, dict[str, Any] | None]]:
    return [(block.call_id, block.tool_name, block.arguments) for block in message.tool_calls]


@pytest.mark.parametrize(
    "first",
    [
        {"id": "", "model": "", "object": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]},
        {"id": "", "model": "served", "choices": [], "prompt_filter_results": []},
        {"id": None, "model": None, "choices": []},
        {"choices": []},
    ],
)
def test_p13_the_id_may_come_with_the_first_choice(first: dict[str, Any]) -> None:
    named = {"id": "chatcmpl-7", "model": "served"}
    late = {"id": "", "model": "", "choices": [{"index": 0, "content_filter_offsets": {}, "finish_reason": None}]}
    response = _response(stream(first, {**_X, **named}, late, {**_STOP, **named}, USAGE_CHUNK), known.AZURE)
    assert (response.response_id, response.model, response.message.model) == ("chatcmpl-7", "served", "served")
    assert response.message.text == "x"


def test_an_answer_without_id_and_model_is_of_the_model_that_was_asked() -> None:
    unnamed = [{**each, "id": "", "model": ""} for each in (_X, _X, _STOP)]
    response = _response(stream(*unnamed))
    assert (response.response_id, response.model, response.message.text) == (None, "asked-for", "xx")


@pytest.mark.parametrize(
    "error, code, retryable, wait",
    [
        ({"code": 502, "message": "Provider disconnected"}, "overloaded", True, None),
        ({"code": "server_error", "message": "Provider disconnected"}, "provider", True, None),
        ({"code": 400, "message": "maximum context length is 8192 tokens"}, "context_overflow", False, None),
        ({"code": 402, "message": "Insufficient credits"}, "quota", False, None),
        ({"code": 403, "message": "flagged", "metadata": {"reasons": ["violence"]}}, "content_filter", False, None),
        ({"code": 429, "message": "no", "metadata": {"raw": "please try again in 2s"}}, "rate_limit", True, 2),
    ],
)
@pytest.mark.parametrize("finish", ["error", "length", None, "absent"])
def test_p04_a_router_fails_in_the_stream(
    error: dict[str, Any], code: str, retryable: bool, wait: float | None, finish: str | None
) -> None:
    frame = {**chunk({"content": ""}, finish), "error": error}
    if finish == "absent":
        frame["choices"] = []
    for body in (stream(_X, frame), stream(_X, frame, done=False)):
        failure = _failed(body, known.OPENROUTER).error
        assert (failure.code, failure.retryable, failure.retry_after) == (code, retryable, wait)


def test_p04_an_error_of_the_choice_and_a_finish_that_is_one() -> None:
    choice = {"index": 0, "delta": {"content": ""}, "finish_reason": "error"}
    told = _failed(stream(_X, {"choices": [{**choice, "error": {"code": 503, "message": "no"}}]}), known.OPENROUTER)
    assert (told.error.code, told.error.message) == ("overloaded", "no")
    untold = _failed(stream(_X, {"choices": [choice], "usage": USAGE}), known.OPENROUTER)
    assert untold.error.retryable
    assert (untold.usage.input_tokens, untold.usage.output_tokens) == (10, 4)


def test_p07_no_id_is_a_word_too() -> None:
    """Continued with the id "null" and the name "", as Mistral's clients write what is absent."""
    parts = [call(0, "abcdefghi", "get", '{"a'), call(0, "null", "", '": 1}'), call(1, "abcdefghj", "put", "{}")]
    response = _response(stream(*map(chunk, parts), chunk(call(1, "null", "", "")), _CALLS), known.MISTRAL)
    assert _calls(response.message) == [("abcdefghi", "get", {"a": 1}), ("abcdefghj", "put", {})]


def test_p08_an_index_may_be_a_text() -> None:
    parts = [call(None, "c1", "get", '{"a":'), call(None, "c2", "put", "{}"), call(None, None, None, "1}")]
    for part, index in zip(parts, "010", strict=True):
        part["tool_calls"][0]["index"] = index
    assert _calls(_response(stream(*map(chunk, parts), _CALLS)).message) == [("c1", "get", {"a": 1}), ("c2", "put", {})]


def test_p01_a_character_cut_into_its_halves() -> None:
    """A server that cuts its own texts anywhere sends half of an escaped pair in one delta and half in the next."""
    body = stream(
        *[chunk({field: text}) for field in ("reasoning", "content") for text in ("a{1}", "{2}b{1}", "{2}{1}", "c{1}")],
        _STOP,
    )
    body = body.replace(b"{1}", rb"\ud83d").replace(b"{2}", rb"\ude00")
    message = _response(body).message
    assert (message.reasoning, message.text) == ("a😀b😀c", "a😀b😀c")


def test_p01_halves_in_arguments_are_json_already() -> None:
    parts = [call(0, "c1", "get", '{"a": "\\ud83d'), call(0, None, None, '\\ude00"}')]
    assert _calls(_response(stream(*map(chunk, parts), _CALLS)).message) == [("c1", "get", {"a": "😀"})]


@pytest.mark.parametrize(
    "figures, amount",
    [
        ({"cost": 0.25}, "0.25"),
        ({"cost": "0.25"}, "0.25"),
        ({"cost": {"total_cost": 0.25, "input_tokens_cost": 0.05}}, "0.25"),
        ({"cost_in_usd_ticks": 2_500_000_000}, "0.25"),
        ({"cost": None, "cost_in_usd_ticks": 2_500_000_000}, "0.25"),
    ],
)
def test_u04_a_charge_in_every_shape(figures: dict[str, Any], amount: str) -> None:
    for body in (
        stream(_X, _STOP, {"choices": [], "usage": {**USAGE, **figures}}),
        json.dumps({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": {**USAGE, **figures}}).encode(),
    ):  # fmt: skip
        cost = _response(body, known.XAI).cost
        assert cost is not None
        assert cost.amount == Decimal(amount)


@pytest.mark.parametrize(
    "figures, read, written",
    [
        ({"num_cached_tokens": 6}, 6, None),
        ({"prompt_cache_hit_tokens": 6, "prompt_cache_miss_tokens": 4}, 6, None),
        ({"cached_tokens": 6}, 6, None),
        ({"cache_read_input_tokens": 6, "cache_creation_input_tokens": 2}, 6, 2),
        ({"prompt_tokens_details": {"cached_tokens": 6, "cache_write_tokens": 2}}, 6, 2),
        ({"prompt_tokens_details": {"cached_tokens": None}, "completion_tokens_details": None}, None, None),
    ],
)
def test_u01_names_of_what_was_cached(figures: dict[str, Any], read: int | None, written: int | None) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14, **figures}
    told = _response(stream(_X, _STOP, {"choices": [], "usage": usage})).usage
    assert (told.input_tokens, told.cache_read_tokens, told.cache_write_tokens) == (10, read, written)


def test_p14_a_call_after_each_finish() -> None:
    """Together ends after each call and goes on."""
    body = stream(
        chunk(call(0, "c1", "get", "{}"), "tool_calls"), chunk(call(1, "c2", "put", '{"a": 1}'), "tool_calls"),
        {**chunk({}, "tool_calls"), "usage": {**USAGE, "cached_tokens": 6}},
    )  # fmt: skip
    response = _response(body, known.TOGETHER)
    assert _calls(response.message) == [("c1", "get", {}), ("c2", "put", {"a": 1})]


def test_no_finish_and_no_ids_at_all() -> None:
    """Snowflake: ids are empty, and only the end mark ends."""
    fragment = {"id": "", "type": "function", "function": {"name": "get", "arguments": '{"a":'}}
    rest = {"id": "", "function": {"arguments": "1}"}}
    chunks = [{"id": "", "choices": [{"delta": {"tool_calls": [each]}}]} for each in (fragment, rest)]
    response = _response(stream(*chunks, {"id": "", "choices": [], "usage": USAGE}))
    assert response.finish_reason == "tool_calls"
    assert [(block.tool_name, block.arguments) for block in response.message.tool_calls] == [("get", {"a": 1})]
    assert response.message.tool_calls[0].call_id


@pytest.mark.parametrize(
    "profile, usage, output, reasoning",
    [
        (known.XAI, {"completion_tokens": 4, "total_tokens": 24, "completion_tokens_details": {"reasoning_tokens": 10}}, 14, 10),
        (known.GENERIC, {"completion_tokens": 4, "total_tokens": 24, "completion_tokens_details": {"reasoning_tokens": 10}}, 14, 10),
        (known.GEMINI, {"completion_tokens": 4, "total_tokens": 34}, 24, 20),
        (known.VERCEL, {"completion_tokens": 4, "total_tokens": 14, "completion_tokens_details": {"reasoning_tokens": 20}}, 4, 20),
        (known.DEEPSEEK, {"completion_tokens": 4, "total_tokens": 14, "completion_tokens_details": {"reasoning_tokens": 4}}, 4, 4),
    ],
)  # fmt: skip
def test_u02_reasoning_beside_the_completion(
    profile: ChatProfile, usage: dict[str, Any], output: int, reasoning: int
) -> None:
    told = _response(stream(_X, _STOP, {"choices": [], "usage": {"prompt_tokens": 10, **usage}}), profile).usage
    assert (told.input_tokens, told.output_tokens, told.reasoning_tokens) == (10, output, reasoning)


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b"\n \xef\xbb\xbf\n", b"\r\n\r\n"])
def test_p06_a_body_behind_a_byte_order_mark(mark: bytes) -> None:
    said = {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}
    for body in (mark + json.dumps(said).encode(), mark.strip() + stream(_X, _STOP)):
        for at in range(min(12, len(body))):
            last = decode([body[:at], body[at : at + 1], body[at + 1 :]], known.GENERIC)[-1]
            assert isinstance(last, Completed), (body, at)
            assert last.response.message.text == "x"


@pytest.mark.parametrize("body", [b"", b"\xef", b"\xef\xbb\xbf", b" \n\xef\xbb\xbf"])
def test_p05_nothing_but_a_mark(body: bytes) -> None:
    assert _failed(body, known.GENERIC).error.code == "protocol"
