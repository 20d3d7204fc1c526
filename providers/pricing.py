"""What a model call costs, by the best source there is; unknown, and never zero, where there is none."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal

from ..messages.errors import ConfigurationError
from ..messages.usage import Cost, Pricing, Usage
from . import price_list
from .profile import ModelProfile, Price

_FAMILIES: Mapping[str, str] = {"local": "llama.cpp", "openai-chat": "openai", "openai-responses": "openai"}
"""Prefixes of model strings that are not the family of their models."""

_overrides: dict[str, Price | None] = {}


def set_price(model: str, price: Price | None) -> None:
    """Say what a model costs, in this process and in the actors of trees that are started from now on.

    It beats the model's profile and the price list, not a charge that the provider itself reports.

    Args:
        model: `FAMILY:NAME`, such as a model string. The family is the `provider` of the model's profile; NAME is the name that is asked for
            or the one that the provider answers with, of which the latter is looked up first.
        price: The price; `None` takes back what was set.

    Raises:
        ConfigurationError: The model has another form.
    """
    family, colon, name = model.partition(":")
    if not (family and colon and name):
        raise ConfigurationError("model", f"{model!r} is not of the form FAMILY:NAME", "Write it as 'openai:gpt-5'")
    _overrides[_key(family, name)] = price


def overrides() -> dict[str, Price | None]:
    """Return every price that was set, or taken back, in this process."""
    return dict(_overrides)


def provide_overrides(prices: Mapping[str, Price | None]) -> None:
    """Take over the prices of another process."""
    _overrides.update(prices)


def price(
    profile: ModelProfile,
    usage: Usage,
    reported: Cost | None = None,
    *,
    requested: str | None = None,
    answered: str | None = None,
    at: float | None = None,
) -> Cost:
    """Return what one model call costs.

    The first that is known counts: the provider's charge, a price that was set with `set_price`, the price of the profile, the public price
    list at the time of the call. The cost is as exact as the usage, and says where it comes from.

    Args:
        profile: The model's.
        usage: What the call consumed.
        reported: The provider's charge.
        requested: Model that was asked for, if it is not the profile's.
        answered: Model that answered, as the provider names it.
        at: Seconds since the epoch when the call began; now, if it is not given.
    """
    if reported is not None and reported.amount is not None:
        return reported if reported.priced is not None else _from(reported, Pricing(source="provider"))
    if usage.input_tokens == 0 and usage.output_tokens == 0 and usage.precision == "exact":
        return Cost(amount=Decimal(0))
    if usage.input_tokens is None and usage.output_tokens is None:
        return Cost(precision="unknown")
    names = [name for name in (answered, requested, profile.model) if name]
    found = find_price(profile, list(dict.fromkeys(names)), usage.input_tokens or 0, at)
    return Cost(precision="unknown") if found is None else _from(found[0].cost_of(usage), found[1])


def prepare(profile: ModelProfile) -> None:
    """Get ready in the background to price calls of a model; cheap, and without effect where the price list is not needed."""
    if profile.price is None:
        price_list.prepare(profile.biller)


def find_price(
    profile: ModelProfile, names: Sequence[str], input_tokens: int, at: float | None = None
) -> tuple[Price, Pricing] | None:
    """Return the price of a model and where it comes from, or `None` if nobody knows it.

    Args:
        profile: The model's.
        names: Names it goes by; those that come first are looked up first.
        input_tokens: Length of the prompt, as some prices grow with it.
        at: Seconds since the epoch when the call begins; now, if it is not given.
    """
    for name in names:
        found = _overrides.get(_key(profile.biller, name))
        if found is not None:
            return found, Pricing(source="override", as_of=found.as_of)
    if profile.price is not None:
        return profile.price, Pricing(source="profile", as_of=profile.price.as_of)
    moment = datetime.now(UTC) if at is None else datetime.fromtimestamp(at, UTC)
    listed = (price_list.find(profile.biller, name, input_tokens, moment) for name in names)
    return next((each for each in listed if each is not None), None)


def dearest(profile: ModelProfile, name: str, input_tokens: int) -> tuple[Decimal, Decimal] | None:
    """Return what a call costs at most, in USD: all of its prompt, and one token of its answer; `None` if nobody knows.

    The prompt counts at the dearest of input and cache, the answer at the dearer of output and reasoning; where prices have steps, at the
    dearest step that the prompt may reach.

    Args:
        profile: The model's.
        name: The model's.
        input_tokens: The prompt, at most.
    """
    found = [find_price(profile, [name], length) for length in (0, input_tokens)]
    prices = [each[0] for each in found if each is not None]
    if not prices:
        return None
    entered = max(
        max(
            each
            for each in (price.input, price.cache_read, price.cache_write, price.cache_write_1h)
            if each is not None
        )
        for price in prices
    )
    left = max(max(price.output, price.reasoning or Decimal(0)) for price in prices)
    requests = max(price.per_request or Decimal(0) for price in prices)
    return entered * input_tokens / 1_000_000 + requests, left / 1_000_000


def _from(cost: Cost, pricing: Pricing) -> Cost:
    return cost.model_copy(update={"priced": pricing})


def _key(family: str, name: str) -> str:
    return f"{_FAMILIES.get(family, family)}:{name}"
