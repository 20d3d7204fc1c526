"""Reasoning of earlier answers in the shape in which a server wants it back."""

from collections.abc import Sequence
from typing import Any

from ...messages.content import ContentBlock, RedactedThinkingBlock, TextBlock, ThinkingBlock
from .profile import ChatProfile

Thought = ThinkingBlock | RedactedThinkingBlock
"""A block that only the family that made it is sent."""


def reasoning_of(thoughts: Sequence[Thought], profile: ChatProfile) -> dict[str, Any]:
    """Return the fields of a message with its reasoning.

    Args:
        thoughts: The blocks that may be sent.
        profile: Facts of the server.
    """
    field = profile.reasoning_replay
    if field is None or profile.replay_shape in ("thinking_parts", "summary_parts"):
        return {}
    thinking = [block for block in thoughts if isinstance(block, ThinkingBlock)]
    text = "".join(block.text for block in thinking)
    if profile.replay_shape == "details":
        details = [part for block in thinking for part in _details(block, profile.details_field)]
        if details or profile.plain_replay is None:
            return {field: details} if details else {}
        return {profile.plain_replay: text} if text else {}
    sent: dict[str, Any] = {}
    if text or profile.replay_placeholder is not None:
        sent[field] = text or profile.replay_placeholder
    signature = next((block.signature for block in reversed(thinking) if block.signature), None)
    if profile.signature_field and signature:
        sent[profile.signature_field] = signature
    return sent


def parts_of(
    blocks: Sequence[ContentBlock], thoughts: Sequence[Thought], profile: ChatProfile
) -> list[dict[str, Any]] | None:
    """Return text and reasoning as the parts of a message's content, in their order; `None` where text alone will do.

    Args:
        blocks: All blocks of the message.
        thoughts: Those with reasoning that may be sent.
        profile: Facts of the server.
    """
    if not thoughts or profile.replay_shape not in ("thinking_parts", "summary_parts"):
        return None
    parts: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, TextBlock) and block.text:
            parts.append({"type": "text", "text": block.text})
        elif isinstance(block, ThinkingBlock | RedactedThinkingBlock) and block in thoughts:
            parts += _thinking_part(block) if profile.replay_shape == "thinking_parts" else _summary_part(block)
    return parts


def _details(block: ThinkingBlock, field: str) -> list[Any]:
    details = (block.extras or {}).get(field)
    return details if isinstance(details, list) else []


def _thinking_part(block: Thought) -> list[dict[str, Any]]:
    if not isinstance(block, ThinkingBlock) or not (block.text or block.signature):
        return []
    part: dict[str, Any] = {"type": "thinking", "thinking": [{"type": "text", "text": block.text}]}
    return [{**part, "signature": block.signature} if block.signature else part]


def _summary_part(block: Thought) -> list[dict[str, Any]]:
    if isinstance(block, RedactedThinkingBlock):
        summary: dict[str, Any] = {"type": "summary_encrypted_text", "data": block.data}
    else:
        summary = {"type": "summary_text", "text": block.text}
        if block.signature:
            summary["signature"] = block.signature
    return [{"type": "reasoning", "summary": [summary]}]
