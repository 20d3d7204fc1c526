"""Tokens, where nobody counted them: guessed from what was sent and received."""

from collections.abc import Mapping, Sequence
from typing import Any

import pydantic_core

from ..messages.content import ImageBlock, TextBlock, ThinkingBlock, ToolCallBlock
from ..messages.model import ModelRequest
from ..messages.transcript import Message, ToolMessage
from .profile import IMAGE_TOKENS

_BYTES_PER_TOKEN = 4
"""The rule of thumb for English prose in UTF-8. Code and digits take fewer bytes a token; three bytes of Chinese are about one token."""

_PER_MESSAGE = 16
"""Bytes that stand for what frames a message, a call or a result: roles, ids, separators."""


def tokens_of(size: int) -> int:
    """Return the tokens that so many bytes of UTF-8 are taken for; every begun token counts."""
    return -(-size // _BYTES_PER_TOKEN)


def tokens_of_request(request: ModelRequest, image_tokens: int = IMAGE_TOKENS) -> int:
    """Return the tokens that a request is taken for.

    Args:
        request: Its instructions, tools and messages count, with reasoning, but without signatures.
        image_tokens: Tokens of one image; see `ModelProfile.image_tokens`.
    """
    size, images = size_of(request.instructions), 0
    for tool in request.tools:
        size += _PER_MESSAGE + size_of(tool.name) + size_of(tool.description) + json_size(tool.parameters)
    if request.output_schema is not None:
        size += json_size(request.output_schema.parameters)
    for content in _contents(request.messages):
        size += _PER_MESSAGE
        for block in content:
            if isinstance(block, ImageBlock):
                images += 1
            else:
                size += _block_size(block)
    return tokens_of(size) + images * image_tokens


def _contents(messages: Sequence[Message]) -> list[Sequence[Any]]:
    contents: list[Sequence[Any]] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            contents.extend(result.content for result in message.results)
        else:
            contents.append(message.content)
    return contents


def _block_size(block: Any) -> int:
    if isinstance(block, TextBlock | ThinkingBlock):
        return size_of(block.text)
    if isinstance(block, ToolCallBlock):
        return _PER_MESSAGE + size_of(block.tool_name) + size_of(block.arguments_json)
    return len(block.model_dump_json())


def size_of(text: str) -> int:
    """Return the bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def json_size(value: Mapping[str, Any]) -> int:
    """Return the bytes of a value as JSON."""
    return len(pydantic_core.to_json(value))
