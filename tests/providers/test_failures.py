"""What a provider's failure is taken for: cases P19 to P21."""

import inspect
import time
from email.utils import formatdate

import httpx
import pytest

from runtree.providers.failures import MAX_RETRY_AFTER, from_answer, from_frame, from_transport
from runtree.providers.secrets import clean


@pytest.mark.parametrize(
    "body, message",
    [
        (b'"just text"', "just text"),
        (b"just text", "just text"),
        (b'{"error": "in a field"}', "in a field"),
        (b'{"error": {"message": "nested"}}', "nested"),
        (b'{"error": {"error": {"message": "deeper"}}}', "deeper"),
        (b'[{"error": {"message": "in a list"}}]', "in a list"),
        (b'{"detail": "as detail"}', "as detail"),
        (b'{"detail": [{"msg": "of a field"}]}', "of a field"),
        (b'{"message": "flat"}', "flat"),
        (b'data: {"error": {"message": "framed"}}\n\n', "framed"),
        (b"<html><head><title>502 Bad\nGateway</title></head></html>", "HTTP 502, a web page: 502 Bad Gateway"),
        (b"<p>hm", "HTTP 502, a web page"),
        (b"", "HTTP 502 without a reason"),
        (b"  \n", "HTTP 502 without a reason"),
        (b"{}", "HTTP 502 without a reason"),
        (b'{"error": {"message": null}}', "HTTP 502 without a reason"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b'{"error": ' * 100, '{"error": ' * 3),
    ],
)
def test_p20_shapes_of_bodies(body: bytes, message: str) -> None:
    failure = from_answer(502, {}, body)
    assert failure.message.startswith(message.strip())
    assert len(failure.message) <= 300
    assert (failure.code, failure.status, failure.retryable) == ("overloaded", 502, True)


@pytest.mark.parametrize(
    "status, body, code, retryable",
    [
        (429, b'{"error": {"code": "insufficient_quota", "type": "insufficient_quota"}}', "quota", False),
        (429, b'{"error": {"details": {"error_code": "enforced_spend_limit_reached"}}}', "quota", False),
        (
            429,
            b'{"error": {"message": "You exceeded your current quota", "status": "RESOURCE_EXHAUSTED"}}',
            "rate_limit",
            True,
        ),
        (400, b'{"error": {"message": "too many tokens, please wait"}}', "rate_limit", True),
        (400, b'{"error": {"message": "Prompt is too long: 3 tokens > 2 maximum"}}', "context_overflow", False),
        (400, b'{"error": {"message": "bad", "type": "invalid_request_error"}}', "invalid_request", False),
        (400, b'{"error": {"message": "API key not valid."}}', "authentication", False),
        (500, b'{"error": {"message": "The text mentions an invalid api key in the middle"}}', "provider", True),
        (400, b'{"error": {"code": "content_filter", "message": "filtered"}}', "content_filter", False),
    ],
)
def test_p19_structured_fields_before_text(status: int, body: bytes, code: str, retryable: bool) -> None:
    failure = from_answer(status, {}, body)
    assert (failure.code, failure.retryable) == (code, retryable)


@pytest.mark.parametrize("status, asked, retryable", [(400, "true", True), (503, "false", False), (429, "maybe", True)])
def test_p19_the_server_may_say_whether(status: int, asked: str, retryable: bool) -> None:
    assert from_answer(status, {"x-should-retry": asked}, b"").retryable is retryable


@pytest.mark.parametrize(
    "headers, wait",
    [
        ({"retry-after": "2"}, 2),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "20", "retry-after-ms": "150"}, 0.15),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "1e99"}, MAX_RETRY_AFTER),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Fri, 32 Foo 2026"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({}, None),
    ],
)
def test_p19_when_to_try_again(headers: dict[str, str], wait: float | None) -> None:
    assert from_answer(429, headers, b"").retry_after == wait


def test_p19_when_to_try_again_as_a_date() -> None:
    wait = from_answer(429, {"retry-after": formatdate(time.time() + 100, usegmt=True)}, b"").retry_after
    assert wait is not None
    assert 90 < wait <= 100


def test_p19_the_wait_may_be_in_the_body() -> None:
    body = b'[{"error": {"code": 429, "details": [{"@type": "x"}, {"retryDelay": "48s"}]}}]'
    assert from_answer(429, {}, body).retry_after == 48


@pytest.mark.parametrize(
    "error, code, retryable",
    [
        ("gone", "provider", True),
        ({"message": "x", "type": "overloaded_error"}, "overloaded", True),
        ({"message": "x", "code": "401"}, "authentication", False),
        ({"error": {"message": "x", "code": 429}}, "rate_limit", True),
        ({"message": "x", "type": "invalid_request_error"}, "invalid_request", False),
        ({"message": "x", "code": "server_error"}, "provider", True),
        (True, "provider", True),
    ],
)
def test_p04_errors_inside_a_stream(error: object, code: str, retryable: bool) -> None:
    failure = from_frame(error)
    assert (failure.code, failure.retryable) == (code, retryable)
    assert failure.message


def _httpx_errors() -> list[type[Exception]]:
    kinds = (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL)
    return [error for _, error in inspect.getmembers(httpx, inspect.isclass) if issubclass(error, kinds)]


@pytest.mark.parametrize("error", _httpx_errors(), ids=lambda error: error.__name__)
def test_every_error_of_the_client_has_a_failure(error: type[Exception]) -> None:
    made = error.__new__(error)
    Exception.__init__(made, "text with sk-0123456789abcdef")
    failure = from_transport(made, "host:1", secret="text")
    assert "host:1" in failure.message
    assert "sk-0123" not in failure.message
    assert "text" not in failure.message
    if isinstance(made, httpx.TimeoutException):
        assert failure.code == "timeout"


@pytest.mark.parametrize("text", ["sk-proj-0123456789", "Authorization: Bearer abcdefghij", "key abc-secret-def here"])
def test_p21_keys_are_taken_out(text: str) -> None:
    cleaned = clean(text, "abc-secret-def")
    assert "***" in cleaned
    assert not {"0123456789", "abcdefghij", "secret"} & set(cleaned.replace("-", " ").split())
