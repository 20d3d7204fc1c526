"""Where a prompt is cut for the provider's cache: at the end of the tools, of the instructions, and of the last two things the user said."""

from collections.abc import Sequence
from typing import Any, Literal

from .history import Turn

MAX_BREAKPOINTS = 4
"""Marks a request may have."""

_MARKABLE = ("text", "image", "tool_use", "tool_result")


def mark(
    ttl: Literal["5m", "1h"],
    tools: list[dict[str, Any]],
    system: list[dict[str, Any]],
    turns: Sequence[Turn],
    spare: int,
) -> None:
    """Put the marks into a request. They are no part of what the provider compares, so that they may move from call to call.

    Args:
        ttl: How long the cache shall keep what is before a mark.
        tools: The tools.
        system: The blocks of the instructions.
        turns: The conversation. The mark before the last one finds what the call before wrote, however much came since: the provider
            looks back over 20 blocks only.
        spare: Marks that are set elsewhere.
    """
    control: dict[str, Any] = {"type": "ephemeral"} if ttl == "5m" else {"type": "ephemeral", "ttl": ttl}
    left = MAX_BREAKPOINTS - spare
    for blocks in (tools, system):
        if blocks and left > 0:
            blocks[-1]["cache_control"] = control
            left -= 1
    for turn in reversed(turns):
        if left <= 0:
            return
        if turn.role == "user" or turn is turns[-1]:
            left -= _mark_last(turn, control)


def _mark_last(turn: Turn, control: dict[str, Any]) -> int:
    for block in reversed(turn.blocks):
        # Marked are plain blocks only: what goes back to the provider as it came is not touched.
        if block["type"] in _MARKABLE and "cache_control" not in block:
            block["cache_control"] = control
            return 1
    return 0
