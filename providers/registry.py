"""Model strings: `PREFIX:NAME` to a model object, by way of import paths that users can add to."""

import importlib
import re
from collections.abc import Mapping
from typing import Any

from ..messages.errors import ConfigurationError, UnknownModelError
from .protocol import Model

_PREFIX = re.compile(r"[a-z0-9][a-z0-9_.-]*")

_builtin: Mapping[str, str] = {
    "local": "runtree.providers.local.model:LocalModel",
    "openai": "runtree.providers.responses.model:OpenAIResponses",
    "openai-chat": "runtree.providers.chat.model:OpenAIChat",
    "openai-responses": "runtree.providers.responses.model:OpenAIResponses",
    "anthropic": "runtree.providers.anthropic.model:AnthropicMessages",
    "azure": "runtree.providers.chat.named:azure",
    "cerebras": "runtree.providers.chat.named:cerebras",
    "databricks": "runtree.providers.chat.named:databricks",
    "deepseek": "runtree.providers.chat.named:deepseek",
    "fireworks": "runtree.providers.chat.named:fireworks",
    "gemini": "runtree.providers.chat.named:gemini",
    "groq": "runtree.providers.chat.named:groq",
    "huggingface": "runtree.providers.chat.named:hugging_face",
    "llama.cpp": "runtree.providers.chat.named:llama_cpp",
    "mistral": "runtree.providers.chat.named:mistral",
    "moonshot": "runtree.providers.chat.named:moonshot",
    "ollama": "runtree.providers.chat.named:ollama",
    "openrouter": "runtree.providers.chat.named:openrouter",
    "qwen": "runtree.providers.chat.named:qwen",
    "sglang": "runtree.providers.chat.named:sglang",
    "together": "runtree.providers.chat.named:together",
    "vercel": "runtree.providers.chat.named:vercel",
    "vllm": "runtree.providers.chat.named:vllm",
    "xai": "runtree.providers.chat.named:xai",
    "zai": "runtree.providers.chat.named:zai",
}
_added: dict[str, str] = {}


def register_model(prefix: str, import_path: str) -> None:
    """Make `PREFIX:NAME` a model string.

    Args:
        prefix: Lower-case letters, digits, `.`, `_` and `-`. One that exists already is replaced.
        import_path: `"module:attribute"` of what is called with NAME and returns a model; it is imported on first use, in every
            process that runs the model.

    Raises:
        ConfigurationError: The prefix or the import path has another form.
    """
    if not _PREFIX.fullmatch(prefix):
        raise ConfigurationError("prefix", f"{prefix!r} is no prefix of a model string", "Use a word such as 'acme'")
    module, _, attribute = import_path.partition(":")
    if not (module and attribute):
        raise ConfigurationError("import_path", f"{import_path!r} is no import path", "Write it as 'module:attribute'")
    _added[prefix] = import_path


def registered() -> dict[str, str]:
    """Return every prefix with its import path."""
    return {**_builtin, **_added}


def provide_registrations(registrations: Mapping[str, str]) -> None:
    """Take over the registrations of another process."""
    _added.update(registrations)


def resolve(model: str | Model) -> Model:
    """Return the model that a string names; a model object is returned as it is.

    Raises:
        UnknownModelError: The string has no prefix, or one that nobody registered, or its provider can't be imported.
        ConfigurationError: The provider refuses the name.
    """
    if not isinstance(model, str):
        return model
    prefix, colon, name = model.partition(":")
    known = registered()
    if not colon or not name:
        raise UnknownModelError("model", f"{model!r} is not of the form PREFIX:NAME", _hint(known))
    if prefix not in known:
        raise UnknownModelError("model", f"{model!r} has the unknown prefix {prefix!r}", _hint(known))
    made: Model = _load(model, known[prefix])(name)
    return made


def _hint(known: Mapping[str, str]) -> str:
    names = ", ".join(f"{prefix}:" for prefix in sorted(known))
    return f"Known prefixes: {names}; more can be added with register_model(prefix, 'module:attribute')"


def _load(model: str, import_path: str) -> Any:
    module, _, attribute = import_path.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        problem = f"{import_path!r}, registered for {model!r}, can't be imported ({error})"
        raise UnknownModelError("model", problem, "Install the package, or correct the registration") from error
    return found
