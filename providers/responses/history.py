"""From the messages of a conversation to the input items of a responses call.

What this provider made goes back as it was served. Its checks bind items together: reasoning has to be followed by what it produced, and what
was produced after reasoning may keep its id only where that reasoning is sent as well. So a message is sent in stretches, each of reasoning
and what follows it, and a stretch whose reasoning can't go back loses its reasoning and its ids.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pydantic_core

from ...messages.content import (
    ContentBlock,
    ImageBlock,
    ProviderDataBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from ...messages.model import ModelRequest
from ...messages.transcript import AssistantMessage, Message, ToolMessage, ToolResult, UserMessage
from ..call_ids import CallIds
from ..pairing import paired
from ..shapes import as_array, as_object
from .profile import ResponsesProfile

_NO_IMAGE = "[an image, which this model can't be shown]"


@dataclass
class _Sent:
    """One item, and what binds it to others."""

    item: dict[str, Any]
    after: int = 0
    """Number of reasoning items it was served after."""
    own: bool = False
    """Whether this provider made it."""
    reasoning: bool = False
    kept_only: bool = False
    """Whether it is nothing without its id."""


def input_items(
    request: ModelRequest, profile: ResponsesProfile, *, reasons: bool | None = None, stored: bool = False
) -> list[dict[str, Any]]:
    """Return the conversation as input items.

    Args:
        request: The call.
        profile: Facts of the server.
        reasons: Whether the model reasons; reasoning goes back unless it is known that it does not.
        stored: Whether the provider remembers its items, so that reasoning can be named by its id alone.
    """
    history = _History(profile, stored)
    items: list[dict[str, Any]] = []
    for number, message in paired(request.messages):
        thinks = reasons is not False and number >= request.thinking_from
        items += history.translate(message, thinks=thinks)
    return items


class _History:
    def __init__(self, profile: ResponsesProfile, stored: bool) -> None:
        self._profile = profile
        self._stored = stored
        self._ids = CallIds(profile.call_ids, profile.provider)
        self._custom: set[str] = set()

    def translate(self, message: Message, *, thinks: bool) -> Iterator[dict[str, Any]]:
        match message:
            case UserMessage():
                content = _content(message.content, images=self._profile.images)
                if content:
                    yield {"role": "user", "content": content}
            case AssistantMessage():
                self._ids.begin_turn(message.tool_calls)
                yield from self._bound(list(self._items(message)), thinks)
            case ToolMessage():
                for result in message.results:
                    yield self._output(result)

    def _output(self, result: ToolResult) -> dict[str, Any]:
        kind = "custom_tool_call_output" if result.call_id in self._custom else "function_call_output"
        shown = self._profile.images and self._profile.image_results
        output = _content(result.content, images=shown)
        return {"type": kind, "call_id": self._ids.sent(result.call_id), "output": output}

    def _bound(self, sent: Sequence[_Sent], thinks: bool) -> Iterator[dict[str, Any]]:
        """Yield the items of a message, stretch by stretch."""
        seen = 0
        whole = not any(each.after for each in sent) or any(each.reasoning for each in sent)
        for reasoning, rest in _stretches(sent):
            seen += len(reasoning)
            keeps = all(self._is_sendable(each.item) for each in reasoning) if reasoning else whole
            if reasoning and not (thinks and keeps and rest and rest[0].own):
                keeps = False
            if reasoning and keeps:
                yield from (each.item for each in reasoning)
            for each in rest:
                if keeps and each.after == seen:
                    yield each.item
                elif not each.kept_only:
                    yield {name: value for name, value in each.item.items() if name not in ("id", "status")}

    def _is_sendable(self, item: dict[str, Any]) -> bool:
        if item.get("encrypted_content") or (self._stored and item.get("id")):
            return True
        return self._profile.reasoning_text and bool(as_array(item.get("content")))

    def _items(self, message: AssistantMessage) -> Iterator[_Sent]:
        seen = 0
        open_message: dict[str, Any] | None = None
        for block in message.content:
            own = getattr(block, "provider", None) == self._profile.provider
            extras = as_object(getattr(block, "extras", None)) if own else {}
            if isinstance(block, TextBlock) and open_message is not None and "part" in extras and "item" not in extras:
                open_message["content"].append(_filled(extras["part"], block.text))
                continue
            open_message = None
            sent = self._item(block, extras, own, seen)
            if sent is None:
                continue
            seen += sent.reasoning
            if isinstance(block, TextBlock) and sent.own:
                open_message = sent.item
            yield sent

    def _item(self, block: ContentBlock, extras: dict[str, Any], own: bool, seen: int) -> _Sent | None:
        item = as_object(extras.get("item"))
        after = extras.get("after")
        after = after if isinstance(after, int) else 0
        match block:
            case ThinkingBlock() if item.get("type") == "reasoning":
                encrypted = {"encrypted_content": block.signature} if block.signature else {}
                return _Sent({**item, **encrypted}, own=True, reasoning=True)
            case TextBlock() if item.get("type") == "message":
                parts = [_filled(extras["part"], block.text)] if "part" in extras else []
                return _Sent({**item, "content": parts}, after, own=True)
            case TextBlock() if block.text:
                return _Sent({"role": "assistant", "content": block.text}, seen)
            case ToolCallBlock():
                return self._call(block, item, extras.get("raw"), after if item else seen)
            case ProviderDataBlock() if own:
                data = as_object(block.data)
                return _Sent(data, seen, own=True, kept_only=True) if data else None
            case _:
                return None

    def _call(self, block: ToolCallBlock, item: dict[str, Any], raw: Any, after: int) -> _Sent:
        named = {"call_id": self._ids.sent(block.call_id), "name": block.tool_name}
        arguments = raw if isinstance(raw, str) else block.arguments_json
        if item.get("type") == "custom_tool_call":
            self._custom.add(block.call_id)
            return _Sent({**item, **named, "input": str((block.arguments or {}).get("input", ""))}, after, own=True)
        self._custom.discard(block.call_id)
        if item.get("type") == "function_call":
            return _Sent({**item, **named, "arguments": arguments}, after, own=True)
        if block.arguments is None:
            # Many servers read the arguments of earlier calls and refuse what is no JSON; the model still sees what was written.
            arguments = pydantic_core.to_json({"invalid_json": block.arguments_json}).decode()
        return _Sent({"type": "function_call", **named, "arguments": arguments}, after)


def _stretches(sent: Sequence[_Sent]) -> Iterator[tuple[list[_Sent], list[_Sent]]]:
    """Yield reasoning that stands together, with what follows it until the next reasoning."""
    reasoning: list[_Sent] = []
    rest: list[_Sent] = []
    for each in sent:
        if each.reasoning:
            if rest:
                yield reasoning, rest
                reasoning, rest = [], []
            reasoning.append(each)
        else:
            rest.append(each)
    if reasoning or rest:
        yield reasoning, rest


def _filled(part: Any, text: str) -> Any:
    """Return a part of a message with its text where it was taken out."""
    for field in ("text", "refusal"):
        if field in as_object(part) and part[field] is None:
            return {**part, field: text}
    return part


def _content(blocks: Sequence[ContentBlock], *, images: bool) -> str | list[dict[str, Any]]:
    if not (images and any(isinstance(block, ImageBlock) for block in blocks)):
        shown = [block for block in blocks if isinstance(block, TextBlock | ImageBlock)]
        return "".join(block.text if isinstance(block, TextBlock) else _NO_IMAGE for block in shown)
    return [part for part in map(_part, blocks) if part]


def _part(block: ContentBlock) -> dict[str, Any] | None:
    match block:
        case TextBlock() if block.text:
            return {"type": "input_text", "text": block.text}
        case ImageBlock():
            url = block.url or f"data:{block.media_type};base64,{block.data}"
            return {"type": "input_image", "image_url": url, "detail": "auto"}
        case _:
            return None
