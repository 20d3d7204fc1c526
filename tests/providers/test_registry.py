"""Model strings."""

import pytest

from runtree.messages.errors import ConfigurationError, UnknownModelError
from runtree.providers import OpenAIChat, OpenAIResponses, ScriptedModel, register_model, registry, resolve


@pytest.fixture(autouse=True)
def clean_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_added", {})


def make(name: str) -> ScriptedModel:
    return ScriptedModel([name])


@pytest.mark.parametrize(
    "text, kind",
    [("openai:gpt-x", OpenAIResponses), ("openai-responses:gpt-x", OpenAIResponses), ("openai-chat:gpt-x", OpenAIChat)],
)
def test_strings_become_models(text: str, kind: type) -> None:
    model = resolve(text)
    assert isinstance(model, kind)
    assert model.profile.model == "gpt-x"


def test_a_name_may_hold_colons() -> None:
    assert resolve("openai-chat:llama3:8b").profile.model == "llama3:8b"


def test_a_model_is_itself() -> None:
    model = ScriptedModel([])
    assert resolve(model) is model


@pytest.mark.parametrize("text", ["nobody:x", "gpt-x", "openai:", ":x", ""])
def test_unknown_strings_say_what_is_known(text: str) -> None:
    with pytest.raises(UnknownModelError) as caught:
        resolve(text)
    assert caught.value.field == "model"
    for words in (repr(text), "openai-chat:", "local:", "register_model"):
        assert words in str(caught.value)


def test_users_add_prefixes() -> None:
    register_model("mine", f"{__name__}:make")
    assert isinstance(resolve("mine:x"), ScriptedModel)
    assert "mine" in registry.registered()


def test_registrations_travel() -> None:
    register_model("mine", f"{__name__}:make")
    sent = registry.registered()
    registry._added.clear()
    registry.provide_registrations(sent)
    assert isinstance(resolve("mine:x"), ScriptedModel)


@pytest.mark.parametrize("path", ["no.such.module:x", f"{__name__}:nothing"])
def test_what_cant_be_imported(path: str) -> None:
    register_model("mine", path)
    with pytest.raises(UnknownModelError, match="can't be imported"):
        resolve("mine:x")


@pytest.mark.parametrize(
    "prefix, path", [("My Model", "a:b"), ("", "a:b"), ("mine", "a.b"), ("mine", ":b"), ("mine", "a:")]
)
def test_registrations_of_another_form(prefix: str, path: str) -> None:
    with pytest.raises(ConfigurationError):
        register_model(prefix, path)
