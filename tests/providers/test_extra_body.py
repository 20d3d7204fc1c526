"""S8: what budgets reserve for an answer is what is sent as its limit, whatever else goes into the request."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import JsonValue

from runtree import Agent
from runtree.messages.errors import ConfigurationError
from runtree.messages.limits import Limits
from runtree.messages.model import ModelRequest, ModelSettings
from runtree.messages.transcript import UserMessage
from runtree.providers import OpenAIChat
from runtree.providers.anthropic.profile import ANTHROPIC
from runtree.providers.anthropic.request import build_call
from runtree.providers.chat.dialects import GENERIC, OPENAI
from runtree.providers.chat.profile import ChatProfile
from runtree.providers.chat.request import build_body as chat_body
from runtree.providers.responses.profile import OPENAI as RESPONSES
from runtree.providers.responses.request import build_body as responses_body
from tests.kit.host import MemoryTree

BUILDERS: list[Callable[[ModelRequest], dict[str, Any]]] = [
    lambda request: chat_body(request, "m", GENERIC),
    lambda request: chat_body(request, "m", OPENAI),
    lambda request: responses_body(request, "m", RESPONSES),
    lambda request: build_call(request, "m", ANTHROPIC).body,
]
EXTRA: list[tuple[dict[str, JsonValue], str]] = [
    ({"max_tokens": 9_000}, "max_output_tokens instead"),
    ({"max_completion_tokens": 9_000}, "max_output_tokens instead"),
    ({"max_output_tokens": None}, "max_output_tokens instead"),
    ({"n": 4}, "Leave it out"),
    ({"best_of": 4}, "Leave it out"),
]


def asked(**extra: JsonValue) -> ModelRequest:
    settings = ModelSettings(max_output_tokens=50, extra_body=extra)
    return ModelRequest(messages=(UserMessage.of("hi"),), settings=settings)


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize("extra, fix", EXTRA)
def test_s8_no_protocol_lets_further_fields_lift_the_limit(
    build: Callable[[ModelRequest], dict[str, Any]], extra: dict[str, JsonValue], fix: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        build(asked(**extra))
    (name,) = extra
    assert caught.value.field == f"model_settings.extra_body[{name!r}]"
    assert fix in str(caught.value)


@pytest.mark.parametrize("build", BUILDERS)
def test_other_fields_are_sent_as_they_are(build: Callable[[ModelRequest], dict[str, Any]]) -> None:
    assert build(asked(service_tier="flex", n=1)).items() >= {"service_tier": "flex", "n": 1}.items()


def test_s8_a_profile_can_not_lift_the_limit_either() -> None:
    profile = ChatProfile(provider="acme", max_tokens_field="max_new", extra_body={"max_new": 9_000})
    with pytest.raises(ConfigurationError, match=r"profile\.extra_body\['max_new'\]"):
        chat_body(asked(), "m", profile)
    with pytest.raises(ConfigurationError, match=r"extra_body\['max_new'\]"):
        chat_body(asked(max_new=9_000), "m", profile.model_copy(update={"extra_body": {}}))


def test_an_agent_with_such_a_field_is_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigurationError, match=r"agent lead, model_settings\.extra_body\['max_tokens'\]"):
        Agent("lead", "openai:gpt-5", model_settings=ModelSettings(extra_body={"max_tokens": 9}))


async def test_s8_a_call_that_was_changed_on_its_way_is_not_sent_and_reserves_nothing() -> None:
    """Settings copied by hooks are not looked at by the agent's definition."""
    agent = Agent("lead", OpenAIChat("m", base_url="http://127.0.0.1:9/v1"), model_settings=ModelSettings())
    assert agent.model_settings is not None
    agent.model_settings.extra_body["max_tokens"] = 9_000
    tree = MemoryTree(agent, limits=Limits(max_tokens=5_000))
    result = await tree.execute()
    assert result.error is not None
    assert "extra_body['max_tokens']" in result.error.message
    (line,) = tree.registry.budget(result.run_id).lines[:1]
    assert line.limit == "max_tokens"
    assert line.settled + line.reserved == 0
