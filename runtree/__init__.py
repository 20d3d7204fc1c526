"""runtree: trees of agents on Ray.

    import runtree
    from runtree import Agent, Runtime, tool

Names are imported on first use, so that `import runtree` is quick and does not import Ray.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .actors.agent.agent import Agent
    from .actors.agent.cancel_flag import CancelFlag
    from .actors.agent.context import RunContext, ToolContext
    from .actors.agent.middleware import Middleware
    from .actors.agent.retry import Retry
    from .actors.agent.tool import Tool, tool
    from .actors.handle import RunHandle
    from .actors.repl.plain import PlainHost
    from .actors.repl.session import ReplSession
    from .actors.runtime import Runtime
    from .actors.sync import SyncRuntime
    from .messages.errors import (
        AddressError,
        AgentDefinitionError,
        ConfigurationError,
        LimitExceededError,
        LocalModelError,
        MissingSecretError,
        NotPicklableError,
        ProviderError,
        ReplCancelledError,
        ReplClosedError,
        ReplError,
        ReplLimitError,
        ReplStoppedError,
        ReplWorkerError,
        RunCancelledError,
        RunError,
        RunFailedError,
        RuntimeClosedError,
        RuntimeUnavailableError,
        RuntreeError,
        StoreError,
        ToolDefinitionError,
        ToolError,
        UnknownModelError,
        UnknownRunError,
        VersionMismatchError,
    )
    from .messages.limits import Limits, ModelLimit
    from .messages.repl import ReplPolicy, ReplResult
    from .messages.result import CancelReport, RunInfo, RunResult
    from .messages.version import VERSION as __version__
    from .providers.registry import register_model
    from .providers.retry import RetryPolicy

__all__ = [
    "AddressError",
    "Agent",
    "AgentDefinitionError",
    "CancelFlag",
    "CancelReport",
    "ConfigurationError",
    "LimitExceededError",
    "Limits",
    "LocalModelError",
    "Middleware",
    "MissingSecretError",
    "ModelLimit",
    "NotPicklableError",
    "PlainHost",
    "ProviderError",
    "ReplCancelledError",
    "ReplClosedError",
    "ReplError",
    "ReplLimitError",
    "ReplPolicy",
    "ReplResult",
    "ReplSession",
    "ReplStoppedError",
    "ReplWorkerError",
    "Retry",
    "RetryPolicy",
    "RunCancelledError",
    "RunContext",
    "RunError",
    "RunFailedError",
    "RunHandle",
    "RunInfo",
    "RunResult",
    "Runtime",
    "RuntimeClosedError",
    "RuntimeUnavailableError",
    "RuntreeError",
    "StoreError",
    "SyncRuntime",
    "Tool",
    "ToolContext",
    "ToolDefinitionError",
    "ToolError",
    "UnknownModelError",
    "UnknownRunError",
    "VersionMismatchError",
    "__version__",
    "register_model",
    "tool",
]

_HOMES: Final = {
    "Agent": "actors.agent.agent",
    "CancelFlag": "actors.agent.cancel_flag",
    "CancelReport": "messages.result",
    "Limits": "messages.limits",
    "Middleware": "actors.agent.middleware",
    "ModelLimit": "messages.limits",
    "PlainHost": "actors.repl.plain",
    "ReplPolicy": "messages.repl",
    "ReplResult": "messages.repl",
    "ReplSession": "actors.repl.session",
    "Retry": "actors.agent.retry",
    "RetryPolicy": "providers.retry",
    "RunContext": "actors.agent.context",
    "RunHandle": "actors.handle",
    "RunInfo": "messages.result",
    "RunResult": "messages.result",
    "Runtime": "actors.runtime",
    "SyncRuntime": "actors.sync",
    "Tool": "actors.agent.tool",
    "ToolContext": "actors.agent.context",
    "__version__": "messages.version",
    "register_model": "providers.registry",
    "tool": "actors.agent.tool",
}
"""Where the public names are defined; what is missing here is an error."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = importlib.import_module(f".{_HOMES.get(name, 'messages.errors')}", __name__)
    value = getattr(home, "VERSION" if name == "__version__" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
