"""The wire: models of all providers behind one protocol. No Ray.

The names are loaded on first use: an actor whose model is not behind HTTP never imports the HTTP client.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .chat.model import OpenAIChat as OpenAIChat
    from .chat.profile import ChatProfile as ChatProfile
    from .profile import ModelProfile as ModelProfile
    from .profile import Price as Price
    from .protocol import Model as Model
    from .protocol import NeedsSecrets as NeedsSecrets
    from .registry import register_model as register_model
    from .registry import resolve as resolve
    from .scripted import ScriptedModel as ScriptedModel

_HOMES = {
    "ChatProfile": "chat.profile",
    "Model": "protocol",
    "ModelProfile": "profile",
    "NeedsSecrets": "protocol",
    "OpenAIChat": "chat.model",
    "Price": "profile",
    "ScriptedModel": "scripted",
    "register_model": "registry",
    "resolve": "registry",
}

__all__ = [
    "ChatProfile",
    "Model",
    "ModelProfile",
    "NeedsSecrets",
    "OpenAIChat",
    "Price",
    "ScriptedModel",
    "register_model",
    "resolve",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
