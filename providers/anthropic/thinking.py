"""How long a model thinks: what a request asks for, in the words that the model takes."""

from typing import Any, NamedTuple

from ...messages.model import ModelSettings
from .profile import AnthropicProfile, ModelRule

MIN_BUDGET = 1024
"""Least number of tokens that can be given for thinking."""

_OFF = ("none", "off", "disabled")
_WORDS = ("minimal", "low", "medium", "high", "xhigh", "max")
_SHARES = {"minimal": 0.0, "low": 0.2, "medium": 0.5, "high": 0.8, "xhigh": 0.9, "max": 0.95}
_WORD_UP_TO = ((4_096, "low"), (16_384, "medium"), (32_768, "high"))
_ROOM = 4_096
_UNARY_LIMIT = 21_333  # what takes longer than ten minutes to write is not waited for in one piece


class Thinking(NamedTuple):
    """What goes into a request."""

    config: dict[str, Any] | None
    """Value of `thinking`; `None`: it is left out."""
    effort: str | None
    """Value of `output_config.effort`."""
    max_tokens: int
    """Upper bound of the answer, thinking included."""
    active: bool
    """Whether the model will think."""

    @property
    def manual(self) -> bool:
        """Whether it is given a number of tokens, which brings rules of its own."""
        return self.config is not None and self.config["type"] == "enabled"


def thinking_for(settings: ModelSettings, rule: ModelRule, profile: AnthropicProfile, *, opened: bool) -> Thinking:
    """Return how a request is to think.

    Args:
        settings: What was asked for.
        rule: What the model accepts.
        profile: Facts of the server.
        opened: Whether the turn that the model is in begins with thinking, or is only about to begin. A turn that began without
            can't go on with a budget: the provider refuses it.
    """
    unset = rule.max_tokens if settings.stream else min(rule.max_tokens, _UNARY_LIMIT)
    limit = settings.max_output_tokens or unset
    effort, budget = settings.reasoning_effort, settings.reasoning_budget
    if effort in _OFF:
        return _without(rule, profile, limit)
    by_number = rule.budget and not (rule.adaptive and (effort or not budget))
    if by_number:
        return _by_number(settings, effort, budget, limit) if opened else Thinking(None, None, limit, active=False)
    asked = bool(effort or budget)
    if not rule.adaptive or not (asked or rule.thinks_unasked):
        return Thinking(None, None, limit, active=False)
    word = effort or (_word_for(budget) if budget else None)
    return _adaptive(rule, profile, _fitting(word, rule.efforts), limit, asked=asked)


def _without(rule: ModelRule, profile: AnthropicProfile, limit: int) -> Thinking:
    if rule.can_disable:
        return Thinking({"type": "disabled"} if rule.thinks_unasked else None, None, limit, active=False)
    return _adaptive(rule, profile, rule.efforts[0] if rule.efforts else None, limit, asked=True)


def _adaptive(rule: ModelRule, profile: AnthropicProfile, effort: str | None, limit: int, *, asked: bool) -> Thinking:
    config: dict[str, Any] = {"type": "adaptive"}
    if rule.hides_thinking and profile.thinking_display:
        config["display"] = profile.thinking_display
    needed = len(config) > 1 or (asked and not rule.thinks_unasked)
    return Thinking(config if needed else None, effort, limit, active=True)


def _by_number(settings: ModelSettings, effort: str | None, budget: int | None, limit: int) -> Thinking:
    if budget is None and effort is None:
        return Thinking(None, None, limit, active=False)
    if budget is None:
        budget = int(limit * _SHARES.get(effort or "", _SHARES["medium"]))
    elif settings.max_output_tokens is None:
        limit = max(limit, budget + _ROOM)
    budget = min(max(budget, MIN_BUDGET), limit - 1)
    if budget < MIN_BUDGET:
        return Thinking(None, None, limit, active=False)
    return Thinking({"type": "enabled", "budget_tokens": budget}, None, limit, active=True)


def _word_for(budget: int) -> str:
    return next((word for bound, word in _WORD_UP_TO if budget < bound), "xhigh")


def _fitting(word: str | None, known: tuple[str, ...]) -> str | None:
    """Return the model's own word for an effort: the next shorter one it has. A word nobody knows is for the provider to judge."""
    if word is None or word in known or word not in _WORDS:
        return word
    if not known:
        return None
    up_to = _WORDS[: _WORDS.index(word) + 1]
    return next((shorter for shorter in reversed(up_to) if shorter in known), known[0])
