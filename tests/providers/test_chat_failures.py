"""Refusals of a history for its thinking, as the servers of the chat completions protocol word them: case K09."""

import json

import pytest

from runtree.providers.failures import from_answer, from_frame


@pytest.mark.parametrize(
    "message",
    [
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        "thinking is enabled but reasoning_content is missing in assistant tool call message at index 4",
        "preserved thinking (thinking.keep=all) requires reasoning_content on every assistant message, but one has none",
        "assistant message at index 6 is missing reasoning_content",
        "Function call is missing a thought_signature in functionCall parts. This is required for tools to work.",
        "Corrupted thought signature.",
        "Thought signature is not valid.",
        "messages.2.assistant.reasoning_content: property 'messages.2.assistant.reasoning_content' is unsupported",
        "'messages.1' : for 'role:assistant' the following must be satisfied: property 'reasoning_details' is unsupported",
        "messages.1.content.0: Invalid `signature` in `thinking` block",
    ],
)
def test_k09_thinking_that_is_refused(message: str) -> None:
    body = json.dumps({"error": {"message": message, "type": "invalid_request_error"}}).encode()
    failure = from_answer(400, {}, body)
    assert (failure.code, failure.retryable) == ("thinking_rejected", False)
    assert from_frame({"error": {"message": message, "code": 400}}).code == "thinking_rejected"


@pytest.mark.parametrize(
    "raw", ['{"message": "Invalid signature in thinking block"}', "Invalid signature in thinking block"]
)
def test_k09_a_router_repeats_what_the_provider_said(raw: str) -> None:
    error = {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw, "provider_name": "Bedrock"}}
    failure = from_answer(400, {}, json.dumps({"error": error}).encode())
    assert (failure.code, failure.message) == ("thinking_rejected", "Invalid signature in thinking block")


@pytest.mark.parametrize(
    "message",
    [
        "property 'seed' is unsupported",
        "reasoning_effort must be one of low, high",
        "Unrecognized request argument supplied: reasoning",
    ],
)
def test_other_refusals_are_none_of_thinking(message: str) -> None:
    body = json.dumps({"error": {"message": message, "type": "invalid_request_error"}}).encode()
    assert from_answer(400, {}, body).code == "invalid_request"
