"""Bounds on models over a namespace, as a driver gives them."""

from collections.abc import Mapping
from typing import Any

from ..messages.errors import ConfigurationError, RuntreeError
from ..messages.limits import ModelLimit
from ..providers.registry import resolve


def checked_model_limits(given: Mapping[str, ModelLimit] | None) -> dict[str, ModelLimit]:
    """Return the bounds by `ModelProfile.key`.

    Args:
        given: By model string, or by key for models that have no string.

    Raises:
        ConfigurationError: A name is none, or a bound is none.
    """
    checked: dict[str, ModelLimit] = {}
    for name, limit in (given or {}).items():
        _check(name, limit)
        key = _key(name)
        checked[key] = limit if key not in checked else checked[key].narrow(limit)
    return checked


def _check(name: Any, limit: Any) -> None:
    if not isinstance(name, str) or not all(name.partition(":")):
        problem = "the name of a model has the form PROVIDER:MODEL"
        raise ConfigurationError(f"Runtime(model_limits), key {name!r}", problem, "Write it as 'openai:gpt-5'")
    field = f"Runtime(model_limits[{name!r}])"
    if not isinstance(limit, ModelLimit):
        problem = f"it is {type(limit).__name__}, not ModelLimit"
        raise ConfigurationError(
            field, problem, "Pass ModelLimit(requests_per_minute=...), concurrency or tokens_per_minute"
        )
    if limit == ModelLimit():
        raise ConfigurationError(
            field, "it bounds nothing", "Pass concurrency, requests_per_minute or tokens_per_minute"
        )


def _key(name: str) -> str:
    """Return the key of the model that a string leads to; any other string is taken for a key."""
    try:
        return resolve(name).profile.key
    except RuntreeError:
        return name
