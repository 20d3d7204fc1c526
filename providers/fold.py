"""From events to the whole answer: the accumulator that every provider and the scripted model end with."""

from typing import Any

import pydantic_core

from ..messages.content import ContentBlock, TextBlock, ThinkingBlock, ToolCallBlock
from ..messages.model import (
    Discarded,
    ModelEvent,
    ModelResponse,
    ReasoningDelta,
    SignatureDelta,
    Started,
    TextDelta,
    ToolCallDelta,
    UsageDelta,
)
from ..messages.transcript import AssistantMessage, FinishReason
from ..messages.usage import Usage
from .shapes import is_object

UNKNOWN_USAGE = Usage(precision="unknown")
"""What is known of a call that reported nothing."""

_CUT_SHORT = ("length", "content_filter")


class _Text:
    __slots__ = ("extras", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.extras: dict[str, Any] | None = None


class _Thinking:
    __slots__ = ("extras", "pieces", "signature")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.signature: list[str] = []
        self.extras: dict[str, Any] | None = None


class _Call:
    __slots__ = ("call_id", "extras", "name", "pieces")

    def __init__(self, call_id: str, name: str) -> None:
        self.call_id, self.name = call_id, name
        self.pieces: list[str] = []
        self.extras: dict[str, Any] | None = None


def parse_arguments(text: str) -> dict[str, Any] | None:
    """Return a call's arguments, `{}` where the model wrote none, `None` where it wrote no JSON object."""
    stripped = text.strip()
    if stripped in ("", "null"):
        return {}
    try:
        value = pydantic_core.from_json(stripped, allow_inf_nan=False)
    except ValueError:
        return None
    return value if is_object(value) else None


class Fold:
    """Collects events and builds the message they make, blocks in the order in which they began."""

    def __init__(self, provider: str | None = None, model: str | None = None) -> None:
        self.provider = provider
        self.model = model
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.usage = UNKNOWN_USAGE
        self._blocks: list[_Text | _Thinking | _Call | ContentBlock] = []
        self._thinking: dict[int, _Thinking] = {}
        self._calls: dict[str, _Call] = {}
        self._text: _Text | None = None

    def add(self, event: ModelEvent) -> None:
        """Take one event; terminal events add nothing, and what was discarded is forgotten."""
        match event:
            case TextDelta():
                self.text(event.text)
            case ReasoningDelta():
                self.reasoning(event.text, event.index)
            case SignatureDelta():
                self.signature(event.signature, event.index)
            case ToolCallDelta():
                self.call(event.call_id, event.tool_name, event.arguments)
            case UsageDelta():
                self.usage = event.usage
            case Discarded():
                self._begin_anew()
            case Started():
                self.model = event.model or self.model
            case _:
                pass

    def text(self, piece: str) -> None:
        """Add visible text."""
        block = self._text
        if block is None:
            block = self._text = _Text()
            self._blocks.append(block)
        block.pieces.append(piece)

    def begin_text(self) -> None:
        """Let the next text stand in a block of its own, even if text came right before."""
        self._text = None

    def text_extras(self, extras: dict[str, Any]) -> None:
        """Keep what the provider wants to get back with the text block that was added to last; begins one if there is none."""
        self.text("")
        assert self._text is not None
        self._text.extras = extras

    def block(self, block: ContentBlock) -> None:
        """Add a block that came in one piece."""
        self._begin(block)

    def reasoning(self, piece: str, index: int = 0) -> None:
        """Add reasoning to the thinking block of this number."""
        block = self._thinking.get(index)
        if block is None:
            block = self._thinking_block(index)
        block.pieces.append(piece)

    def signature(self, piece: str, index: int = 0) -> None:
        """Add to the signature of the thinking block of this number."""
        self._thinking_block(index).signature.append(piece)

    def thinking_extras(self, index: int, extras: dict[str, Any]) -> None:
        """Keep what the provider wants to get back with the thinking block of this number; begins one if there is none."""
        self._thinking_block(index).extras = extras

    def call(self, call_id: str, name: str, arguments: str = "") -> None:
        """Begin a call, or add to its arguments."""
        call = self._calls.get(call_id)
        if call is None:
            call = self._calls[call_id] = _Call(call_id, name)
            self._begin(call)
        call.pieces.append(arguments)

    def call_extras(self, call_id: str, extras: dict[str, Any]) -> None:
        """Keep what the provider wants to get back with a call that has begun."""
        self._calls[call_id].extras = extras

    @property
    def empty(self) -> bool:
        """Whether nothing was said yet."""
        return not self._blocks

    @property
    def has_calls(self) -> bool:
        """Whether a call has begun."""
        return bool(self._calls)

    @property
    def calls_are_whole(self) -> bool:
        """Whether the arguments of every call are a JSON object."""
        return all(parse_arguments("".join(call.pieces)) is not None for call in self._calls.values())

    def message(self, finish_reason: FinishReason, *, ended: bool = True) -> AssistantMessage:
        """Return the message so far.

        Args:
            finish_reason: Why the answer ended.
            ended: Whether it ended by itself; if not, unfinished calls are marked as truncated.
        """
        truncated = not ended or finish_reason in _CUT_SHORT
        return AssistantMessage(
            content=tuple(self._build(block, truncated) for block in self._blocks),
            model=self.model,
            provider=self.provider,
            finish_reason=finish_reason,
        )

    def partial(self) -> AssistantMessage | None:
        """Return what was said before a failure, if anything was."""
        return None if self.empty else self.message("unknown", ended=False)

    def response(self, finish_reason: FinishReason | None = None, **details: Any) -> ModelResponse:
        """Return the whole answer.

        Args:
            finish_reason: Why it ended; by default as the blocks suggest.
            **details: Further fields of the response.
        """
        reason: FinishReason = finish_reason or ("tool_calls" if self._calls else "stop")
        return ModelResponse(
            message=self.message(reason),
            finish_reason=reason,
            usage=self.usage,
            model=self.model,
            **details,
        )

    def _begin(self, block: _Text | _Thinking | _Call | ContentBlock) -> None:
        self._blocks.append(block)
        self._text = None

    def _thinking_block(self, index: int) -> _Thinking:
        block = self._thinking.get(index)
        if block is None:
            block = self._thinking[index] = _Thinking()
            self._begin(block)
        return block

    def _build(self, block: _Text | _Thinking | _Call | ContentBlock, truncated: bool) -> ContentBlock:
        match block:
            case _Text():
                marked = self.provider if block.extras else None
                return TextBlock(text="".join(block.pieces), extras=block.extras, provider=marked)
            case _Thinking():
                return ThinkingBlock(
                    text="".join(block.pieces),
                    signature="".join(block.signature) or None,
                    extras=block.extras,
                    provider=self.provider,
                )
            case _Call():
                return self._build_call(block, truncated)
            case _:
                return block

    def _build_call(self, call: _Call, truncated: bool) -> ToolCallBlock:
        raw = "".join(call.pieces)
        nothing = raw.strip() in ("", "null")
        arguments = None if truncated and nothing else parse_arguments(raw)
        return ToolCallBlock(
            call_id=call.call_id,
            tool_name=call.name,
            arguments_json="{}" if nothing and arguments is not None else raw,
            arguments=arguments,
            truncated=truncated and arguments is None,
            extras=call.extras,
            provider=self.provider,
        )
