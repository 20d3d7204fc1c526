"""What a call costs: whose word counts, the rules of a price (U02, U03, T5), overrides and dates (U04)."""

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from runtree.messages import Cost, Precision, Pricing, Usage
from runtree.messages.errors import ConfigurationError, RuntreeError
from runtree.providers import ModelProfile, Price, ScriptedModel, pricing, registry, resolve, set_price
from runtree.providers.pricing import find_price, price

PRICE = Price(input=Decimal(2), output=Decimal(10))
RICH = Price(
    input=Decimal(2),
    output=Decimal(10),
    cache_read=Decimal("0.2"),
    cache_write=Decimal("2.5"),
    cache_write_1h=Decimal(4),
    reasoning=Decimal(20),
)
PROFILE = ModelProfile(provider="acme", model="a-1", price=PRICE)
GPT = ModelProfile(provider="openai", model="gpt-5")
TOKENS = Usage(input_tokens=1000, output_tokens=100)
UNKNOWN = Cost(precision="unknown")

_counts = st.none() | st.integers(0, 10**9)
usages = st.builds(
    Usage,
    input_tokens=_counts,
    output_tokens=_counts,
    cache_read_tokens=_counts,
    cache_write_tokens=_counts,
    cache_write_1h_tokens=_counts,
    reasoning_tokens=_counts,
    precision=st.sampled_from(["exact", "estimated", "unknown"]),
)
_rates = st.decimals(0, 1000, places=4)
prices = st.builds(
    Price,
    input=_rates,
    output=_rates,
    cache_read=st.none() | _rates,
    cache_write=st.none() | _rates,
    cache_write_1h=st.none() | _rates,
    reasoning=st.none() | _rates,
    per_request=st.none() | _rates,
)


@pytest.fixture(autouse=True)
def no_overrides() -> Iterator[None]:
    pricing._overrides.clear()
    yield
    pricing._overrides.clear()


@pytest.mark.parametrize(
    "figures, parts",
    [
        pytest.param({}, (1000, 0, 0, 0, 100, 0), id="plain"),
        pytest.param({"cache_read_tokens": 400}, (600, 400, 0, 0, 100, 0), id="read"),
        pytest.param({"cache_write_tokens": 300}, (700, 0, 300, 0, 100, 0), id="write"),
        pytest.param(
            {"cache_write_tokens": 300, "cache_write_1h_tokens": 100}, (700, 0, 200, 100, 100, 0), id="both-kinds"
        ),
        pytest.param({"cache_write_1h_tokens": 100}, (900, 0, 0, 100, 100, 0), id="only-the-part"),
        pytest.param({"reasoning_tokens": 70}, (1000, 0, 0, 0, 30, 70), id="reasoning"),
        pytest.param({"reasoning_tokens": 700}, (1000, 0, 0, 0, 0, 100), id="reasoning-over-output"),
        pytest.param({"cache_read_tokens": 5000}, (0, 1000, 0, 0, 100, 0), id="read-over-input"),
        pytest.param({"cache_read_tokens": 800, "cache_write_tokens": 800}, (0, 800, 200, 0, 100, 0), id="both-over"),
        pytest.param({"cache_write_1h_tokens": 9000}, (0, 0, 0, 1000, 100, 0), id="part-over-input"),
    ],
)
def test_u02_u03_t5_every_token_is_charged_once(figures: dict[str, int], parts: tuple[int, ...]) -> None:
    """What is larger than its total counts as the total."""
    usage = TOKENS.model_copy(update=figures)
    rates = [Decimal(rate) for rate in ("2", "0.2", "2.5", "4", "10", "20")]
    expected = sum((count * rate for count, rate in zip(parts, rates, strict=True)), Decimal(0)) / 1_000_000
    assert RICH.cost_of(usage) == Cost(amount=expected)
    fresh, read, write, hour, plain, reasoning = parts
    assert PRICE.cost_of(usage).amount == (2 * (fresh + read + write + hour) + 10 * (plain + reasoning)) / Decimal(
        10**6
    )


def test_u03_an_hour_in_the_cache_costs_as_any_write_where_nothing_else_is_said() -> None:
    some = RICH.model_copy(update={"cache_write_1h": None})
    usage = TOKENS.model_copy(update={"cache_write_tokens": 1000, "cache_write_1h_tokens": 1000})
    assert some.cost_of(usage).amount == (Decimal("2.5") * 1000 + 1000) / 10**6


@given(prices, usages)
def test_s9_a_cost_is_never_negative_and_never_more_exact_than_its_usage(rates: Price, usage: Usage) -> None:
    cost = rates.cost_of(usage)
    order = ("exact", "estimated", "unknown")
    assert order.index(cost.precision) >= order.index(usage.precision)
    assert (cost.precision == "unknown") or None not in (usage.input_tokens, usage.output_tokens)
    assert (cost.amount is None) == (usage.input_tokens is None and usage.output_tokens is None)
    highest = max(rate for name in Price.model_fields if isinstance(rate := getattr(rates, name), Decimal))
    assert 0 <= (cost.amount or 0) <= usage.tokens * highest / 10**6 + (rates.per_request or 0)


@pytest.mark.parametrize("wrong", ["-1", "nan", "inf"])
def test_a_price_is_an_amount(wrong: str) -> None:
    with pytest.raises(ValidationError):
        Price(input=Decimal(wrong), output=Decimal(1))


@pytest.mark.parametrize(
    "usage, precision",
    [
        (TOKENS, "exact"),
        (TOKENS.model_copy(update={"precision": "estimated"}), "estimated"),
        (TOKENS.model_copy(update={"precision": "unknown"}), "unknown"),
        (Usage(input_tokens=1000), "unknown"),
        (Usage(), "unknown"),
    ],
)
def test_s9_a_cost_is_as_exact_as_its_usage(usage: Usage, precision: Precision) -> None:
    for profile in (PROFILE, GPT):
        cost = price(profile, usage)
        assert (cost.precision, bool(cost.amount)) == (precision, usage.input_tokens is not None)


def test_u04_whose_word_counts() -> None:
    """The charge, then the user's price, then the profile's, then the list's."""
    openai = GPT.model_copy(update={"price": Price(input=Decimal(1), output=Decimal(1))})
    assert price(GPT, TOKENS).priced == Pricing(
        source="genai-prices", as_of=date(2026, 11, 10), entry="openai/gpt-5", version=_version()
    )
    assert price(openai, TOKENS) == Cost(amount=Decimal("0.0011"), priced=Pricing(source="profile"))
    day = date(2026, 5, 1)
    set_price("openai:gpt-5", Price(input=Decimal(3), output=Decimal(0), as_of=day))
    assert price(openai, TOKENS) == Cost(amount=Decimal("0.003"), priced=Pricing(source="override", as_of=day))
    charge = Cost(amount=Decimal("0.5"))
    assert price(openai, TOKENS, charge) == Cost(amount=Decimal("0.5"), priced=Pricing(source="provider"))
    set_price("openai:gpt-5", None)
    assert price(openai, TOKENS).priced == Pricing(source="profile")


def test_u04_a_charge_without_an_amount_is_none() -> None:
    assert price(PROFILE, TOKENS, Cost(precision="unknown")) == price(PROFILE, TOKENS)


def test_u04_the_model_that_answered_is_looked_up_before_the_one_that_was_asked() -> None:
    profile = ModelProfile(provider="acme", model="best")
    set_price("acme:best", PRICE)
    set_price("acme:best-2026-05-01", RICH)
    assert find_price(profile, ["best"], 0) == (PRICE, Pricing(source="override"))
    dated = price(profile, Usage(input_tokens=0, output_tokens=100, reasoning_tokens=100), answered="best-2026-05-01")
    assert dated.amount == Decimal("0.002")
    assert price(profile, TOKENS, requested="other", answered="unheard-of").amount == PRICE.cost_of(TOKENS).amount


def test_u03_nobody_knows_the_price() -> None:
    """Unknown, not zero; nothing used costs nothing."""
    profile = ModelProfile(provider="acme", model="a-1")
    assert price(profile, TOKENS) == UNKNOWN
    assert price(profile, Usage(input_tokens=0, output_tokens=0)) == Cost(amount=Decimal(0))
    assert price(profile, Usage(input_tokens=0, output_tokens=0, precision="estimated")) == UNKNOWN
    assert price(profile, Usage()) == UNKNOWN
    assert price(PROFILE, Usage()) == UNKNOWN


def test_a_local_model_costs_nothing_because_its_profile_says_so() -> None:
    cost = price(resolve("local:smollm2").profile, TOKENS)
    assert cost == Cost(amount=Decimal(0), priced=Pricing(source="profile"))


@pytest.mark.parametrize("wrong", ["gpt-5", ":gpt-5", "openai:", ""])
def test_prices_of_what_is_no_model(wrong: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        set_price(wrong, PRICE)
    assert caught.value.field == "model"


def test_names_may_hold_colons_and_prefixes_stand_for_their_family() -> None:
    set_price("openai-chat:ft:gpt:acme", PRICE)
    found = find_price(GPT, ["ft:gpt:acme"], 0)
    assert found is not None
    assert found[0] == PRICE


def test_prices_travel() -> None:
    """A price that was taken back is taken back on the other side, too."""
    set_price("acme:a-1", RICH)
    sent = pricing.overrides()
    pricing._overrides.clear()
    pricing.provide_overrides(sent)
    assert price(PROFILE, TOKENS).priced == Pricing(source="override")
    set_price("acme:a-1", None)
    taken_back = pricing.overrides()
    pricing.provide_overrides(sent)
    pricing.provide_overrides(taken_back)
    assert price(PROFILE, TOKENS).priced == Pricing(source="profile")


def test_every_prefix_has_the_family_of_its_models() -> None:
    """`set_price` takes a model string: its prefix must lead to the family that the profile names."""
    for prefix in registry.registered():
        try:
            profile = resolve(f"{prefix}:{'smollm2' if prefix == 'local' else 'x'}").profile
        except RuntreeError:  # needs settings that are not here
            continue
        assert pricing._key(prefix, "x") == pricing._key(profile.provider, "x"), f"add {prefix!r} to pricing._FAMILIES"


def test_sums_have_no_source_and_old_json_is_read() -> None:
    cost = price(PROFILE, TOKENS)
    assert (cost + cost).priced is None
    assert Cost.from_json(cost.to_json()) == cost
    assert "priced" not in (cost + cost).to_json()
    assert Cost.from_json('{"amount":"1.5","precision":"exact"}') == Cost(amount=Decimal("1.5"))
    assert "1h" not in TOKENS.to_json()
    assert Usage.from_json('{"input_tokens":1000,"output_tokens":100}') == TOKENS


def test_a_scripted_model_has_no_price_of_the_list() -> None:
    assert price(ScriptedModel([], model="gpt-5").profile, TOKENS) == UNKNOWN


def _version() -> Any:
    from genai_prices import __version__

    return __version__


def test_a_vendor_may_have_a_family_for_each_of_its_protocols() -> None:
    usage = Usage(input_tokens=1000, output_tokens=10)
    chat = ModelProfile(provider="deepseek", model="deepseek-chat")
    messages = ModelProfile(provider="deepseek-messages", vendor="deepseek", model="deepseek-chat")
    assert price(messages, usage) == price(chat, usage)
    assert price(messages, usage).amount
