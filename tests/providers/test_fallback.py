"""Chains of models: case R04."""

import pickle
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from runtree.messages.content import ImageBlock, TextBlock
from runtree.messages.errors import ConfigurationError, UnknownModelError
from runtree.messages.model import Completed, Discarded, Failed, ModelEvent, ModelRequest, OutputSchema, ToolDefinition
from runtree.messages.transcript import ToolMessage, ToolResult, UserMessage
from runtree.messages.usage import Usage
from runtree.providers import FallbackModel, OpenAIChat
from runtree.providers.profile import ModelProfile
from runtree.providers.protocol import Model, NeedsSecrets
from runtree.providers.registry import register_model
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


def test_l7_a_model_that_a_chain_in_the_chain_names_as_well_is_asked_once() -> None:
    first, second = scripted("a"), scripted("b")
    assert FallbackModel(FallbackModel(first, second), first).models == (first, second)
    strings = FallbackModel(FallbackModel("openai-chat:gpt-5"), "openai-chat:gpt-5")
    assert len(strings.models) == 1


def chain_of_itself(name: str) -> FallbackModel:
    return FallbackModel(f"round:{name}", *([scripted("b")] if name == "and-out" else []))


def test_r04_a_registered_chain_that_names_itself_ends() -> None:
    register_model("round", f"{__name__}:chain_of_itself")
    assert [model.profile.model for model in FallbackModel("round:and-out").models] == ["b"]
    with pytest.raises(ConfigurationError, match="back to itself"):
        _ = FallbackModel("round:for-ever").models


@dataclass
class Compared:
    """A model that can't be hashed, as a dataclass can't."""

    profile: ModelProfile

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield NO_ACCESS


async def test_models_need_not_be_hashable() -> None:
    first = Compared(ModelProfile(provider="acme", model="a"))
    assert told(await events_of(FallbackModel(first, scripted("b", ["fine"])))) == [
        ("authentication", "b"),
        ("completed", "fine"),
    ]


async def test_l05_another_name_is_for_the_preferred_model_only() -> None:
    first, second = scripted("a", [NO_ACCESS]), scripted("b", ["fine"])
    await events_of(FallbackModel(first, second), REQUEST.model_copy(update={"model": "a-small"}))
    assert [request.model for request in (*first.requests, *second.requests)] == ["a-small", None]


async def test_u06_what_a_discarded_try_used_is_told() -> None:
    used = Usage(input_tokens=10, output_tokens=1)
    busy, denied = (each.model_copy(update={"usage": used}) for each in (failed(), NO_ACCESS))
    events = await events_of(FallbackModel(scripted("a", [busy], [denied]), scripted("b", ["fine"]), retry=QUICK))
    assert [event.usage for event in events if isinstance(event, Discarded)] == [used, used]


async def test_r04_a_skipped_model_at_the_end_does_not_hide_why_the_others_failed() -> None:
    request = ModelRequest(messages=REQUEST.messages, tools=(ToolDefinition(name="t", parameters={}),))
    unable = [scripted(name, tools=False) for name in "bc"]
    events = await events_of(FallbackModel(scripted("a", [NO_ACCESS]), *unable), request)
    assert told(events) == [
        ("authentication", "b"),
        ("invalid_request", "c"),
        ("invalid_request", None),
        ("failed", None),
    ]
    assert isinstance(events[-1], Failed)
    assert events[-1].error.code == "authentication"
    alone = (await events_of(FallbackModel(*unable), request))[-1]
    assert isinstance(alone, Failed)
    assert "skipped" in alone.error.message
