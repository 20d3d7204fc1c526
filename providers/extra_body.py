"""Further fields of a request's JSON, as settings and profiles give them: all but those that would lift the bound on its answer."""

from collections.abc import Mapping
from typing import Any, Final

from ..messages.errors import ConfigurationError

_LIMITS: Final = ("max_output_tokens", "max_tokens", "max_completion_tokens")
_COUNTS: Final = ("n", "best_of")


def checked_extra_body(
    fields: Mapping[str, Any], where: str = "model_settings.extra_body", limit: str = "max_tokens"
) -> Mapping[str, Any]:
    """Return the fields.

    What a call reserves, and what a bound of the tree lowers, is `max_output_tokens`: a limit sent past it, or several answers in place of one,
    could use more than was reserved.

    Args:
        fields: Fields to be merged into a request.
        where: What they are called in errors.
        limit: What else the limit of an answer is called.

    Raises:
        ConfigurationError: One of them says how long the answer may be, or how many there are.
    """
    for name in (*_LIMITS, limit):
        if name in fields:
            problem = "it would override the limit of the answer that budgets reserve"
            raise ConfigurationError(f"{where}[{name!r}]", problem, "Set model_settings.max_output_tokens instead")
    for name in _COUNTS:
        if name in fields and fields[name] != 1:
            problem = "several answers to one call would use more than budgets reserve, and only the first is read"
            raise ConfigurationError(f"{where}[{name!r}]", problem, "Leave it out, and call the model several times")
    return fields
