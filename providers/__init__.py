"""The wire: models of all providers behind one protocol. No Ray.

The names are loaded on first use: an actor whose model is not behind HTTP never imports the HTTP client.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .chat.model import OpenAIChat as OpenAIChat
    from .chat.profile import ChatProfile as ChatProfile
    from .fallback import FallbackModel as FallbackModel
    from .profile import ModelProfile as ModelProfile
    from .pricing import set_price as set_price
    from .profile import Price as Price
    from .protocol import Model as Model
    from .protocol import NeedsSecrets as NeedsSecrets
    from .registry import register_model as register_model
    from .retry import RetryPolicy as RetryPolicy
    from .unfold import unfold as unfold
    from .registry import resolve as resolve
    from .scripted import ScriptedModel as ScriptedModel

_HOMES = {
    "ChatProfile": "chat.profile",
    "FallbackModel": "fallback",
    "Model": "protocol",
    "ModelProfile": "profile",
    "NeedsSecrets": "protocol",
    "OpenAIChat": "chat.model",
    "Price": "profile",
    "RetryPolicy": "retry",
    "ScriptedModel": "scripted",
    "unfold": "unfold",
    "register_model": "registry",
    "resolve": "registry",
    "set_price": "pricing",
}

__all__ = [
    "ChatProfile",
    "FallbackModel",
    "Model",
    "ModelProfile",
    "NeedsSecrets",
    "OpenAIChat",
    "Price",
    "RetryPolicy",
    "ScriptedModel",
    "register_model",
    "resolve",
    "set_price",
    "unfold",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
