"""OpenAIChat against a real server on loopback: cases P03, P05, P06 and P18 to P21."""

import json
import logging
import pickle
from typing import Any

import anyio
import pytest

from runtree.messages.content import ImageBlock, TextBlock
from runtree.messages.errors import ConfigurationError, MissingSecretError
from runtree.messages.failure import Failure
from runtree.messages.model import Completed, Failed, ModelEvent, ModelRequest, ModelSettings, TextDelta
from runtree.messages.transcript import UserMessage
from runtree.messages.usage import NO_USAGE
from runtree.providers import OpenAIChat, secrets
from runtree.providers.chat.dialects import GENERIC
from runtree.providers.protocol import Model, NeedsSecrets
from tests.kit.loopback import Answer, Loopback, Route, body, cut, hang, pause, reset, send, trickle, wait

from .answers import USAGE_CHUNK, call, chunk, stream

KEY = "sk-test-0123456789abcdef"
HELLO = stream(chunk({"content": "Grüße "}), chunk({"content": "🌲"}), chunk(finish="stop"), USAGE_CHUNK)
REQUEST = ModelRequest(messages=(UserMessage.of("hi"),), idle_timeout=20)


def model_at(route: Route, **options: Any) -> OpenAIChat:
    return OpenAIChat("m-1", base_url=route.base_url, api_key=KEY, **options)


async def ask(model: OpenAIChat, request: ModelRequest = REQUEST) -> list[ModelEvent]:
    with anyio.fail_after(15):
        return [event async for event in model.stream(request)]


async def failure_of(model: OpenAIChat, request: ModelRequest = REQUEST) -> Failure:
    last = (await ask(model, request))[-1]
    assert isinstance(last, Failed)
    return last.error


async def text_of(model: OpenAIChat, request: ModelRequest = REQUEST) -> str:
    last = (await ask(model, request))[-1]
    assert isinstance(last, Completed), last
    return last.response.message.text


@pytest.mark.parametrize("step", [send, trickle])
@pytest.mark.parametrize("framing", ["chunked", "close"])
async def test_p01_streamed_answer(loopback: Loopback, step: Any, framing: str) -> None:
    route = await loopback.route(Answer([step(HELLO)], framing=framing))
    events = await ask(model_at(route))
    last = events[-1]
    assert [event.kind for event in events] == ["started", "text_delta", "text_delta", "usage_delta", "completed"]
    assert isinstance(last, Completed)
    assert last.response.message.text == "Grüße 🌲"
    assert last.response.usage.input_tokens == 10


async def test_what_is_sent(loopback: Loopback) -> None:
    route = await loopback.route(Answer([send(HELLO)]))
    await ask(model_at(route))
    (request,) = await route.requests()
    assert request["path"].endswith("/v1/chat/completions")
    assert request["headers"]["authorization"] == f"Bearer {KEY}"
    assert request["json"] == {
        "model": "m-1",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_deltas_arrive_while_the_server_still_sends(loopback: Loopback) -> None:
    route = await loopback.route(
        Answer([send(stream(chunk({"content": "a"}), done=False)), wait("more"), send(stream(chunk(finish="stop")))])
    )
    kinds: list[str] = []
    with anyio.fail_after(15):
        async for event in model_at(route).stream(REQUEST):
            kinds.append(event.kind)
            if isinstance(event, TextDelta):
                await route.release("more")
    assert kinds == ["started", "text_delta", "completed"]


async def test_p06_json_although_a_stream_was_asked_for(loopback: Loopback) -> None:
    whole = {"model": "m-1", "choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}
    route = await loopback.route(body(json.dumps(whole)))
    assert [event.kind for event in await ask(model_at(route))] == ["started", "text_delta", "completed"]


async def test_p06_unary(loopback: Loopback) -> None:
    whole = {"model": "m-1", "choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}
    route = await loopback.route(body(json.dumps(whole)))
    request = REQUEST.model_copy(update={"settings": ModelSettings(stream=False)})
    assert [event.kind for event in await ask(model_at(route), request)] == ["started", "text_delta", "completed"]
    assert "stream" not in (await route.requests())[0]["json"]


async def test_p05_reset_in_mid_stream(loopback: Loopback) -> None:
    head = stream(chunk({"content": "a"}), chunk(call(0, "c1", "get", '{"x')), done=False)
    route = await loopback.route(Answer([send(head), wait("read"), reset()]))
    events: list[ModelEvent] = []
    with anyio.fail_after(15):
        async for event in model_at(route).stream(REQUEST):
            events.append(event)
            if event.kind == "tool_call_delta":
                await route.release("read")
    last = events[-1]
    assert isinstance(last, Failed)
    assert (last.error.code, last.error.retryable) == ("transport", True)
    assert last.partial is not None
    assert last.partial.text == "a"
    assert last.partial.tool_calls[0].truncated
    assert last.usage.precision == "unknown"


@pytest.mark.parametrize("framing", ["chunked", "close"])
async def test_p05_connection_closed_in_mid_stream(loopback: Loopback, framing: str) -> None:
    head = stream(chunk(call(0, "c1", "get", '{"x')), done=False)
    route = await loopback.route(Answer([send(head), cut()], framing=framing))
    failure = await failure_of(model_at(route))
    assert failure.code in ("transport", "protocol")
    assert failure.retryable


async def test_p05_nobody_listens() -> None:
    failure = await failure_of(OpenAIChat("m-1", base_url="http://127.0.0.1:9/v1"))
    assert (failure.code, failure.retryable) == ("transport", True)
    assert "127.0.0.1:9" in failure.message
    assert "base_url" in failure.message


async def test_a_call_that_never_reached_a_model_consumed_nothing(loopback: Loopback) -> None:
    last = (await ask(OpenAIChat("m-1", base_url="http://127.0.0.1:9/v1")))[-1]
    assert isinstance(last, Failed)
    assert last.usage == NO_USAGE
    route = await loopback.route(body("", status=429))
    last = (await ask(model_at(route)))[-1]
    assert isinstance(last, Failed)
    assert last.usage == NO_USAGE


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(Answer([hang()]), id="before-the-body"),
        pytest.param(Answer(before=[hang()]), id="before-the-head"),
        pytest.param(Answer([send(stream(chunk({"content": "a"}), done=False)), hang()]), id="in-mid-stream"),
        pytest.param(Answer([hang()], status=500), id="in-an-error"),
    ],
)
async def test_p18_silence_ends_the_call(loopback: Loopback, answer: Answer) -> None:
    route = await loopback.route(answer)
    failure = await failure_of(model_at(route), REQUEST.model_copy(update={"idle_timeout": 0.1}))
    assert failure.retryable
    if answer.status == 200:
        assert (failure.code, failure.limit) == ("timeout", "stream_idle_timeout")
    await route.until("disconnected")


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(Answer(before=[hang()]), id="before-the-head"),
        pytest.param(Answer([send(stream(chunk({"content": "a"}), done=False)), hang()]), id="in-mid-stream"),
        pytest.param(Answer([trickle(b": still here\n\n" * 5_000)]), id="never-silent"),
    ],
)
async def test_p18_the_total_time_is_another_limit(loopback: Loopback, answer: Answer) -> None:
    route = await loopback.route(answer)
    failure = await failure_of(model_at(route), REQUEST.model_copy(update={"timeout": 0.1}))
    assert (failure.code, failure.retryable, failure.limit) == ("timeout", True, "model_call_timeout")
    await route.until("disconnected")


async def test_p03_comments_are_no_silence(loopback: Loopback) -> None:
    """P03 and P18: each comment starts the idle time anew; all pauses together are longer than it."""
    route = await loopback.route(Answer([*[pause(0.4), send(": ping\n\n")] * 4, send(HELLO)]))
    assert await text_of(model_at(route), REQUEST.model_copy(update={"idle_timeout": 1.2})) == "Grüße 🌲"


async def test_p18_a_model_may_declare_a_longer_silence(loopback: Loopback) -> None:
    route = await loopback.route(Answer(before=[pause(0.3)], steps=[send(HELLO)]))
    model = model_at(route, profile=GENERIC.model_copy(update={"silence": 20.0}))
    assert await text_of(model, REQUEST.model_copy(update={"idle_timeout": 0.05})) == "Grüße 🌲"


@pytest.mark.parametrize(
    "status, content, code, retryable",
    [
        (401, {"error": {"message": "no", "code": "invalid_api_key"}}, "authentication", False),
        (403, {"error": "no"}, "authentication", False),
        (429, {"error": {"message": "no", "code": "insufficient_quota"}}, "quota", False),
        (429, {"error": {"message": "no", "code": "rate_limit_exceeded"}}, "rate_limit", True),
        (408, {}, "timeout", True),
        (409, {}, "provider", True),
        (500, {}, "provider", True),
        (503, {}, "overloaded", True),
        (529, {}, "overloaded", True),
        (400, {"error": {"message": "maximum context length is 10 tokens"}}, "context_overflow", False),
        (404, {"detail": "nothing here"}, "model_not_found", False),
        (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, "invalid_request", False),
    ],
)
async def test_p19_error_status(loopback: Loopback, status: int, content: Any, code: str, retryable: bool) -> None:
    route = await loopback.route(body(json.dumps(content), status))
    failure = await failure_of(model_at(route))
    assert (failure.code, failure.retryable, failure.status) == (code, retryable, status)


async def test_p19_the_server_says_when(loopback: Loopback) -> None:
    route = await loopback.route(body("{}", 429, retry_after="7"))
    assert (await failure_of(model_at(route))).retry_after == 7


async def test_redirect_is_not_followed(loopback: Loopback) -> None:
    """The key would go along."""
    route = await loopback.route(body("", 307, location="http://127.0.0.1:9/"))
    failure = await failure_of(model_at(route))
    assert (failure.code, failure.status, failure.retryable) == ("invalid_request", 307, False)


async def test_p21_the_key_shows_nowhere(loopback: Loopback, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    echo = {"error": {"message": f"Incorrect API key provided: {KEY}.", "code": KEY}}
    route = await loopback.route(
        body(json.dumps(echo), 401),
        Answer([send(stream({"error": {"message": f"bad {KEY}"}}))]),
        body(f"<p>{KEY}", 500),
    )
    model = model_at(route)
    shown = [repr(model), str(model), str(vars(model)), repr(pickle.dumps(model)), repr(model.profile)]
    for _ in range(3):
        shown += [event.model_dump_json() for event in await ask(model)]
    shown += [record.getMessage() for record in caplog.records]
    assert not [text for text in shown if KEY in text]


async def test_p21_the_key_of_the_environment_shows_nowhere(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "plain-words-as-a-key")
    route = await loopback.route(body('{"error": "plain-words-as-a-key is wrong"}', 401))
    failure = await failure_of(OpenAIChat("m-1", base_url=route.base_url))
    assert failure.message == "*** is wrong"
    assert (await route.requests())[0]["headers"]["authorization"] == "Bearer plain-words-as-a-key"


@pytest.mark.parametrize("key", ["schlüssel-geheim", "two\nlines-secret", "", " "])
def test_p21_a_key_no_header_can_carry(key: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        OpenAIChat("m-1", api_key=key)
    assert "secret" not in str(caught.value)
    assert "geheim" not in repr(caught.value)


def test_missing_key_is_said_at_the_call() -> None:
    model = OpenAIChat("gpt-x")
    assert model.secret_names == ("OPENAI_API_KEY",)
    with pytest.raises(MissingSecretError, match="OPENAI_API_KEY"):
        model.stream(REQUEST)


def test_key_given_in_code_travels_by_name_only(monkeypatch: pytest.MonkeyPatch) -> None:
    model = pickle.loads(pickle.dumps(OpenAIChat("gpt-x", api_key=KEY)))
    (name,) = model.secret_names
    assert secrets.collect(model.secret_names) == {name: KEY}
    monkeypatch.setattr(secrets, "_values", {})
    with pytest.raises(MissingSecretError, match="Runtime"):
        model.stream(REQUEST)


@pytest.mark.parametrize("address", ["localhost:1", "ftp://x/v1", "http://", "http://user:pass@x/v1", "http://x:port/"])
def test_wrong_base_url(address: str) -> None:
    with pytest.raises(ConfigurationError, match="base_url") as caught:
        OpenAIChat("m-1", base_url=address)
    assert "pass@" not in str(caught.value)


def test_base_url_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1/")
    model = OpenAIChat("m-1")
    assert repr(model) == "OpenAIChat('m-1', base_url='http://127.0.0.1:1/v1')"
    assert model.profile.provider == "openai-compatible"


def test_it_is_a_model() -> None:
    model = OpenAIChat("m-1", base_url="http://127.0.0.1:1/v1")
    assert isinstance(model, Model)
    assert isinstance(model, NeedsSecrets)
    assert model.profile.model == "m-1"


async def test_images_are_sent(loopback: Loopback) -> None:
    route = await loopback.route(Answer([send(HELLO)]))
    said = UserMessage(content=(TextBlock(text="see"), ImageBlock(data="AAAA")))
    await ask(model_at(route), ModelRequest(messages=(said,)))
    content = (await route.requests())[0]["json"]["messages"][0]["content"]
    assert content[1] == {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
