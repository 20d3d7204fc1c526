"""From what was seen to the built-in profile that fits best, with the changes that are left. Pure functions."""

import re
from collections.abc import Mapping
from typing import Any

import httpx
from pydantic import Field

from ...messages.model import ModelSettings
from ...messages.value import Value
from ..chat.dialects import GENERIC
from ..chat.profile import ChatProfile, ModelRule
from .profiles import MODULE, built_in
from .seen import Seen
from .wire import Target
from .wishes import wishes

_FIRST_MARK, _FURTHER_MARK, _SAME_HOST = 5, 1, 20
_NO_MARK = 3
"""What a family without any sign must be better by than the tolerant profile."""
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


class Difference(Value):
    """A field in which the endpoint differs from the built-in profile."""

    field: str
    """Name of the field."""
    built_in: Any
    """Its value in the built-in profile."""
    needed: Any
    """The value that the endpoint needs."""
    reason: str
    """What was seen."""


class Fit(Value):
    """The built-in profile that fits best."""

    name: str
    """Its name in code."""
    module: str = MODULE
    """Where it is imported from."""
    reason: str
    """Why it is this one."""
    differences: tuple[Difference, ...] = ()
    """What the endpoint needs otherwise."""
    notes: Mapping[str, str] = Field(default_factory=dict[str, str])
    """What was seen of fields that are of the endpoint and of no family."""
    next_best: tuple[str, ...] = ()
    """Names of the profiles that fit nearly as well."""
    profile: ChatProfile
    """The profile for this endpoint: the built-in one with the differences."""


def fit(seen: Seen, target: Target, profiles: Mapping[str, ChatProfile] | None = None) -> Fit:
    """Return the built-in profile that fits best.

    Args:
        seen: What was seen.
        target: The endpoint.
        profiles: The profiles to choose from. By default all that are built in.
    """
    known = built_in() if profiles is None else profiles
    scores = {name: _score(profile, seen, target) for name, profile in known.items()}
    order = sorted(known, key=lambda name: (-scores[name], known[name].provider != GENERIC.provider))
    best, *others = order
    profile = known[best]
    facts = profile.facts_for(target.model, ModelSettings())
    differences = tuple(
        Difference(field=name, built_in=getattr(facts, name), needed=value, reason=wish.reason)
        for wish in wishes(facts, seen)
        for name, value in wish.changes.items()
        if value != getattr(facts, name)
    )
    return Fit(
        name=best,
        reason=_reason(profile, seen, target),
        differences=differences,
        notes=_notes(seen, target),
        next_best=tuple(name for name in others if scores[name] >= scores[best] - 1)[:3],
        profile=_adapted(profile, differences, seen, target),
    )


def _adapted(profile: ChatProfile, differences: tuple[Difference, ...], seen: Seen, target: Target) -> ChatProfile:
    changes = {difference.field: difference.needed for difference in differences}
    own = {
        "base_url": target.base_url,
        "base_url_variable": None,
        "base_path": "",
        "secret_name": target.key_name,
        "key_required": bool(target.key_name and seen.key_checked),
        "key_header": target.key_header,
        "thinks": profile.thinks or (seen.reasoning.anywhere and not target.extra_body),
        "extra_body": {**profile.extra_body, **target.extra_body},
        "rules": tuple(_rules(profile, set(changes), target.model)),
    }
    return profile.model_copy(update={**own, **changes})


def _notes(seen: Seen, target: Target) -> dict[str, str]:
    notes: dict[str, str] = {}
    if seen.reasoning.anywhere and not target.extra_body:
        notes["thinks"] = "reasoning came without being asked for"
    if target.extra_body:
        notes["extra_body"] = "as it was given"
    if target.key_name and seen.key_checked:
        notes["key_required"] = "a wrong key is refused"
    return notes


def _rules(profile: ChatProfile, changed: set[str], model: str) -> list[ModelRule]:
    """Return the rules that are about this model, without what was seen otherwise."""
    kept: list[ModelRule] = []
    for rule in profile.rules:
        left = {name: value for name, value in rule.changes.items() if name not in changed}
        if left and re.search(rule.models, model):
            kept.append(rule.model_copy(update={"models": "", "changes": left}))
    return kept


def _score(profile: ChatProfile, seen: Seen, target: Target) -> int:
    marks = len(_marks(profile, seen))
    score = _FIRST_MARK + _FURTHER_MARK * (marks - 1) if marks else 0
    if _same_host(profile, target):
        score += _SAME_HOST
    elif not marks and profile.provider != GENERIC.provider:
        score -= _NO_MARK
    return score - sum(wish.weight for wish in wishes(profile.facts_for(target.model, ModelSettings()), seen))


def _reason(profile: ChatProfile, seen: Seen, target: Target) -> str:
    if _same_host(profile, target):
        return "it is the profile of this address"
    if marks := _marks(profile, seen):
        return f"seen: {', '.join(marks)}"
    if profile.provider == GENERIC.provider:
        return "no sign of a family that has a profile of its own"
    return "no sign of a family, but this one's profile needs the fewest changes"


def _marks(profile: ChatProfile, seen: Seen) -> tuple[str, ...]:
    return seen.marks.get(profile.provider, ())


def _same_host(profile: ChatProfile, target: Target) -> bool:
    host = httpx.URL(target.base_url).host
    return bool(profile.base_url) and host not in _LOCAL and httpx.URL(profile.base_url or "").host == host
