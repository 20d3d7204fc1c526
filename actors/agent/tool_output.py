"""From what a tool returned to what the model reads."""

from collections.abc import Sequence
from typing import Any, cast

from pydantic_core import to_json

from ...messages.content import BLOCK_TYPES, ContentBlock, TextBlock
from ...messages.errors import ToolError
from ...providers.secrets import redact

_ERROR_BYTES = 4096


def render(value: Any, max_output: int) -> tuple[ContentBlock, ...]:
    """Return a tool's value as content: text stays, blocks stay, everything else becomes JSON.

    Raises:
        ToolError: The value can't be written as JSON.
    """
    if isinstance(value, BLOCK_TYPES):
        value = (value,)
    if isinstance(value, list | tuple):
        blocks = cast("Sequence[Any]", value)
        if blocks and all(isinstance(block, BLOCK_TYPES) for block in blocks):
            return _cut_blocks(blocks, max_output)
    return (TextBlock(text=cut(as_text(value), max_output)),)


def as_text(value: Any) -> str:
    """Return a value as a model reads it: text as it is, everything else as JSON.

    Raises:
        ToolError: It can't be written as JSON.
    """
    return value if isinstance(value, str) else _as_json(value)


def cut(text: str, max_bytes: int) -> str:
    """Return the text, cut on a character boundary and with a marker if it is longer than allowed."""
    data = text.encode("utf-8", "replace")
    if len(data) <= max_bytes:
        return data.decode()
    kept = data[:max_bytes].decode("utf-8", "ignore")
    return f"{kept}\n[cut: the first {len(kept.encode())} of {len(data)} bytes]"


def describe(error: BaseException) -> str:
    """Return an exception in one short text without secrets and without its traceback."""
    text = str(error)
    if not isinstance(error, ToolError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return cut(redact(text), _ERROR_BYTES)


def _as_json(value: Any) -> str:
    try:
        return to_json(value, inf_nan_mode="constants").decode()
    except Exception as error:
        raise ToolError(
            f"the tool returned a {type(value).__name__}, which can't be written as JSON ({describe(error)})"
        ) from error


def _cut_blocks(blocks: Sequence[ContentBlock], max_output: int) -> tuple[ContentBlock, ...]:
    kept: list[ContentBlock] = []
    left = max_output
    for block in blocks:
        if isinstance(block, TextBlock):
            text = cut(block.text, left)
            left = max(0, left - len(text.encode()))
            kept.append(TextBlock(text=text))
        else:
            kept.append(block)
    return tuple(kept)
