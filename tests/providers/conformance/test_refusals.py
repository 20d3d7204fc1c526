"""What every provider makes of an HTTP error, and where keys never show: cases P19 to P21."""

import json
import logging
import pickle
from typing import Any, NamedTuple

import pytest

from runtree.messages.errors import ConfigurationError, MissingSecretError
from runtree.messages.failure import FailureCode
from runtree.messages.model import Failed
from runtree.messages.usage import NO_USAGE
from runtree.providers import secrets
from tests.kit.loopback import Answer, Loopback, body, send
from tests.kit.wires.check import failure_of
from tests.kit.wires.families import ASKED, FAMILIES, KEY, UNARY, Family
from tests.kit.wires.wire import Trouble

from .talk import ask

_CODES: dict[int, Trouble] = {401: "authentication", 403: "authentication", 429: "rate_limit", 529: "overloaded"}


class Case(NamedTuple):
    """A status, what stands in the body, and what it means."""

    status: int
    content: Any
    code: FailureCode
    retryable: bool


STATUSES = [
    Case(400, None, "invalid_request", False),
    Case(401, None, "authentication", False),
    Case(403, None, "authentication", False),
    Case(404, {}, "model_not_found", False),
    Case(408, {}, "timeout", True),
    Case(409, {}, "provider", True),
    Case(413, {}, "context_overflow", False),
    Case(422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, "invalid_request", False),
    Case(429, None, "rate_limit", True),
    Case(429, {"error": {"message": "no", "code": "insufficient_quota"}}, "quota", False),
    Case(
        429,
        {"error": {"type": "rate_limit_error", "details": {"error_code": "enforced_spend_limit_reached"}}},
        "quota",
        False,
    ),
    Case(500, {}, "provider", True),
    Case(502, {}, "overloaded", True),
    Case(503, {}, "overloaded", True),
    Case(504, {}, "timeout", True),
    Case(529, None, "overloaded", True),
]


async def test_p19_every_status(family: Family, loopback: Loopback) -> None:
    def said(case: Case) -> bytes:
        known = _CODES.get(case.status, "invalid_request")
        return family.wire.error_body(known, "no luck") if case.content is None else json.dumps(case.content).encode()

    route = await loopback.route(*(body(said(case), case.status) for case in STATUSES))
    model = family.model(route.base_url)
    for number, case in enumerate(STATUSES):
        (failed,) = await ask(model, UNARY if number % 2 else ASKED)
        assert isinstance(failed, Failed)
        error = failed.error
        assert (error.code, error.retryable, error.status) == (case.code, case.retryable, case.status), case
        assert error.retry_after is None
        assert case.content is not None or error.message == "no luck"
        if case.status < 500:
            assert failed.usage == NO_USAGE, "what no model has seen costs nothing"


async def test_p19_when_to_try_again(family: Family, loopback: Loopback) -> None:
    said = family.wire.error_body("rate_limit", "slow down")
    told = [
        ({"retry_after": "7"}, 7),
        ({"retry_after": "7", "retry_after_ms": "150"}, 0.15),
        ({"retry_after": "soon"}, None),
    ]
    route = await loopback.route(*(body(said, 429, **headers) for headers, _ in told))
    for _, wait in told:
        assert failure_of(await ask(family.model(route.base_url))).retry_after == wait


async def test_p19_the_server_may_say_whether(family: Family, loopback: Loopback) -> None:
    route = await loopback.route(body("{}", 400, x_should_retry="true"), body("{}", 503, x_should_retry="false"))
    assert failure_of(await ask(family.model(route.base_url))).retryable
    assert not failure_of(await ask(family.model(route.base_url))).retryable


_REFUSED = "messages.1.content.0: Invalid `signature` in `thinking` block"
REJECTIONS = [
    ("anthropic", {"type": "error", "error": {"type": "invalid_request_error", "message": _REFUSED}}),
    (
        "anthropic",
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
            },
        },
    ),
    (
        "responses",
        {
            "error": {
                "message": "The encrypted content gAAA could not be verified.",
                "type": "invalid_request_error",
                "code": "invalid_encrypted_content",
            }
        },
    ),
    (
        "chat-details",
        {
            "error": {
                "code": 400,
                "message": "Provider returned error",
                "metadata": {"raw": json.dumps({"error": {"type": "invalid_request_error", "message": _REFUSED}})},
            }
        },
    ),
]


@pytest.mark.parametrize("name, content", REJECTIONS)
async def test_k09_thinking_that_is_not_taken_back(loopback: Loopback, name: str, content: Any) -> None:
    """The loop leaves all thinking out and asks once more, so it has to know."""
    family = next(family for family in FAMILIES if family.name == name)
    route = await loopback.route(body(json.dumps(content), 400))
    failure = failure_of(await ask(family.model(route.base_url)))
    assert (failure.code, failure.retryable) == ("thinking_rejected", False), failure


BODIES = [
    ('"just a string"', "just a string"),
    ("just text", "just text"),
    ('{"error": "in a field"}', "in a field"),
    ('{"error": {"error": {"message": "nested"}}}', "nested"),
    ('[{"error": {"message": "in an array"}}]', "in an array"),
    ('{"detail": "as detail"}', "as detail"),
    ('data: {"error": {"message": "framed"}}\n\n', "framed"),
    ("<html><head><title>Bad gateway</title></head></html>", "HTTP 502, a web page: Bad gateway"),
    ("", "HTTP 502 without a reason"),
    ("[]", "HTTP 502 without a reason"),
    ("{}", "HTTP 502 without a reason"),
]


async def test_p20_every_body(family: Family, loopback: Loopback) -> None:
    route = await loopback.route(*(body(content, 502) for content, _ in BODIES), body("x" * 200_000, 502))
    for content, message in BODIES:
        failure = failure_of(await ask(family.model(route.base_url)))
        assert (failure.message, failure.code, failure.status) == (message, "overloaded", 502), content
    assert len(failure_of(await ask(family.model(route.base_url))).message) <= 300


async def test_a_redirect_is_not_followed(family: Family, loopback: Loopback) -> None:
    """The key would go along."""
    route = await loopback.route(body("", 307, location="http://127.0.0.1:9/"))
    failure = failure_of(await ask(family.model(route.base_url)))
    assert (failure.code, failure.status, failure.retryable) == ("invalid_request", 307, False)


@pytest.mark.parametrize("given", [True, False], ids=["in-code", "in-the-environment"])
async def test_p21_the_key_shows_nowhere(
    family: Family, loopback: Loopback, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, given: bool
) -> None:
    caplog.set_level(logging.DEBUG)
    key = KEY if given else "plain words as a key"
    if not given:
        monkeypatch.setenv(family.secret_name, key)
    wire = family.wire
    route = await loopback.route(
        body(wire.error_body("authentication", f"Incorrect API key provided: {key}."), 401),
        Answer([send(wire.error_frame("authentication", f"bad {key}"))]),
        body(f"<title>{key}</title>", 500),
        Answer([send(f"data: {key} is no JSON\n\n")]),
        body(key, 400),
    )
    model = family.model(route.base_url, api_key=KEY if given else None)
    shown = [repr(model), str(model), str(vars(model)), repr(pickle.dumps(model)), repr(model.profile)]
    for _ in range(5):
        shown += [f"{event!r} {event.model_dump_json()}" for event in await ask(model)]
    shown += [f"{record.getMessage()} {record.args}" for record in caplog.records]
    assert not [text for text in shown if key in text]
    assert all(key in "".join(request["headers"].values()) for request in await route.requests())


@pytest.mark.parametrize("key", ["schlüssel-geheim", "two\nlines-geheim", "", " "])
def test_p21_a_key_no_header_can_carry(family: Family, key: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        family.model(api_key=key)
    assert "geheim" not in f"{caught.value!r} {caught.value}"


def test_p21_a_key_travels_by_name_only(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    model = pickle.loads(pickle.dumps(family.model()))
    (name,) = model.secret_names
    assert secrets.collect(model.secret_names) == {name: KEY}
    monkeypatch.setattr(secrets, "_values", {})
    with pytest.raises(MissingSecretError, match="Runtime") as caught:
        model.stream(ASKED)
    assert KEY not in f"{caught.value!r} {caught.value}"
