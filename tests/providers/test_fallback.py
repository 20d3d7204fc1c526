"""Chains of models: case R04."""

import pickle
from typing import Any

import anyio
import pytest

from runtree.messages.content import ImageBlock, TextBlock
from runtree.messages.errors import ConfigurationError, UnknownModelError
from runtree.messages.model import Completed, Discarded, Failed, ModelEvent, ModelRequest, OutputSchema, ToolDefinition
from runtree.messages.transcript import ToolMessage, ToolResult, UserMessage
from runtree.providers import FallbackModel, OpenAIChat
from runtree.providers.profile import ModelProfile
from runtree.providers.protocol import Model, NeedsSecrets
from runtree.providers.retry import NO_RETRIES, RetryPolicy
from runtree.providers.scripted import ScriptedModel

from .test_retry import QUICK, REQUEST, failed

IMAGE = ImageBlock(data="aGk=")
NO_ACCESS = failed("authentication", retryable=False)


def scripted(name: str, *turns: Any, **facts: Any) -> ScriptedModel:
    return ScriptedModel(list(turns), profile=ModelProfile(provider="scripted", model=name, **facts))


async def events_of(model: Model, request: ModelRequest = REQUEST) -> list[ModelEvent]:
    with anyio.fail_after(10):
        return [event async for event in model.stream(request)]


def told(events: list[ModelEvent]) -> list[tuple[str, str | None]]:
    """What was discarded, and who was asked next; then how it ended."""
    discarded = [(event.error.code, event.model) for event in events if isinstance(event, Discarded)]
    last = events[-1]
    return [*discarded, (last.kind, last.response.message.text if isinstance(last, Completed) else None)]


async def test_the_next_is_asked_where_one_fails() -> None:
    chain = FallbackModel(scripted("a", [NO_ACCESS]), scripted("b", ["fine"]), scripted("c"))
    assert told(await events_of(chain)) == [("authentication", "b"), ("completed", "fine")]


async def test_l7_retry_comes_before_fallback() -> None:
    chain = FallbackModel(scripted("a", [failed()], [failed()], [failed()]), scripted("b", ["fine"]), retry=QUICK)
    assert told(await events_of(chain)) == [("overloaded", None)] * 2 + [("overloaded", "b"), ("completed", "fine")]


async def test_r04_a_name_that_is_repeated_is_asked_once() -> None:
    first, second = scripted("a", [NO_ACCESS]), scripted("b", [NO_ACCESS])
    chain = FallbackModel(first, second, first, second, first)
    assert told(await events_of(chain)) == [("authentication", "b"), ("failed", None)]
    assert (len(first.requests), len(second.requests)) == (1, 1)


async def test_the_last_failure_is_the_answer() -> None:
    events = await events_of(
        FallbackModel(scripted("a", [NO_ACCESS]), scripted("b", [failed("quota", retryable=False)]))
    )
    assert isinstance(events[-1], Failed)
    assert events[-1].error.code == "quota"


@pytest.mark.parametrize(
    "lacking, request_",
    [
        ("tools", ModelRequest(messages=REQUEST.messages, tools=(ToolDefinition(name="t", parameters={}),))),
        ("images", ModelRequest(messages=(UserMessage(content=(TextBlock(text="see"), IMAGE)),))),
        (
            "images",
            ModelRequest(
                messages=(
                    ToolMessage(results=(ToolResult(call_id="c", tool_name="t", outcome="ok", content=(IMAGE,)),)),
                )
            ),
        ),
        (
            "native_output_schema",
            ModelRequest(messages=REQUEST.messages, output_schema=OutputSchema(name="o", parameters={})),
        ),
    ],
)
async def test_r04_a_model_that_lacks_what_is_needed_is_skipped_visibly(lacking: str, request_: ModelRequest) -> None:
    able = {"native_output_schema": True}
    unable = scripted("b", **{**able, lacking: False})
    chain = FallbackModel(scripted("a", [NO_ACCESS], **able), unable, scripted("c", ["fine"], **able))
    events = await events_of(chain, request_)
    assert told(events) == [("authentication", "b"), ("invalid_request", "c"), ("completed", "fine")]
    assert not unable.requests
    [skipped] = [event for event in events if isinstance(event, Discarded) and event.error.code == "invalid_request"]
    assert "skipped" in skipped.error.message


async def test_a_missing_key_passes_the_question_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    chain = FallbackModel(OpenAIChat("gpt-5"), scripted("b", ["fine"]))
    assert told(await events_of(chain)) == [("missing_secret", "b"), ("completed", "fine")]


def test_a_chain_names_the_keys_of_its_models_and_can_do_what_they_can() -> None:
    chain = FallbackModel("openai-chat:gpt-5", scripted("b", tools=False, native_output_schema=False))
    assert isinstance(chain, NeedsSecrets)
    assert chain.secret_names == ("OPENAI_API_KEY",)
    assert chain.key_required is False
    assert (chain.profile.model, chain.profile.tools, chain.profile.native_output_schema) == ("gpt-5", True, False)


async def test_a_chain_in_a_chain_stands_in_its_place() -> None:
    inner = FallbackModel(scripted("a", [NO_ACCESS]), scripted("b", [NO_ACCESS]))
    chain = FallbackModel(inner, scripted("c", ["fine"]), retry=NO_RETRIES)
    assert [model.profile.model for model in chain.models] == ["a", "b", "c"]
    assert told(await events_of(chain))[-1] == ("completed", "fine")


async def test_a_chain_pickles() -> None:
    chain = FallbackModel("openai-chat:gpt-5", scripted("b", ["fine"]), retry=RetryPolicy(max_attempts=7))
    assert [model.profile.model for model in chain.models] == ["gpt-5", "b"]
    again = pickle.loads(pickle.dumps(chain))
    assert [model.profile.model for model in again.models] == ["gpt-5", "b"]


def test_bad_chains_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="models"):
        FallbackModel()
    with pytest.raises(UnknownModelError, match="nobody"):
        _ = FallbackModel("nobody:knows").models
