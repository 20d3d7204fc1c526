"""Messages: the append-only history of one run."""

from typing import Annotated, Literal

from pydantic import Discriminator, Field

from .content import ContentBlock, TextBlock, ThinkingBlock, ToolCallBlock
from .value import Value

ToolOutcome = Literal["ok", "error", "invalid", "timeout", "cancelled", "refused", "truncated", "lost"]
"""How a tool call ended.

`error`: the tool raised. `invalid`: unknown tool or bad arguments, nothing was run. `timeout`: its own time ran out. `refused`: a limit
forbids it. `truncated`: the model's answer ended inside the call. `lost`: the process that ran it is gone.
"""

FinishReason = Literal["stop", "tool_calls", "length", "content_filter", "refusal", "pause", "unknown"]
"""Why the model stopped, in one vocabulary for all providers."""


class UserMessage(Value):
    """What the caller said."""

    kind: Literal["user"] = "user"
    content: tuple[ContentBlock, ...]
    """Text and images."""

    @classmethod
    def of(cls, text: str) -> "UserMessage":
        """Return a message of one text block."""
        return cls(content=(TextBlock(text=text),))


class AssistantMessage(Value):
    """What the model said: text, thinking and calls in the order in which the provider sent them."""

    kind: Literal["assistant"] = "assistant"
    content: tuple[ContentBlock, ...]
    """The blocks."""
    model: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """Name of the model that answered."""
    provider: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """Family of the provider that answered."""
    finish_reason: FinishReason = "stop"
    """Why the answer ended."""

    @property
    def text(self) -> str:
        """The visible text; thinking is left out."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def reasoning(self) -> str:
        """The readable reasoning."""
        return "".join(block.text for block in self.content if isinstance(block, ThinkingBlock))

    @property
    def tool_calls(self) -> tuple[ToolCallBlock, ...]:
        """The calls, in order."""
        return tuple(block for block in self.content if isinstance(block, ToolCallBlock))


class ToolResult(Value):
    """The answer to one call."""

    call_id: str
    """Id of the call that is answered."""
    tool_name: str
    """Name of the tool."""
    outcome: ToolOutcome
    """How the call ended."""
    content: tuple[ContentBlock, ...] = ()
    """What the model is told."""
    run_id: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """Id of the sub-agent's run, if the call started one."""

    @property
    def text(self) -> str:
        """The text of the content."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))


class ToolMessage(Value):
    """The answers to all calls of one turn, in call order."""

    kind: Literal["tool"] = "tool"
    results: tuple[ToolResult, ...]
    """One result for every call of the message before."""


Message = Annotated[UserMessage | AssistantMessage | ToolMessage, Discriminator("kind")]
"""Any message of a transcript."""
