"""From a conversation to the messages of a request: who said what, in which order, and what of it goes to this provider."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...messages.content import (
    ContentBlock,
    ImageBlock,
    ProviderDataBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from ...messages.model import ModelRequest
from ...messages.transcript import AssistantMessage, ToolMessage, ToolResult, UserMessage
from ..call_ids import CallIds
from ..pairing import paired
from ..shapes import is_object
from .profile import AnthropicProfile

_NO_IMAGE = "[an image, which this model can't be shown]"
_NO_IMAGE_HERE = "[an image, which can't be shown in a failed result]"
_THOUGHT = ("thinking", "redacted_thinking")
_BEFORE_FALLBACK = ("thinking", "redacted_thinking", "connector_text", "tool_use")


@dataclass
class Turn:
    """What one side said at once."""

    role: str
    blocks: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    results: int = 0
    """How many results of calls it begins with."""

    def add(self, blocks: Iterable[dict[str, Any]], *, results: bool = False) -> None:
        """Add blocks: results before everything else, as the protocol demands."""
        added = list(blocks)
        if results:
            self.blocks[self.results : self.results] = added
            self.results += len(added)
        else:
            self.blocks += added


def turns_of(request: ModelRequest, profile: AnthropicProfile) -> list[Turn]:
    """Return the conversation as it is sent: one turn a side, none empty."""
    turns: list[Turn] = []
    ids = CallIds(profile.call_ids, profile.provider)
    sent: set[str] = set()
    for number, message in paired(request.messages):
        match message:
            case UserMessage():
                _turn(turns, "user").add(_shown(message.content, profile))
            case AssistantMessage():
                ids.begin_turn(message.tool_calls)
                blocks = list(_said(message, profile, ids, thinking=number >= request.thinking_from))
                sent = {block["id"] for block in blocks if block["type"] == "tool_use"}
                _turn(turns, "assistant").add(
                    _closing(message, blocks) if number == len(request.messages) - 1 else blocks
                )
            case ToolMessage():
                results = [_result(result, ids.sent(result.call_id), profile) for result in message.results]
                kept = [result for result in results if result["tool_use_id"] in sent]
                _turn(turns, "user").add(kept, results=True)
    return _joined(turns)


def is_opened(turns: Sequence[Turn]) -> bool:
    """Return whether the turn the model is in began with thinking, or is only about to begin.

    A turn reaches from what the user said last over all calls and results since; words right behind results do not end it.
    """
    first: Turn | None = None
    for turn in reversed(turns):
        if turn.role == "assistant":
            first = turn
        elif not turn.results or (first is not None and len(turn.blocks) > turn.results):
            break
    return first is None or first.blocks[0]["type"] in _THOUGHT


def _turn(turns: list[Turn], role: str) -> Turn:
    """Return the turn to add to: the last one if it is of the same side."""
    if not turns or turns[-1].role != role:
        turns.append(Turn(role))
    return turns[-1]


def _joined(turns: Iterable[Turn]) -> list[Turn]:
    joined: list[Turn] = []
    for turn in turns:
        if turn.blocks:
            _turn(joined, turn.role).add(turn.blocks[: turn.results], results=True)
            joined[-1].add(turn.blocks[turn.results :])
    return joined


def _shown(blocks: Sequence[ContentBlock], profile: AnthropicProfile) -> Iterator[dict[str, Any]]:
    """Translate what is shown to the model; blank texts are refused by the provider and left out."""
    for block in blocks:
        if isinstance(block, TextBlock) and block.text.strip():
            yield {"type": "text", "text": block.text}
        elif isinstance(block, ImageBlock):
            yield _image(block) if profile.images else {"type": "text", "text": _NO_IMAGE}


def _image(block: ImageBlock) -> dict[str, Any]:
    if block.url:
        return {"type": "image", "source": {"type": "url", "url": block.url}}
    return {"type": "image", "source": {"type": "base64", "media_type": block.media_type, "data": block.data}}


def _result(result: ToolResult, call_id: str, profile: AnthropicProfile) -> dict[str, Any]:
    said: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id}
    content = list(_shown(result.content, profile))
    if result.outcome != "ok":
        # A failed result has to say something, and may say it in text only.
        texts = [part if part["type"] == "text" else {"type": "text", "text": _NO_IMAGE_HERE} for part in content]
        content = texts or [{"type": "text", "text": result.outcome}]
        said["is_error"] = True
    if content:
        said["content"] = content
    return said


def _said(
    message: AssistantMessage, profile: AnthropicProfile, ids: CallIds, *, thinking: bool
) -> Iterator[dict[str, Any]]:
    blocks = [block for block in (_own(block, profile, ids) for block in message.content) if block]
    # Where another model took over in the middle of an answer, thoughts and calls of the first one are void.
    fallback = max((at for at, block in enumerate(blocks) if block["type"] == "fallback"), default=-1)
    for at, block in enumerate(blocks):
        if not (at < fallback and block["type"] in _BEFORE_FALLBACK) and (thinking or block["type"] not in _THOUGHT):
            yield block


def _own(block: ContentBlock, profile: AnthropicProfile, ids: CallIds) -> dict[str, Any] | None:
    """Translate a block of the model's own; what another provider made of it stays here."""
    own = getattr(block, "provider", None) == profile.provider
    match block:
        case TextBlock():
            extras = block.extras if own else None
            return {"type": "text", "text": block.text, **(extras or {})} if block.text else None
        case ToolCallBlock():
            # The input has to be an object; the model still sees what it wrote.
            arguments = block.arguments if block.arguments is not None else {"invalid_json": block.arguments_json}
            call = {"type": "tool_use", "id": ids.sent(block.call_id), "name": block.tool_name, "input": arguments}
            return {**call, **((block.extras if own else None) or {})}
        case ThinkingBlock() if own:
            return _thinking(block, profile)
        case RedactedThinkingBlock() if own and block.data:
            return {"type": "redacted_thinking", "data": block.data}
        case ProviderDataBlock() if own and is_object(block.data) and block.data.get("type"):
            return dict(block.data)
        case _:
            return None


def _thinking(block: ThinkingBlock, profile: AnthropicProfile) -> dict[str, Any] | None:
    said: dict[str, Any] = {"type": "thinking", "thinking": block.text}
    if block.signature:
        said["signature"] = block.signature
    elif not profile.unsigned_thinking or not block.text:
        return None
    return {**said, **(block.extras or {})}


def _closing(message: AssistantMessage, blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the blocks of an assistant's message that nothing follows: it may end neither in white space nor in thinking.

    A paused one is repeated as it is.
    """
    if message.finish_reason == "pause":
        return blocks
    while blocks:
        last = blocks[-1]
        if last["type"] == "text":
            text = last["text"].rstrip()
            if text:
                return [*blocks[:-1], {**last, "text": text}]
        elif last["type"] not in _THOUGHT:
            return blocks
        blocks = blocks[:-1]
    return blocks
