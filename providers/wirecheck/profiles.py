"""The built-in profiles by their names in code."""

from collections.abc import Mapping

from ..chat import dialects
from ..chat.profile import ChatProfile

MODULE = dialects.__name__
"""Where they are imported from."""


def built_in() -> Mapping[str, ChatProfile]:
    """Return every profile that comes along."""
    names = {id(value): name for name, value in vars(dialects).items() if isinstance(value, ChatProfile)}
    return {names[id(profile)]: profile for profile in dialects.DIALECTS}
