"""Keys in memory: where models look them up, and how a key given in code travels without standing in a pickle.

A model that was given a key keeps only the name under which this module holds the value. The driver sends the values that a tree's models
name to the tree's actors, as an argument of a call; they are kept in the memory of this module and nowhere else.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

_LONGEST_TEXT = 300
_SHAPES = re.compile(r"(?i)\b(?:sk|pk|rk|key|gsk|xai)-[A-Za-z0-9_-]{8,}|(?<=bearer )[^\s\"']{8,}")
_values: dict[str, str] = {}


def provide(values: Mapping[str, str]) -> None:
    """Make keys known to this process; a later value of a name replaces an earlier one."""
    _values.update(values)


def keep(value: str) -> str:
    """Hold a key that was given in code and return the name it can be looked up by.

    The same key has the same name in every process; the name does not tell the key.
    """
    name = "secret-" + hashlib.blake2b(value.encode(), digest_size=12).hexdigest()
    _values[name] = value
    return name


def look_up(name: str) -> str | None:
    """Return a key that was provided, or else stands in the environment; `None` if neither."""
    return _values.get(name) or os.environ.get(name) or None


def collect(names: Iterable[str]) -> dict[str, str]:
    """Return the keys that are known of these names."""
    found = {name: look_up(name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def redact(text: str) -> str:
    """Return the text with every key this process holds replaced by `***`."""
    for value in _values.values():
        if len(value) >= 6 and value in text:
            text = text.replace(value, "***")
    return text


def redacted(value: Any) -> Any:
    """Return a value of JSON with the same done to all of its texts."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [redacted(each) for each in cast("Iterable[Any]", value)]
    if isinstance(value, dict):
        return {redact(name): redacted(each) for name, each in cast("dict[str, Any]", value).items()}
    return value


def clean(text: str, secret: str | None = None) -> str:
    """Return a text for people: on one line, short, without keys."""
    text = redact(text)
    if secret:
        text = text.replace(secret, "***")
    text = " ".join(_SHAPES.sub("***", text).split())
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"
