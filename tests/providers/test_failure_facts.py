"""Errors as single providers word them: what each means, whether another try helps, and when. Cases P19, P20, K09."""

import json
import time
from email.utils import formatdate
from typing import Any

import pytest

from runtree.providers.failures import from_answer, from_frame


def _flat(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


def _listed(code: int, message: str, status: str, *details: dict[str, Any]) -> list[Any]:
    return [{"error": {"code": code, "message": message, "status": status, "details": list(details)}}]


def _claude(kind: str, message: str, **fields: Any) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message, **fields}, "request_id": "req_1"}


_FLAGGED = {"reasons": ["violence"], "flagged_input": "a", "provider_name": "OpenAI"}
_TOO_LONG = json.dumps({"error": {"message": "prompt is too long: 3 tokens > 2 maximum"}})
_FILTERED = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"hate": {"filtered": True}}}
_EXTRA = {"type": "extra_forbidden", "loc": ["body", "messages", 2, "assistant", "reasoning_content"], "msg": "Extra inputs are not permitted"}  # fmt: skip
_WAIT_DETAIL = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "48s"}

NOT_WORTH_A_TRY: list[tuple[str, int, Any, str]] = [
    ("openai", 401, _flat("Incorrect API key provided", code="invalid_api_key"), "authentication"),
    ("openai", 404, _flat("The model `x` does not exist", code="model_not_found"), "model_not_found"),
    ("openai", 400, _flat("m", code="context_length_exceeded"), "context_overflow"),
    ("openai", 400, _flat("m", code="unsupported_parameter", type="invalid_request_error"), "invalid_request"),
    ("openai", 400, _flat("m", code="invalid_image_url", type="invalid_request_error"), "invalid_request"),
    ("openai", 429, _flat("You exceeded your current quota", code="insufficient_quota"), "quota"),
    ("openai", 400, _flat("Invalid prompt: flagged as potentially violating our usage policy.", code="invalid_prompt"), "content_filter"),
    ("openai", 400, _flat("No tool output found for function call call_1."), "invalid_request"),
    ("openai", 400, _flat("Previous response with id 'r' not found.", code="previous_response_not_found"), "invalid_request"),
    ("openai", 400, _flat("Item 'rs_1' of type 'reasoning' was provided without its required following item."), "thinking_rejected"),
    ("openai", 400, _flat("Item 'msg_1' of type 'message' was provided without its required 'reasoning' item: 'rs_1'."), "thinking_rejected"),
    ("openai", 404, _flat("Item with id 'rs_1' not found. Items are not persisted when `store` is set to false."), "thinking_rejected"),
    ("deepseek", 402, _flat("Insufficient Balance", code="invalid_request_error"), "quota"),
    ("deepseek", 400, _flat("This model does not support this tool_choice"), "invalid_request"),
    ("vllm", 400, {"object": "error", "message": "This model's maximum context length is 10 tokens.", "code": 400}, "context_overflow"),
    ("llama.cpp", 400, _flat("too large", code=400, type="exceed_context_size_error", n_ctx=4), "context_overflow"),
    ("openrouter", 403, _flat("Your input was flagged", code=403, metadata=_FLAGGED), "content_filter"),
    ("openrouter", 402, _flat("This request requires more credits", code=402), "quota"),
    ("openrouter", 401, _flat("No auth credentials found", code=401), "authentication"),
    ("openrouter", 400, _flat("Provider returned error", code=400, metadata={"raw": _TOO_LONG}), "context_overflow"),
    ("groq", 413, _flat("Request too large: tokens per minute (TPM): Limit 6000", type="tokens", code="rate_limit_exceeded"), "context_overflow"),
    ("groq", 400, _flat("Failed to call a function.", code="tool_use_failed", type="invalid_request_error"), "invalid_request"),
    ("cerebras", 413, None, "context_overflow"),
    ("cerebras", 400, None, "context_overflow"),
    ("cerebras", 400, {"message": "body.messages.1.assistant.reasoning_content: property is unsupported", "code": "wrong_api_format"}, "thinking_rejected"),
    ("ollama", 400, {"error": "prompt too long; exceeded max context length by 10 tokens"}, "context_overflow"),
    ("azure", 400, _flat("filtered", code="content_filter", status=400, innererror=_FILTERED), "content_filter"),
    ("azure", 404, _flat("no deployment", code="DeploymentNotFound"), "model_not_found"),
    ("mistral", 400, {"object": "error", "message": "Invalid model: x", "type": "invalid_model", "code": "1500"}, "model_not_found"),
    ("mistral", 400, {"object": "error", "message": "Expected last role User or Tool", "type": "invalid_request_message_order", "code": "3230"}, "invalid_request"),
    ("mistral", 401, {"detail": "Invalid API Key"}, "authentication"),
    ("mistral", 422, {"object": "error", "message": {"detail": [_EXTRA]}}, "thinking_rejected"),
    ("gemini", 400, _listed(400, "API key not valid.", "INVALID_ARGUMENT"), "authentication"),
    ("gemini", 400, _listed(400, "Missing or invalid Authorization header.", "INVALID_ARGUMENT"), "authentication"),
    ("gemini", 400, _listed(400, "The input token count (12) exceeds the maximum number of tokens allowed (10).", "INVALID_ARGUMENT"), "context_overflow"),
    ("qwen", 400, _flat("may contain inappropriate content", code="data_inspection_failed"), "content_filter"),
    ("qwen", 400, _flat("Access denied, please make sure your account is in good standing.", code="Arrearage"), "quota"),
    ("qwen", 400, _flat("Range of input length should be [1, 98304]"), "context_overflow"),
    ("moonshot", 400, _flat("Your request exceeded model token limit: 131072"), "context_overflow"),
    ("moonshot", 429, _flat("check your plan and billing details", type="exceeded_current_quota_error"), "quota"),
    ("zai", 400, _flat("Unknown Model, please check the model code.", code="1211"), "model_not_found"),
    ("zai", 429, _flat("Insufficient balance or no resource package. Please recharge.", code="1113"), "quota"),
    ("xai", 400, {"code": "invalid-argument", "error": "Incorrect API key provided: xa***."}, "authentication"),
    ("xai", 400, {"code": "invalid-argument", "error": "Model not found: grok-x"}, "model_not_found"),
    ("xai", 400, {"code": "invalid-argument", "error": "This model's maximum prompt length is 131072 but the request has more"}, "context_overflow"),
    ("xai", 403, {"code": "no", "error": "Your team has used all available credits or reached its monthly spending limit."}, "quota"),
    ("anthropic", 400, _claude("invalid_request_error", "You have reached your specified API usage limits."), "quota"),
    ("anthropic", 402, _claude("billing_error", "pay"), "quota"),
    ("anthropic", 429, _claude("rate_limit_error", "no", details={"error_code": "enforced_spend_limit_reached"}), "quota"),
    ("anthropic", 413, b"<html><title>413 Request Entity Too Large</title></html>", "context_overflow"),
    ("anthropic", 400, _claude("invalid_request_error", "Output blocked by content filtering policy"), "content_filter"),
    ("anthropic", 400, _claude("invalid_request_error", "input length and `max_tokens` exceed context limit: 9 + 2 > 10"), "context_overflow"),
    ("anthropic", 400, _claude("invalid_request_error", "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation."), "thinking_rejected"),
    ("anthropic", 400, _claude("invalid_request_error", "`tool_use` ids were found without `tool_result` blocks immediately after: t"), "invalid_request"),
    ("bedrock", 400, {"message": "Input is too long for requested model."}, "context_overflow"),
    ("databricks", 400, {"error_code": "BAD_REQUEST", "message": "Input Tokens Exceeded: more than the maximum"}, "context_overflow"),
]  # fmt: skip

WORTH_A_TRY: list[tuple[str, int, Any, str, float | None]] = [
    ("openai", 429, _flat("Rate limit reached. Please try again in 6.57s. Visit", type="tokens", code="rate_limit_exceeded"), "rate_limit", 6.57),
    ("openai", 429, _flat("Please try again in 20ms.", type="requests", code="rate_limit_exceeded"), "rate_limit", 0.02),
    ("openai", 429, _flat("Please try again in 7m12s.", code="rate_limit_exceeded"), "rate_limit", 432),
    ("openai", 500, _flat("The server had an error", type="server_error"), "provider", None),
    ("llama.cpp", 503, _flat("Loading model", code=503, type="unavailable_error"), "overloaded", None),
    ("openrouter", 429, _flat("Provider returned error", code=429, metadata={"raw": '{"error": {"message": "Please try again in 2s"}}'}), "rate_limit", 2),
    ("cerebras", 429, {"message": "Tokens per minute limit exceeded - too many tokens processed.", "code": "token_quota_exceeded"}, "rate_limit", None),
    ("groq", 498, _flat("Capacity exceeded"), "overloaded", None),
    ("azure", 429, _flat("exceeded call rate limit. Please retry after 26 seconds.", code="429"), "rate_limit", 26),
    ("mistral", 429, {"object": "error", "message": "Service tier capacity exceeded for this model.", "code": "3505"}, "rate_limit", None),
    ("gemini", 429, _listed(429, "You exceeded your current quota. Please retry in 48.2s.", "RESOURCE_EXHAUSTED", _WAIT_DETAIL), "rate_limit", 48),
    ("gemini", 504, _listed(504, "Deadline", "DEADLINE_EXCEEDED"), "timeout", None),
    ("moonshot", 429, _flat("reached max request: 3, please try again after 1 seconds", type="rate_limit_reached_error"), "rate_limit", 1),
    ("moonshot", 429, _flat("The engine is currently overloaded", type="engine_overloaded_error"), "overloaded", None),
    ("xai", 429, {"code": "Some resource has been exhausted", "error": "Too many requests for team"}, "rate_limit", None),
    ("anthropic", 409, _claude("conflict_error", "no"), "provider", None),
    ("anthropic", 504, _claude("timeout_error", "no"), "timeout", None),
    ("anthropic", 529, _claude("overloaded_error", "Overloaded"), "overloaded", None),
    ("bedrock", 400, {"message": "Too many tokens, please wait before trying again."}, "rate_limit", None),
    ("cloudflare", 520, b"<!DOCTYPE html><title>x | 520</title>", "provider", None),
]  # fmt: skip


def _body(said: Any) -> bytes:
    return said if isinstance(said, bytes) else b"" if said is None else json.dumps(said).encode()


@pytest.mark.parametrize("server, status, said, code", NOT_WORTH_A_TRY)
def test_p19_refused_for_good(server: str, status: int, said: Any, code: str) -> None:
    failure = from_answer(status, {}, _body(said))
    assert (failure.code, failure.retryable) == (code, False), server


@pytest.mark.parametrize("server, status, said, code, wait", WORTH_A_TRY)
def test_p19_worth_another_try(server: str, status: int, said: Any, code: str, wait: float | None) -> None:
    failure = from_answer(status, {}, _body(said))
    assert (failure.code, failure.retryable, failure.retry_after) == (code, True, wait), server


def test_p19_the_more_precise_wait_counts() -> None:
    body = _body(_flat("Please try again in 9s"))
    later = formatdate(time.time() + 30, usegmt=True)
    waits = [from_answer(429, headers, body).retry_after for headers in (
        {"retry-after": "3", "retry-after-ms": "150"}, {"retry-after": "2.5"}, {"retry-after": "1", "retry-after-ms": "0"}, {},
    )]  # fmt: skip
    assert waits == [0.15, 2.5, 0, 9]
    until = from_answer(429, {"retry-after": later}, body).retry_after
    assert until is not None
    assert 25 < until <= 30


def test_p20_a_field_that_was_refused_is_named() -> None:
    detail = {"detail": [{"loc": ["body", "temperature"], "msg": "Input should be less than 2", "type": "less_than"}]}
    assert from_answer(422, {}, _body(detail)).message == "body.temperature: Input should be less than 2"


@pytest.mark.parametrize(
    "code",
    [
        "invalid_image",
        "image_parse_error",
        "image_too_large",
        "empty_image_file",
        "unsupported_image_media_type",
        "failed_to_download_image",
        "data_residency_mismatch",
    ],
)
def test_p04_a_response_that_failed_for_what_was_asked(code: str) -> None:
    """The list of codes that a response may fail with; only the server's own troubles pass."""
    failure = from_frame({"code": code, "message": "no"})
    assert (failure.code, failure.retryable) == ("invalid_request", False)


def test_p04_a_response_that_failed_for_its_content() -> None:
    assert from_frame({"code": "image_content_policy_violation", "message": "no"}).code == "content_filter"
    assert from_frame({"code": "bio_policy", "message": "no"}).code == "content_filter"


def test_p20_an_error_behind_a_byte_order_mark() -> None:
    failure = from_answer(429, {}, b"\xef\xbb\xbf" + _body(_flat("pay", code="insufficient_quota")))
    assert (failure.code, failure.message) == ("quota", "pay")
