"""OpenAIResponses against a real server on loopback: cases P03 to P06, P18 to P21, K09 on the wire."""

import json
import logging
import pickle
from typing import Any

import anyio
import pytest

from runtree.messages.errors import ConfigurationError, MissingSecretError
from runtree.messages.failure import Failure
from runtree.messages.model import Completed, ModelEvent, ModelRequest, ModelSettings, ToolCallDelta
from runtree.messages.transcript import UserMessage
from runtree.messages.usage import NO_USAGE
from runtree.providers import OpenAIResponses, secrets
from runtree.providers.protocol import Model, NeedsSecrets
from runtree.providers.responses.profile import AZURE, GENERIC, OPENAI
from tests.kit.loopback import Answer, Loopback, Route, body, cut, hang, reset, send, trickle, wait

from .answers import CREATED, answer, call, message, reasoning, response, stream
from .reading import completed, failed, results

KEY = "sk-test-0123456789abcdef"
ITEMS = (reasoning("hm"), message("Grüße 🌲"))
HELLO = stream(*answer(*ITEMS, size=20))
KINDS = ["started", "reasoning_delta", "signature_delta", "text_delta", "usage_delta", "completed"]
REQUEST = ModelRequest(messages=(UserMessage.of("hi"),), idle_timeout=20)
UNARY = REQUEST.model_copy(update={"settings": ModelSettings(stream=False)})


def model_at(route: Route, **options: Any) -> OpenAIResponses:
    return OpenAIResponses("gpt-5", base_url=route.base_url, api_key=KEY, **options)


async def ask(model: OpenAIResponses, request: ModelRequest = REQUEST) -> list[ModelEvent]:
    with anyio.fail_after(15):
        return [event async for event in model.stream(request)]


async def failure_of(model: OpenAIResponses, request: ModelRequest = REQUEST) -> Failure:
    return failed(await ask(model, request)).error


@pytest.mark.parametrize("step", [send, trickle])
@pytest.mark.parametrize("framing", ["chunked", "close"])
async def test_p01_streamed_answer(loopback: Loopback, step: Any, framing: str) -> None:
    route = await loopback.route(Answer([step(HELLO)], framing=framing))
    events = await ask(model_at(route))
    assert [event.kind for event in events] == KINDS
    assert completed(events).text == "Grüße 🌲"


async def test_what_is_sent(loopback: Loopback) -> None:
    route = await loopback.route(Answer([send(HELLO)]))
    await ask(model_at(route, reasoning_summary="auto"))
    (request,) = await route.requests()
    assert request["path"].endswith("/v1/responses")
    assert request["headers"]["authorization"] == f"Bearer {KEY}"
    assert request["headers"]["accept"] == "text/event-stream"
    assert request["json"] == {
        "model": "gpt-5",
        "input": [{"role": "user", "content": "hi"}],
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"summary": "auto"},
    }


async def test_another_header_and_version_for_the_key(loopback: Loopback) -> None:
    route = await loopback.route(Answer([send(HELLO)]))
    await ask(model_at(route, profile=AZURE.model_copy(update={"params": {"api-version": "v1"}})))
    (request,) = await route.requests()
    assert (request["headers"]["api-key"], request["headers"].get("authorization")) == (KEY, None)
    assert request["path"].endswith("/responses?api-version=v1")


async def test_k02_the_next_turn_holds_the_items_of_the_last(loopback: Loopback) -> None:
    items = [reasoning("hm", encrypted="gAAA+/=é"), message("x", phase="commentary"), call()]
    route = await loopback.route(Answer([send(stream(*answer(*items)))]), Answer([send(HELLO)]))
    model = model_at(route)
    said = completed(await ask(model))
    await ask(model, REQUEST.model_copy(update={"messages": (*REQUEST.messages, said, results(said))}))
    sent = (await route.requests())[1]["json"]["input"]
    assert sent[1:-1] == items


@pytest.mark.parametrize("request_", [REQUEST, UNARY], ids=["asked-to-stream", "unary"])
async def test_p06_t4_one_body_gives_the_same_events(loopback: Loopback, request_: ModelRequest) -> None:
    route = await loopback.route(body(json.dumps(response(*ITEMS))))
    events = await ask(model_at(route), request_)
    assert [event.kind for event in events] == KINDS
    assert completed(events).reasoning == "hm"
    assert (await route.requests())[0]["json"].get("stream", False) is request_.settings.stream


async def test_p06_a_stream_although_one_body_was_asked_for(loopback: Loopback) -> None:
    route = await loopback.route(Answer([send(HELLO)]))
    assert completed(await ask(model_at(route), UNARY)).text == "Grüße 🌲"


async def test_l2_the_call_is_told_while_the_server_still_sends(loopback: Loopback) -> None:
    events = answer(call())
    route = await loopback.route(Answer([send(stream(*events[:2])), wait("more"), send(stream(*events[2:]))]))
    told: list[ModelEvent] = []
    with anyio.fail_after(15):
        async for event in model_at(route).stream(REQUEST):
            told.append(event)
            if isinstance(event, ToolCallDelta) and not event.arguments:
                await route.release("more")
    assert completed(told).tool_calls[0].arguments == {"city": "Zürich"}


@pytest.mark.parametrize("end", [cut(), reset()], ids=["cut", "reset"])
@pytest.mark.parametrize("count", [1, 4, 7])
async def test_p05_a_connection_that_breaks(loopback: Loopback, end: Any, count: int) -> None:
    events = answer(call())[:count]
    route = await loopback.route(Answer([send(stream(*events)), wait("read"), end]))
    told: list[ModelEvent] = []
    with anyio.fail_after(15):
        async for event in model_at(route).stream(REQUEST):
            told.append(event)
            await route.release("read")
    last = failed(told)
    assert (last.error.retryable, last.error.code in ("transport", "protocol")) == (True, True)
    assert last.usage.precision == "unknown"


async def test_p05_an_answer_without_its_last_event(loopback: Loopback) -> None:
    route = await loopback.route(Answer([send(stream(*answer(call())[:-1]))], framing="close"))
    assert (await failure_of(model_at(route))).code == "protocol"


@pytest.mark.parametrize(
    "answer_",
    [
        pytest.param(Answer(before=[hang()]), id="before-the-head"),
        pytest.param(Answer([send(stream(CREATED)), hang()]), id="in-mid-stream"),
    ],
)
async def test_p18_silence_ends_the_call(loopback: Loopback, answer_: Answer) -> None:
    route = await loopback.route(answer_)
    failure = await failure_of(model_at(route), REQUEST.model_copy(update={"idle_timeout": 0.1}))
    assert (failure.code, failure.limit, failure.retryable) == ("timeout", "stream_idle_timeout", True)
    await route.until("disconnected")


async def test_p04_an_error_after_status_200(loopback: Loopback) -> None:
    error = {"type": "tokens", "code": "rate_limit_exceeded", "message": "slow", "headers": {"retry-after": "2"}}
    route = await loopback.route(
        Answer([send(stream(*answer(message("abcd"))[:3], {"type": "error", "error": error}))])
    )
    last = failed(await ask(model_at(route)))
    assert (last.error.code, last.error.retry_after, last.error.retryable) == ("rate_limit", 2, True)
    assert last.partial is not None
    assert last.partial.text == "abcd"


REFUSED = [
    ("Item 'rs_1' of type 'reasoning' was provided without its required following item.", None, 400),
    ("Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'.", None, 400),
    ("The encrypted content gAAA... could not be verified. Reason: ...", "invalid_encrypted_content", 400),
    ("The encrypted content for item rs_1 could not be verified.", None, 400),
    ("Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.", None, 404),
    ("Reasoning input items can only be provided to a reasoning or computer use model.", None, 400),
]


@pytest.mark.parametrize("words, code, status", REFUSED)
async def test_k09_refused_reasoning_has_a_code_of_its_own(
    loopback: Loopback, words: str, code: str | None, status: int
) -> None:
    error = {"error": {"message": words, "type": "invalid_request_error", "param": "input", "code": code}}
    route = await loopback.route(body(json.dumps(error), status))
    last = failed(await ask(model_at(route)))
    assert (last.error.code, last.error.retryable, last.error.status) == ("thinking_rejected", False, status)
    assert last.usage == NO_USAGE


@pytest.mark.parametrize(
    "words, code, status, expected, retryable",
    [
        ("No tool output found for function call call_1.", None, 400, "invalid_request", False),
        ("The requested model 'x' does not exist.", "model_not_found", 400, "model_not_found", False),
        (
            "Your input exceeds the context window of this model.",
            "context_length_exceeded",
            400,
            "context_overflow",
            False,
        ),
        ("Slow.", "too_many_requests", 429, "rate_limit", True),
        ("Pay.", "insufficient_quota", 429, "quota", False),
        ("Oh.", "server_error", 500, "provider", True),
    ],
)
async def test_p19_other_refusals(
    loopback: Loopback, words: str, code: str | None, status: int, expected: str, retryable: bool
) -> None:
    route = await loopback.route(body(json.dumps({"error": {"message": words, "code": code}}), status))
    failure = await failure_of(model_at(route))
    assert (failure.code, failure.retryable) == (expected, retryable)


async def test_p21_the_key_shows_nowhere(loopback: Loopback, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    error = {"message": f"Incorrect API key provided: {KEY}.", "code": KEY}
    route = await loopback.route(
        body(json.dumps({"error": error}), 401),
        Answer([send(stream({"type": "error", "error": error}))]),
        Answer([send(stream(CREATED) + f"data: {KEY}\n\n".encode())]),
        body(f"<p>{KEY}", 500),
        body(json.dumps({"output": [], "status": KEY})),
    )
    model = model_at(route)
    shown = [repr(model), str(model), str(vars(model)), repr(pickle.dumps(model)), repr(model.profile)]
    for _ in range(5):
        shown += [event.model_dump_json() for event in await ask(model)]
    shown += [record.getMessage() for record in caplog.records]
    assert not [text for text in shown if KEY in text]


def test_missing_key_is_said_at_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    model = OpenAIResponses("gpt-5")
    assert (model.secret_names, model.key_required) == (("OPENAI_API_KEY",), True)
    with pytest.raises(MissingSecretError, match="OPENAI_API_KEY"):
        model.stream(REQUEST)
    keyed = pickle.loads(pickle.dumps(OpenAIResponses("gpt-5", api_key=KEY)))
    monkeypatch.setattr(secrets, "_values", {})
    with pytest.raises(MissingSecretError, match="Runtime"):
        keyed.stream(REQUEST)


def test_nothing_to_send_is_said_at_the_call() -> None:
    model = OpenAIResponses("m", base_url="http://127.0.0.1:1/v1")
    with pytest.raises(ConfigurationError, match="nothing to send"):
        model.stream(ModelRequest(messages=()))


def test_the_address_tells_the_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    assert OpenAIResponses("m").profile == OPENAI.model_copy(update={"model": "m"})
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1/responses")
    model = OpenAIResponses("m")
    assert repr(model) == "OpenAIResponses('m', base_url='http://127.0.0.1:1/v1')"
    assert model.profile.provider == GENERIC.provider
    assert isinstance(model, Model)
    assert isinstance(model, NeedsSecrets)


async def test_another_model_for_one_call(loopback: Loopback) -> None:
    route = await loopback.route(Answer([send(HELLO)]))
    events = await ask(model_at(route), REQUEST.model_copy(update={"model": "gpt-4o"}))
    sent = (await route.requests())[0]["json"]
    assert (sent["model"], "include" in sent) == ("gpt-4o", False)
    assert isinstance(events[-1], Completed)
