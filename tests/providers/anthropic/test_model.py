"""AnthropicMessages against a real server on loopback: cases P04 to P06, P18, P19, P21, and its options."""

import json
import logging
import pickle
from typing import Any

import anyio
import pytest

from runtree.messages.errors import ConfigurationError, MissingSecretError
from runtree.messages.model import Completed, Failed, ModelEvent, ModelRequest, ModelSettings, ToolDefinition
from runtree.messages.transcript import UserMessage
from runtree.messages.usage import NO_USAGE
from runtree.providers import AnthropicMessages, resolve
from runtree.providers.anthropic.profile import ANTHROPIC_COMPATIBLE, DEEPSEEK, INTERLEAVED_BETA
from runtree.providers.protocol import Model, NeedsSecrets
from tests.kit.loopback import Answer, Loopback, Route, body, cut, hang, reset, send, trickle, wait

from .answers import SIGNATURE, WEATHER, call, delta, event, message, opened, start, stream, text, thinking

KEY = "sk-ant-test-0123456789abcdef"
HELLO = stream(thinking(0, "Hm", signature=SIGNATURE), text(1, "Grüße ", "🌲"))
REQUEST = ModelRequest(messages=(UserMessage.of("hi"),), idle_timeout=20)


def model_at(route: Route, **options: Any) -> AnthropicMessages:
    return AnthropicMessages("m-1", base_url=route.base_url, **{"api_key": KEY, **options})


async def ask(model: AnthropicMessages, request: ModelRequest = REQUEST) -> list[ModelEvent]:
    with anyio.fail_after(15):
        return [item async for item in model.stream(request)]


async def failed(model: AnthropicMessages, request: ModelRequest = REQUEST) -> Failed:
    last = (await ask(model, request))[-1]
    assert isinstance(last, Failed), last
    return last


@pytest.mark.parametrize("step", [send, trickle])
@pytest.mark.parametrize("framing", ["chunked", "close"])
async def test_p01_streamed_answer(loopback: Loopback, step: Any, framing: str) -> None:
    route = await loopback.route(Answer([step(HELLO)], framing=framing))
    events = await ask(model_at(route))
    last = events[-1]
    kinds = ["started", "usage_delta", "reasoning_delta", "signature_delta", "text_delta", "text_delta", "usage_delta"]
    assert [item.kind for item in events] == [*kinds, "completed"]
    assert isinstance(last, Completed)
    assert (last.response.message.text, last.response.response_id, last.response.model) == ("Grüße 🌲", "msg_1", "m-1")


@pytest.mark.parametrize("path", ["", "/v1", "/v1/", "/v1/messages"])
async def test_what_is_sent(loopback: Loopback, path: str) -> None:
    route = await loopback.route(Answer([send(HELLO)]))
    await ask(AnthropicMessages("m-1", base_url=route.base_url.removesuffix("/v1") + path, api_key=KEY))
    (request,) = await route.requests()
    assert request["path"] == "/" + route.base_url.split("/", 3)[3] + "/messages"
    headers = request["headers"]
    assert (headers["x-api-key"], headers["anthropic-version"], headers["accept"]) == (
        KEY,
        "2023-06-01",
        "text/event-stream",
    )
    assert not {"authorization", "anthropic-beta"} & set(headers)
    assert request["json"]["messages"] == [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    assert request["json"]["stream"] is True


async def test_betas_are_those_asked_for_and_those_needed(loopback: Loopback) -> None:
    route = await loopback.route(Answer([send(HELLO)]))
    tools = (ToolDefinition(name="f", parameters={}),)
    request = REQUEST.model_copy(
        update={"model": "claude-sonnet-4-5", "tools": tools, "settings": ModelSettings(reasoning_budget=2000)}
    )
    for betas in (("context-1m-2025-08-07", INTERLEAVED_BETA), "context-1m-2025-08-07"):
        await ask(model_at(route, betas=betas), request)
    sent = [request["headers"]["anthropic-beta"] for request in await route.requests()]
    assert sent == [f"context-1m-2025-08-07,{INTERLEAVED_BETA}"] * 2


async def test_a_server_that_wants_a_bearer_token(loopback: Loopback) -> None:
    route = await loopback.route(Answer([send(HELLO)]))
    profile = ANTHROPIC_COMPATIBLE.model_copy(update={"key_header": "authorization", "headers": {"x-team": "a"}})
    await ask(model_at(route, profile=profile))
    headers = (await route.requests())[0]["headers"]
    assert (headers["authorization"], headers["x-team"]) == (f"Bearer {KEY}", "a")
    assert "x-api-key" not in headers


@pytest.mark.parametrize("streamed", [True, False])
async def test_p06_json_in_place_of_a_stream(loopback: Loopback, streamed: bool) -> None:
    blocks = [{"type": "thinking", "thinking": "Hm", "signature": SIGNATURE}, {"type": "text", "text": "x"}]
    route = await loopback.route(body(json.dumps(message(blocks, "end_turn"))))
    request = REQUEST.model_copy(update={"settings": ModelSettings(stream=streamed)})
    kinds = ["started", "reasoning_delta", "signature_delta", "text_delta", "usage_delta", "completed"]
    assert [item.kind for item in await ask(model_at(route), request)] == kinds
    (sent,) = await route.requests()
    assert ("stream" in sent["json"], sent["headers"]["accept"]) == (
        streamed,
        "text/event-stream" if streamed else "application/json",
    )


async def test_l2_a_call_is_told_while_its_arguments_are_written(loopback: Loopback) -> None:
    first = start() + opened(0, "toolu_1", "get_weather")
    rest = delta(0, "input_json_delta", partial_json=json.dumps(WEATHER)) + stream()[len(start()) :]
    rest = rest.replace(
        b'{"type":"message_delta"', b'{"type":"content_block_stop","index":0}\n\ndata: {"type":"message_delta"', 1
    )
    route = await loopback.route(Answer([send(first), wait("named"), send(rest)]))
    kinds: list[str] = []
    with anyio.fail_after(15):
        async for item in model_at(route).stream(REQUEST):
            kinds.append(item.kind)
            if kinds.count("tool_call_delta") == 1 and item.kind == "tool_call_delta":
                await route.release("named")
    assert kinds == ["started", "usage_delta", "tool_call_delta", "tool_call_delta", "usage_delta", "completed"]


async def test_p04_an_error_after_status_200(loopback: Loopback) -> None:
    error = event("error", error={"type": "overloaded_error", "message": "Overloaded", "details": None})
    route = await loopback.route(Answer([send(start() + opened(0, "a", "f", '{"x"') + error)]))
    last = await failed(model_at(route))
    assert (last.error.code, last.error.retryable, last.error.provider_code) == ("overloaded", True, "overloaded_error")
    assert last.partial is not None
    assert last.partial.tool_calls[0].truncated
    assert last.usage.input_tokens == 12


@pytest.mark.parametrize("step", [cut, reset])
async def test_p05_a_connection_that_breaks(loopback: Loopback, step: Any) -> None:
    head = start() + call(0, "a", "f", "{}") + opened(1, "b", "f", '{"x')
    route = await loopback.route(Answer([send(head), wait("read"), step()]))
    events: list[ModelEvent] = []
    with anyio.fail_after(15):
        async for item in model_at(route).stream(REQUEST):
            events.append(item)
            if len([one for one in events if one.kind == "tool_call_delta"]) == 4 and item.kind == "tool_call_delta":
                await route.release("read")
    last = events[-1]
    assert isinstance(last, Failed)
    assert last.error.code in ("transport", "protocol")
    assert last.error.retryable
    assert (last.usage.input_tokens, last.usage.precision) == (12, "unknown")


@pytest.mark.parametrize("steps", [[hang()], [send(start() + text(0, "x")), hang()]])
async def test_p18_silence_ends_the_call(loopback: Loopback, steps: Any) -> None:
    route = await loopback.route(Answer(steps))
    last = await failed(model_at(route), REQUEST.model_copy(update={"idle_timeout": 0.1}))
    assert (last.error.code, last.error.retryable, last.error.limit) == ("timeout", True, "stream_idle_timeout")
    await route.until("disconnected")


@pytest.mark.parametrize(
    "status, kind, said, code, retryable",
    [
        (400, "invalid_request_error", "tools.0: no", "invalid_request", False),
        (400, "invalid_request_error", "prompt is too long: 300 tokens > 200 maximum", "context_overflow", False),
        (400, "invalid_request_error", "You have reached your specified API usage limits. Wait.", "quota", False),
        (400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API.", "quota", False),
        (401, "authentication_error", "invalid x-api-key", "authentication", False),
        (402, "billing_error", "no", "quota", False),
        (403, "permission_error", "no", "authentication", False),
        (404, "not_found_error", "model: m-1", "model_not_found", False),
        (409, "conflict_error", "no", "provider", True),
        (413, "request_too_large", "no", "context_overflow", False),
        (429, "rate_limit_error", "no", "rate_limit", True),
        (500, "api_error", "no", "provider", True),
        (504, "timeout_error", "no", "timeout", True),
        (529, "overloaded_error", "Overloaded", "overloaded", True),
    ],
)
async def test_p19_error_status(
    loopback: Loopback, status: int, kind: str, said: str, code: str, retryable: bool
) -> None:
    error = {"type": "error", "error": {"type": kind, "message": said}, "request_id": "req_1"}
    route = await loopback.route(body(json.dumps(error), status))
    last = await failed(model_at(route))
    assert (last.error.code, last.error.retryable, last.error.status) == (code, retryable, status)
    assert (last.error.message, last.error.provider_code) == (said, kind)
    assert (last.usage == NO_USAGE) == (status < 500)


@pytest.mark.parametrize(
    "said",
    [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "messages.3.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation.",
        "messages.1.content.0: Invalid `data` in `redacted_thinking` block",
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
        "messages.5.content.1: `thinking` or `redacted_thinking` blocks in the latest message cannot be modified.",
        "messages.1: The final block in an assistant message cannot be `thinking`.",
        "messages.1.content.0.thinking.signature: Field required",
    ],
)
@pytest.mark.parametrize("status", [400, 429])
async def test_k09_refused_thinking_is_told_apart(loopback: Loopback, said: str, status: int) -> None:
    """Some gateways send it with the status of a rate limit."""
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
    route = await loopback.route(body(json.dumps(error), status))
    last = await failed(model_at(route))
    assert (last.error.code, last.error.retryable) == ("thinking_rejected", False)


async def test_p19_the_server_says_what_to_do(loopback: Loopback) -> None:
    spent = {"type": "rate_limit_error", "message": "no", "details": {"error_code": "enforced_spend_limit_reached"}}
    route = await loopback.route(
        body("{}", 429, retry_after="39"),
        body("{}", 529, x_should_retry="false"),
        body(json.dumps({"error": spent}), 429),
    )
    first, second, third = [(await failed(model_at(route))).error for _ in range(3)]
    assert (first.retryable, first.retry_after) == (True, 39)
    assert second.retryable is False
    assert third.retryable is False


async def test_p21_the_key_shows_nowhere(loopback: Loopback, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    echo = {"type": "error", "error": {"type": KEY, "message": f"invalid x-api-key: {KEY}"}}
    route = await loopback.route(
        body(json.dumps(echo), 401),
        Answer([send(event("error", error=echo["error"]))]),
        body(f"<p>{KEY}", 500),
        body(KEY),
    )
    model = model_at(route)
    shown = [repr(model), str(vars(model)), repr(pickle.dumps(model)), repr(model.profile)]
    for _ in range(4):
        shown += [item.model_dump_json() for item in await ask(model)]
    shown += [record.getMessage() for record in caplog.records]
    assert not [line for line in shown if KEY in line]


def test_options_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert repr(AnthropicMessages("m-1")) == "AnthropicMessages('m-1', base_url='https://api.anthropic.com')"
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1/v1/")
    model = AnthropicMessages("m-1")
    assert repr(model) == "AnthropicMessages('m-1', base_url='http://127.0.0.1:1')"
    assert (model.secret_names, model.key_required) == (("ANTHROPIC_API_KEY",), True)
    with pytest.raises(MissingSecretError, match="ANTHROPIC_API_KEY"):
        model.stream(REQUEST)
    with pytest.raises(ConfigurationError, match="base_url"):
        AnthropicMessages("m-1", base_url="api.anthropic.com")


def test_a_profile_knows_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
    model = AnthropicMessages("deepseek-chat", profile=DEEPSEEK)
    assert repr(model) == "AnthropicMessages('deepseek-chat', base_url='https://api.deepseek.com/anthropic')"
    assert (model.profile.provider, model.secret_names) == ("deepseek-messages", ("DEEPSEEK_API_KEY",))


@pytest.mark.parametrize("name, native", [("claude-sonnet-4-5", True), ("claude-3-5-haiku-latest", False)])
def test_it_is_a_model(name: str, native: bool) -> None:
    model = resolve(f"anthropic:{name}")
    assert isinstance(model, Model)
    assert isinstance(model, NeedsSecrets)
    assert (model.profile.model, model.profile.provider, model.profile.native_output_schema) == (
        name,
        "anthropic",
        native,
    )
    assert repr(pickle.loads(pickle.dumps(model))) == repr(model)
