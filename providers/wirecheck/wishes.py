"""What the fields of a profile have to be for an endpoint to be understood, and why."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..chat.profile import ChatProfile
from .replays import profile_changes
from .seen import Seen

_PROOF = re.compile(r"(?=.*(signature|opaque|encrypted|thought|extra))[a-z0-9_.-]{1,64}", re.IGNORECASE)
"""Fields of a call that look like data to send back; a name comes from the server and ends in code to paste."""

BREAKS, LOSES = 2, 1
"""Weights of a difference: a conversation fails on it, or something is lost."""


class Wish(NamedTuple):
    """What has to be otherwise in a profile."""

    changes: dict[str, Any]
    """Fields and what they have to be."""
    reason: str
    """What was seen."""
    weight: int
    """How much it matters."""


def wishes(facts: ChatProfile, seen: Seen) -> Iterator[Wish]:
    """Return what would have to change in a profile; nothing where it fits.

    Args:
        facts: The profile as it is for the model, its rules applied.
        seen: What was seen.
    """
    for of in (_role, _bound, _usage, _schema, _tools, _choice, _fields, _tags, _replay, _proof, _kept):
        wish = of(facts, seen)
        if wish is not None:
            yield wish


def _role(facts: ChatProfile, seen: Seen) -> Wish | None:
    system, developer = seen.fields.get("role system"), seen.fields.get("role developer")
    if facts.system_role == "developer" and developer == "refused":
        return Wish({"system_role": "system"}, "the role developer is refused", BREAKS)
    if facts.system_role == "system" and system == "refused" and developer == "accepted":
        return Wish({"system_role": "developer"}, "the role system is refused", BREAKS)
    return None


def _bound(facts: ChatProfile, seen: Seen) -> Wish | None:
    verdict = seen.fields.get(facts.max_tokens_field)
    other = "max_tokens" if facts.max_tokens_field == "max_completion_tokens" else "max_completion_tokens"
    if verdict in ("refused", "ignored") and seen.fields.get(other) in ("honoured", "accepted"):
        weight = BREAKS if verdict == "refused" else LOSES
        return Wish({"max_tokens_field": other}, f"{facts.max_tokens_field} is {verdict}", weight)
    return None


def _usage(facts: ChatProfile, seen: Seen) -> Wish | None:
    if facts.include_usage and seen.fields.get("stream_options") == "refused":
        return Wish({"include_usage": False}, "stream_options is refused", BREAKS)
    if not facts.include_usage and seen.usage.places and seen.usage_unasked is False:
        return Wish({"include_usage": True}, "usage is told when it is asked for", LOSES)
    return None


def _schema(facts: ChatProfile, seen: Seen) -> Wish | None:
    verdict = seen.fields.get("response_format json_schema")
    if facts.native_output_schema and verdict in ("refused", "ignored"):
        weight = BREAKS if verdict == "refused" else LOSES
        return Wish({"native_output_schema": False}, f"response_format json_schema is {verdict}", weight)
    if not facts.native_output_schema and verdict == "honoured":
        return Wish({"native_output_schema": True}, "response_format json_schema is honoured", LOSES)
    return None


def _tools(facts: ChatProfile, seen: Seen) -> Wish | None:
    if facts.tools and seen.fields.get("tools") == "refused":
        return Wish({"tools": False}, "tools are refused", BREAKS)
    return None


def _choice(facts: ChatProfile, seen: Seen) -> Wish | None:
    if seen.fields.get("tool_choice required") == "refused" and facts.tool_choices.get("required", "required"):
        choices = {**facts.tool_choices, "required": None}
        return Wish({"tool_choices": choices}, "tool_choice required is refused", BREAKS)
    return None


def _fields(facts: ChatProfile, seen: Seen) -> Wish | None:
    # Details are read wherever no plain field is filled.
    plain = [name for name in seen.reasoning.fields if name != facts.details_field]
    if not plain or any(name in facts.reasoning_fields for name in plain):
        return None
    fields = tuple(dict.fromkeys((*plain, *facts.reasoning_fields)))
    return Wish({"reasoning_fields": fields}, f"reasoning arrives in {plain[0]}", LOSES)


def _tags(facts: ChatProfile, seen: Seen) -> Wish | None:
    tag = seen.reasoning.tags
    if tag is None or (
        facts.think_tags and tag in facts.think_tag_names and facts.think_opened == seen.reasoning.opened
    ):
        return None
    changes: dict[str, Any] = {"think_tags": True}
    if tag not in facts.think_tag_names:
        changes["think_tag_names"] = (*facts.think_tag_names, tag)
    if seen.reasoning.opened != facts.think_opened:
        changes["think_opened"] = seen.reasoning.opened
    return Wish(changes, f"reasoning arrives in the text, between <{tag}> tags", LOSES)


def _replay(facts: ChatProfile, seen: Seen) -> Wish | None:
    own = facts.reasoning_replay
    verdict = seen.replay.get(own) if own else None
    best = best_replay(seen)
    changes = profile_changes(best, seen.reasoning.part)
    if own and verdict == "refused":
        return Wish(changes, f"a history with {own} is refused", BREAKS)
    if own is None and seen.replay_needed and best:
        return Wish(changes, f"a history without {best} is refused", BREAKS)
    if seen.reasoning.anywhere and best and seen.replay[best] == "honoured" and verdict != "honoured":
        return Wish(changes, f"reasoning sent back in {best} is read", LOSES)
    return None


def _proof(facts: ChatProfile, seen: Seen) -> Wish | None:
    proof = next(iter(seen.reasoning.proofs), None)
    if proof is None or facts.signature_field in seen.reasoning.proofs:
        return None
    return Wish({"signature_field": proof}, f"the proof of reasoning arrives in {proof}", LOSES)


def _kept(facts: ChatProfile, seen: Seen) -> Wish | None:
    extras = seen.calls.extras if seen.calls else ()
    lost = [name for name in extras if name not in facts.kept_fields and _PROOF.fullmatch(name)]
    if not lost:
        return None
    return Wish({"kept_fields": (*facts.kept_fields, *lost)}, f"calls carry {lost[0]}", LOSES)


def best_replay(seen: Seen) -> str | None:
    """Return the field in which reasoning is best sent back, `None` if in none that is known to be taken."""
    taken = [name for name, verdict in seen.replay.items() if verdict != "refused"]
    if seen.reasoning.signed and "reasoning_details" in taken:
        return "reasoning_details"
    read = [name for name in taken if seen.replay[name] == "honoured"]
    same = [name for name in read or taken if name in seen.reasoning.fields]
    return next(iter(same or read or taken), None)
