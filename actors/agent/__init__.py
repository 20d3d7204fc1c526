"""What a run executes: agents, tools, hooks and the loop. No Ray."""

from .agent import Agent
from .agent_set import AgentSet
from .cancel_flag import CancelFlag
from .context import RunContext, ToolContext
from .loop import AgentRun
from .middleware import Middleware
from .output import parse_output
from .pauses import Pauses
from .retry import Retry
from .tool import Tool, tool

__all__ = [
    "Agent",
    "AgentRun",
    "AgentSet",
    "CancelFlag",
    "Middleware",
    "Pauses",
    "Retry",
    "RunContext",
    "Tool",
    "ToolContext",
    "parse_output",
    "tool",
]
