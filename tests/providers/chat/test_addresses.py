"""Where each dialect is reached and with which key, and what a user writes for a gateway of their own."""

import pytest
from pydantic import ValidationError

from runtree.messages.errors import ConfigurationError
from runtree.messages.model import Completed, ModelEvent, ModelRequest, ModelSettings
from runtree.messages.transcript import Message, UserMessage
from runtree.providers import OpenAIChat, registry, resolve
from runtree.providers.chat import dialects as known
from runtree.providers.chat.profile import ChatProfile, ModelRule
from runtree.providers.protocol import NeedsSecrets
from tests.kit.loopback import Answer, Loopback, Route, send

from ..answers import call, chunk, stream
from .conversation import TOOL, answer_of, body, turn

_HOSTED = {
    "azure": ("https://me.openai.azure.com/openai/v1", "AZURE_OPENAI_API_KEY"),
    "cerebras": ("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    "databricks": ("https://me.databricks.com/serving-endpoints", "DATABRICKS_TOKEN"),
    "deepseek": ("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "fireworks": ("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    "gemini": ("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "groq": ("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "huggingface": ("https://router.huggingface.co/v1", "HF_TOKEN"),
    "mistral": ("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "moonshot": ("https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
    "openrouter": ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "qwen": ("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"),
    "together": ("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "vercel": ("https://ai-gateway.vercel.sh/v1", "AI_GATEWAY_API_KEY"),
    "xai": ("https://api.x.ai/v1", "XAI_API_KEY"),
    "zai": ("https://api.z.ai/api/paas/v4", "ZAI_API_KEY"),
}
_LOCAL = {
    "llama.cpp": "http://localhost:8080/v1",
    "ollama": "http://localhost:11434/v1",
    "sglang": "http://localhost:30000/v1",
    "vllm": "http://localhost:8000/v1",
}


def _resolved(prefix: str) -> OpenAIChat:
    model = resolve(f"{prefix}:m/1:free")
    assert isinstance(model, OpenAIChat)
    assert model.profile.model == "m/1:free"
    assert model.profile.provider == prefix
    return model


@pytest.mark.parametrize("prefix", _HOSTED)
def test_model_strings_of_hosted_servers(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://me.openai.azure.com/")
    monkeypatch.setenv("DATABRICKS_HOST", "me.databricks.com")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1")
    model, (base_url, secret) = _resolved(prefix), _HOSTED[prefix]
    assert isinstance(model, NeedsSecrets)
    assert (model.secret_names, model.key_required) == ((secret,), True)
    assert base_url in repr(model)


@pytest.mark.parametrize("prefix", _LOCAL)
def test_model_strings_of_local_servers(prefix: str) -> None:
    model = _resolved(prefix)
    assert not model.key_required
    assert _LOCAL[prefix] in repr(model)


def test_every_dialect_has_a_model_string() -> None:
    named = {prefix for prefix, path in registry.registered().items() if ".chat.named:" in path}
    others = {"openai", "openai-compatible"}
    assert named == {profile.provider for profile in known.DIALECTS} - others == {*_HOSTED, *_LOCAL}


def test_an_address_in_the_environment_comes_before_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_BASE_URL", "http://gpu-7:9000/v1")
    assert "http://gpu-7:9000/v1" in repr(_resolved("vllm"))
    given = OpenAIChat("m", profile=known.VLLM, base_url="http://gpu-8:9000/v1")
    assert "gpu-8" in repr(given)


def test_no_key_goes_to_an_address_that_nobody_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT", raising=False)
    with pytest.raises(ConfigurationError, match="AZURE_OPENAI_ENDPOINT") as caught:
        resolve("azure:chat")
    assert caught.value.field == "base_url"
    with pytest.raises(ConfigurationError, match="no address"):
        OpenAIChat("m", profile=ChatProfile(provider="acme", secret_name="ACME_API_KEY"))


async def _ask(model: OpenAIChat, *messages: Message) -> list[ModelEvent]:
    request = ModelRequest(messages=messages or (UserMessage.of("hi"),), tools=(TOOL,))
    return [event async for event in model.stream(request)]


async def _route(loopback: Loopback, *deltas: dict[str, object]) -> Route:
    return await loopback.route(Answer([send(stream(*map(chunk, deltas), chunk(finish="stop")))]))


async def test_azure_by_deployment(loopback: Loopback) -> None:
    """The older addresses name the deployment and want a version; the key has a header of its own."""
    route = await _route(loopback, {"content": "x"})
    profile = known.AZURE.model_copy(update={"params": {"api-version": "2024-10-21"}})
    base_url = route.base_url + "/openai/deployments/chat"
    await _ask(OpenAIChat("chat", profile=profile, base_url=base_url, api_key="azure-key-1"))
    (request,) = await route.requests()
    assert request["path"].endswith("/openai/deployments/chat/chat/completions?api-version=2024-10-21")
    assert request["headers"]["api-key"] == "azure-key-1"
    assert "authorization" not in request["headers"]


async def test_a_gateway_of_ones_own(loopback: Loopback) -> None:
    """The example of `ChatProfile`: some lines of facts, and its conversation goes on with its reasoning."""
    route = await _route(loopback, {"reasoning_content": "hm"}, call(0, "c1", "get", "{}"))
    acme = ChatProfile(
        provider="acme",
        base_url=route.base_url,
        secret_name="ACME_API_KEY",
        reasoning_replay="reasoning_content",
        replay_turns="tool_calls",
        refused=frozenset({"seed"}),
    )
    model = OpenAIChat("acme-large", profile=acme)
    last = (await _ask(model))[-1]
    assert isinstance(last, Completed)
    await _ask(model, *turn(last.response.message))
    _, second = await route.requests()
    sent = second["json"]["messages"]
    assert sent[1]["reasoning_content"] == "hm"
    assert sent[2] == {"role": "tool", "tool_call_id": "c1", "content": "1"}
    assert "seed" not in body(acme, settings=ModelSettings(seed=7))


def test_rules_of_ones_own() -> None:
    think = ModelRule(models="^deep-", changes={"think_tags": True, "think_tag_names": ["r"], "refused": ["stop"]})
    acme = ChatProfile(provider="acme", rules=(think,))
    said = {"content": "<r>hm</r>x"}
    assert answer_of(acme, said, model="deep-1").reasoning == "hm"
    assert answer_of(acme, said, model="flat-1").text == "<r>hm</r>x"
    settings = ModelSettings(stop=("end",))
    assert "stop" not in body(acme, model="deep-1", settings=settings)
    assert "stop" in body(acme, model="flat-1", settings=settings)


@pytest.mark.parametrize("changes", [{"no_such_field": 1}, {"replay_shape": "no such shape"}])
def test_rules_that_make_no_sense_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ChatProfile(provider="acme", rules=(ModelRule(changes=changes),))


@pytest.mark.parametrize("profile", known.DIALECTS, ids=lambda profile: profile.provider)
def test_profiles_are_values(profile: ChatProfile) -> None:
    assert ChatProfile.from_json(profile.to_json()) == profile
