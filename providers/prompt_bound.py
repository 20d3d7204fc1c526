"""An upper bound of what a prompt counts for, where it has to be known before anybody counts it: for reservations.

A guess at the mean, as in `estimate`, would be exceeded by every second prompt. One token for each byte is never exceeded by a byte-level
tokenizer, and is four times what English prose takes. In between is what a byte of each kind takes at most in ordinary text: a vocabulary
has words and word pieces for lower-case letters, and nearly nothing for the rest.

Measured with cl100k_base, o200k_base (gpt-tokenizer 4.0.0) and Claude's published tokenizer (anthropic 0.20.0) on 35 kinds of text: the
bound is 2.2 times the tokens of English prose, 2.3 of compact JSON, 2.8 of Python, 1.1 of base64, 1.1 of random characters, and holds for
all but letters without a vowel (0.84) and Amharic with Claude's (0.96). What a run's earlier call was really counted for replaces the bound
of that part of the prompt; see `after`.
"""

from collections.abc import Sequence

from ..messages.content import ContentBlock, ImageBlock, RedactedThinkingBlock, TextBlock, ThinkingBlock, ToolCallBlock
from ..messages.model import ModelRequest
from ..messages.transcript import Message, ToolMessage
from .estimate import json_size
from .profile import ModelProfile

_PER_REQUEST = 64
"""Tokens that a server adds by itself: a date, a role, the begin of the answer."""

_PER_MESSAGE = 16
"""Tokens that frame a message, a call or a result: roles, ids, separators."""

_AT_WORST = 4
"""How many times the tokens of an answer its bound may be; where it is more, the answer is not what was counted."""

_LETTERS = bytes(range(ord("a"), ord("z") + 1))
_SPACES = b" \t\r\n"


def most_tokens(request: ModelRequest, profile: ModelProfile) -> int:
    """Return what a request counts for at most.

    Args:
        request: Its instructions, tools and messages count.
        profile: The model's.
    """
    tokens = _PER_REQUEST + _of_text(request.instructions) + most_tokens_of(request.messages, profile)
    if request.tools:
        tokens += profile.tools_overhead
    for tool in request.tools:
        tokens += _PER_MESSAGE + _of_text(tool.name) + _of_text(tool.description) + json_size(tool.parameters)
    if request.output_schema is not None:
        tokens += json_size(request.output_schema.parameters)
    return tokens


def most_tokens_of(messages: Sequence[Message], profile: ModelProfile) -> int:
    """Return what messages count for at most."""
    tokens = 0
    for message in messages:
        results = message.results if isinstance(message, ToolMessage) else (message,)
        for part in results:
            tokens += _PER_MESSAGE + sum(_of_block(block, profile) for block in part.content)
    return tokens


def after(known: int, answered: int, answer: Message, rest: Sequence[Message], profile: ModelProfile) -> int:
    """Return what a prompt counts for at most that goes on from an earlier one.

    Args:
        known: Input tokens of the earlier call, as the provider counted them.
        answered: Its output tokens.
        answer: Its answer, which is sent back: not more than was counted for it, unless a hook put something else in its place.
        rest: The messages behind the answer.
        profile: The model's.
    """
    bound = most_tokens_of((answer,), profile)
    same = bound <= _AT_WORST * (answered + _PER_MESSAGE)
    return known + (answered + 2 * _PER_MESSAGE if same else bound) + most_tokens_of(rest, profile)


def _of_block(block: ContentBlock, profile: ModelProfile) -> int:
    if isinstance(block, TextBlock):
        return _of_text(block.text)
    if isinstance(block, ImageBlock):
        return profile.image_tokens
    if isinstance(block, ToolCallBlock):
        extras = 0 if block.extras is None else json_size(block.extras)
        return _PER_MESSAGE + _of_text(block.tool_name) + _of_text(block.arguments_json) + extras
    if isinstance(block, ThinkingBlock):
        return _of_text(block.text) + _of_cipher(block.signature or "")
    if isinstance(block, RedactedThinkingBlock):
        return _of_cipher(block.data)
    return _of_text(block.model_dump_json())


def _of_text(text: str) -> int:
    """Return half a token for each lower-case letter and space, and one for every other byte.

    Where spaces stand between nearly all characters, each of both is a token: words are counted there.
    """
    data = text.encode(errors="replace")
    size = len(data)
    light = size - len(data.translate(None, _LETTERS)) + data.count(b" ")
    tokens = size - light // 2
    spaces = size - len(data.translate(None, _SPACES))
    if 2 * spaces >= tokens:
        tokens = max(tokens, spaces + len(data.split()))
    return tokens


def _of_cipher(data: str) -> int:
    # Four characters of base64 are three bytes of what was encrypted, which are at most two tokens of reasoning.
    return -(-len(data) // 2)
