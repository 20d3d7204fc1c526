"""The messages of a request as a server of the chat completions protocol takes them."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeGuard

import pydantic_core

from ...messages.content import (
    ContentBlock,
    ImageBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from ...messages.model import ModelRequest
from ...messages.transcript import AssistantMessage, Message, ToolMessage, ToolResult, UserMessage
from ..call_ids import CallIds
from ..pairing import paired
from .profile import ChatProfile
from .replay import Thought, parts_of, reasoning_of

_NO_IMAGE = "[an image, which this model can't be shown]"
_NO_ANSWER = "[no answer]"
_NEXT_IMAGE = "[an image, which is shown in the next message]"


class History:
    """Translates the messages of one request.

    Args:
        request: The request; it stays as it is.
        profile: Facts of the server, for this request.
    """

    def __init__(self, request: ModelRequest, profile: ChatProfile) -> None:
        self._request = request
        self._profile = profile
        self._ids = CallIds(profile.call_ids, profile.provider)

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield what is sent."""
        request = self._request
        if request.instructions:
            yield {"role": self._profile.system_role, "content": request.instructions}
        replaying = _replaying(request.messages, self._profile)
        after_tools = False
        for index, message in paired(request.messages):
            if after_tools and isinstance(message, UserMessage) and not self._profile.user_after_tools:
                yield {"role": "assistant", "content": _NO_ANSWER}
            after_tools = isinstance(message, ToolMessage)
            match message:
                case UserMessage():
                    yield {"role": "user", "content": self._content(message.content)}
                case AssistantMessage():
                    yield from self._assistant(message, index in replaying, own=index >= request.thinking_from)
                case ToolMessage():
                    yield from self._results(message)

    def _content(self, blocks: Sequence[ContentBlock]) -> str | list[dict[str, Any]]:
        if not self._profile.images or not any(isinstance(block, ImageBlock) for block in blocks):
            return self._text(blocks, _NO_IMAGE)
        return [part for part in map(_part, blocks) if part]

    def _text(self, blocks: Sequence[ContentBlock], image: str) -> str:
        said = (block.text if isinstance(block, TextBlock) else image for block in blocks if _is_visible(block))
        return "".join(said)

    def _assistant(self, message: AssistantMessage, replays: bool, *, own: bool) -> Iterator[dict[str, Any]]:
        family = self._profile.provider
        calls = message.tool_calls
        self._ids.begin_turn(calls)
        blocks = message.content if own else ()
        thoughts = [block for block in blocks if _is_thought(block) and block.provider == family]
        content = parts_of(message.content, thoughts, self._profile) if replays else None
        said: dict[str, Any] = {"role": "assistant"}
        if content or message.text or not calls:
            said["content"] = content or message.text
        elif self._profile.empty_content != "absent":
            said["content"] = None if self._profile.empty_content == "null" else ""
        if replays:
            said.update(reasoning_of(thoughts, self._profile))
        for block in blocks:
            if isinstance(block, TextBlock) and block.provider == family:
                said.update(self._kept(block))
        if calls:
            said["tool_calls"] = [self._call(call, own, first=not at) for at, call in enumerate(calls)]
        if calls or said["content"] or self._profile.empty_answers:
            yield said

    def _call(self, block: ToolCallBlock, own: bool, *, first: bool) -> dict[str, Any]:
        arguments = block.arguments_json
        if block.arguments is None:
            # Servers read the arguments of earlier calls and refuse what is no JSON; the model still sees what it wrote.
            arguments = pydantic_core.to_json({"invalid_json": block.arguments_json}).decode()
        call: dict[str, Any] = {
            "id": self._ids.sent(block.call_id),
            "type": "function",
            "function": {"name": block.tool_name, "arguments": arguments},
        }
        if not own or block.provider != self._profile.provider:
            call.update(self._profile.foreign_call_extras if first else {})
        else:
            call.update(self._kept(block))
        return call

    def _kept(self, block: TextBlock | ToolCallBlock) -> dict[str, Any]:
        # One family may speak several protocols: what another one of its own keeps with a block would be refused here.
        extras = block.extras or {}
        return {name: extras[name] for name in self._profile.kept_fields if name in extras}

    def _results(self, message: ToolMessage) -> Iterator[dict[str, Any]]:
        shows = self._profile.images and self._profile.user_after_tools
        for result in message.results:
            text = self._text(result.content, _NEXT_IMAGE if shows else _NO_IMAGE)
            yield {"role": "tool", "tool_call_id": self._ids.sent(result.call_id), "content": text}
        # A message between the results of one turn would be refused.
        images = [part for result in message.results for part in _images(result)] if shows else []
        if images:
            yield {"role": "user", "content": images}


def _replaying(messages: Sequence[Message], profile: ChatProfile) -> frozenset[int]:
    """Return which messages reasoning is sent with."""
    if profile.reasoning_replay is None:
        return frozenset()
    starts = [index for index, message in enumerate(messages) if isinstance(message, UserMessage)]
    bounds = [0, *starts, len(messages)]
    stretches = [range(start, end) for start, end in pairwise(bounds)]
    if profile.replay_turns == "since_user":
        stretches = stretches[-1:]
    elif profile.replay_turns == "tool_calls":
        stretches = [stretch for stretch in stretches if any(_has_calls(messages[index]) for index in stretch)]
    return frozenset(index for stretch in stretches for index in stretch)


def _has_calls(message: Message) -> bool:
    return isinstance(message, AssistantMessage) and bool(message.tool_calls)


def _is_thought(block: ContentBlock) -> TypeGuard[Thought]:
    return isinstance(block, ThinkingBlock | RedactedThinkingBlock)


def _is_visible(block: ContentBlock) -> TypeGuard[TextBlock | ImageBlock]:
    return isinstance(block, TextBlock | ImageBlock)


def _part(block: ContentBlock) -> dict[str, Any] | None:
    match block:
        case TextBlock():
            return {"type": "text", "text": block.text} if block.text else None
        case ImageBlock():
            url = block.url or f"data:{block.media_type};base64,{block.data}"
            return {"type": "image_url", "image_url": {"url": url}}
        case _:
            return None


def _images(result: ToolResult) -> list[dict[str, Any]]:
    images = [part for block in result.content if isinstance(block, ImageBlock) and (part := _part(block))]
    return [{"type": "text", "text": f"From the result of {result.tool_name}:"}, *images] if images else []
