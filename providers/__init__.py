"""The wire: models of all providers behind one protocol. No Ray.

The names are loaded on first use: an actor whose model is not behind HTTP never imports the HTTP client.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .anthropic.model import AnthropicMessages as AnthropicMessages
    from .anthropic.profile import AnthropicProfile as AnthropicProfile
    from .chat.model import OpenAIChat as OpenAIChat
    from .chat.profile import ChatProfile as ChatProfile
    from .fallback import FallbackModel as FallbackModel
    from .pricing import set_price as set_price
    from .profile import ModelProfile as ModelProfile
    from .profile import Price as Price
    from .protocol import Model as Model
    from .protocol import NeedsSecrets as NeedsSecrets
    from .registry import register_model as register_model
    from .registry import resolve as resolve
    from .responses.model import OpenAIResponses as OpenAIResponses
    from .responses.profile import ResponsesProfile as ResponsesProfile
    from .retry import RetryPolicy as RetryPolicy
    from .scripted import ScriptedModel as ScriptedModel

_HOMES = {
    "AnthropicMessages": "anthropic.model",
    "AnthropicProfile": "anthropic.profile",
    "ChatProfile": "chat.profile",
    "FallbackModel": "fallback",
    "Model": "protocol",
    "ModelProfile": "profile",
    "NeedsSecrets": "protocol",
    "OpenAIChat": "chat.model",
    "OpenAIResponses": "responses.model",
    "Price": "profile",
    "RetryPolicy": "retry",
    "ResponsesProfile": "responses.profile",
    "ScriptedModel": "scripted",
    "register_model": "registry",
    "resolve": "registry",
    "set_price": "pricing",
}

__all__ = [
    "AnthropicMessages",
    "AnthropicProfile",
    "ChatProfile",
    "FallbackModel",
    "Model",
    "ModelProfile",
    "NeedsSecrets",
    "OpenAIChat",
    "OpenAIResponses",
    "Price",
    "ResponsesProfile",
    "RetryPolicy",
    "ScriptedModel",
    "register_model",
    "resolve",
    "set_price",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
