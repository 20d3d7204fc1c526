"""The public price list: whose entries are used, steps and dates of a price, and that nothing is fetched (U03, U04)."""

import subprocess
import sys
import tomllib
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from genai_prices.data import providers
from genai_prices.types import (
    ClauseEquals,
    ConditionalPrice,
    ModelInfo,
    ModelPrice,
    StartDateConstraint,
    Tier,
    TieredPrices,
)

from runtree.messages import Usage
from runtree.providers import ModelProfile
from runtree.providers.price_list import LISTED, OLDEST_LIST, find
from runtree.providers.pricing import price

NOW = datetime(2026, 12, 1, tzinfo=UTC)
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "family, model, entry",
    [
        ("openai", "gpt-5", "openai/gpt-5"),
        ("openai", "gpt-5-2025-08-07", "openai/gpt-5"),
        ("azure", "gpt-5-2025-08-07", "azure/gpt-5"),
        ("anthropic", "claude-sonnet-4-5-20250929", "anthropic/claude-sonnet-4-5"),
        ("deepseek", "deepseek-reasoner", "deepseek/deepseek-reasoner"),
        ("gemini", "gemini-2.5-pro", "google/gemini-2.5-pro"),
        ("gemini", "models/gemini-2.5-pro", "google/gemini-2.5-pro"),
        ("groq", "openai/gpt-oss-120b", "groq/openai/gpt-oss-120b"),
        ("mistral", "magistral-medium-2509", "mistral/magistral-medium"),
        ("openrouter", "anthropic/claude-sonnet-4.5", "openrouter/anthropic/claude-sonnet-4.5"),
        ("xai", "grok-4", "x-ai/grok-4-0709"),
        ("moonshot", "kimi-k2-thinking", "moonshotai/kimi-k2-thinking"),
        ("zai", "glm-4.6", "zai/GLM-4.6"),
    ],
)
def test_models_of_families(family: str, model: str, entry: str) -> None:
    found = find(family, model, 0, NOW)
    assert found is not None
    assert (found[1].source, found[1].entry) == ("genai-prices", entry)
    assert found[0].output > 0


@pytest.mark.parametrize(
    "family, model",
    [
        pytest.param("openai-compatible", "gpt-5", id="another-server-with-the-word-in-its-name"),
        pytest.param("vllm", "gpt-5", id="own-server"),
        pytest.param("llama.cpp", "gpt-5", id="own-server-of-another-kind"),
        pytest.param("openai", "gpt-5-of-acme", id="unknown-model"),
        pytest.param("openai", "", id="no-name"),
        pytest.param("openai", "text-embedding-3-small", id="no-price-of-an-answer"),
        pytest.param("openrouter", "deepseek/deepseek-r1:free", id="an-entry-without-prices"),
    ],
)
def test_u03_no_entry_means_unknown(family: str, model: str) -> None:
    assert find(family, model, 0, NOW) is None
    assert price(ModelProfile(provider=family, model=model), Usage(input_tokens=1, output_tokens=1)).amount is None


def test_families_lead_to_providers_of_the_list() -> None:
    assert set(LISTED.values()) <= {provider.id for provider in providers}


def test_every_entry_can_be_used() -> None:
    """Whatever shape an entry has, it gives a price without a negative part, or none."""
    family_of = {provider: family for family, provider in LISTED.items()}
    shapes = 0
    for provider in providers:
        if provider.id not in family_of:
            continue
        for model in provider.models[::5]:
            found = find(family_of[provider.id], model.id, 300_000, NOW)
            shapes += found is not None
    assert shapes > 50


LONG = "claude-sonnet-4-5"


def test_a_long_prompt_costs_more_for_all_its_tokens() -> None:
    """The step is crossed by the whole input, what is cached included."""
    short, long = find("anthropic", LONG, 200_000, NOW), find("anthropic", LONG, 200_001, NOW)
    assert short is not None
    assert long is not None
    assert (short[0].input, long[0].input) == (Decimal(3), Decimal(6))
    profile = ModelProfile(provider="anthropic", model=LONG)
    usage = Usage(input_tokens=250_000, output_tokens=0, cache_read_tokens=250_000)
    assert price(profile, usage).amount == Decimal("0.6") * 250_000 / 10**6


def test_writes_that_are_kept_for_an_hour_have_their_price() -> None:
    """U02: they are part of the writes, and charged once."""
    profile = ModelProfile(provider="anthropic", model=LONG)
    usage = Usage(input_tokens=1000, output_tokens=0, cache_write_tokens=1000, cache_write_1h_tokens=400)
    assert price(profile, usage).amount == (600 * Decimal("3.75") + 400 * 6) / 10**6


def test_a_charge_for_each_request() -> None:
    found = find("perplexity", "sonar", 0, NOW)
    assert found is not None
    assert found[0].per_request
    cost = found[0].cost_of(Usage(input_tokens=0, output_tokens=1))
    assert cost.amount == found[0].per_request + found[0].output / 10**6


@pytest.mark.parametrize(
    "day, rate, as_of", [(1, "4", OLDEST_LIST[1]), (15, "8", date(2026, 11, 15)), (30, "8", date(2026, 11, 15))]
)
def test_u04_a_price_that_changed(monkeypatch: pytest.MonkeyPatch, day: int, rate: str, as_of: date) -> None:
    """The price of the day of the call counts, and says since when it holds."""
    prices = [
        ConditionalPrice(prices=ModelPrice(input_mtok=Decimal(4), output_mtok=Decimal(9))),
        ConditionalPrice(
            StartDateConstraint(date(2026, 11, 15)),
            prices=ModelPrice(input_mtok=TieredPrices(Decimal(8), [Tier(10, Decimal(9))]), output_mtok=Decimal(9)),
        ),
    ]
    (listed,) = (provider for provider in providers if provider.id == "mistral")
    model = ModelInfo(id="changing", match=ClauseEquals("changing"), prices=prices)
    monkeypatch.setattr(listed, "models", [model])
    found = find("mistral", "changing", 5, datetime(2026, 11, day, 12, tzinfo=UTC))
    assert found is not None
    assert (found[0].input, found[1].as_of) == (Decimal(rate), as_of)


def test_the_date_of_the_list_is_that_of_the_oldest_version_allowed() -> None:
    requirements = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert f"genai-prices>={OLDEST_LIST[0]}" in requirements


_OFFLINE = """
import socket, sys

def refuse(*args, **kwargs):
    raise SystemExit("the network was touched")

socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
from decimal import Decimal
from runtree.messages import Usage
from runtree.providers import ModelProfile, Price, price_list, set_price
from runtree.providers.pricing import prepare, price

usage = Usage(input_tokens=1, output_tokens=1)
free = Price(input=Decimal(0), output=Decimal(0))
set_price("openai:own", free)
for profile in (
    ModelProfile(provider="scripted", model="x"),
    ModelProfile(provider="openai", model="gpt-5", price=free),
):
    prepare(profile)
    price(profile, usage)
print("genai_prices" in sys.modules, "httpx" in sys.modules)
prepare(ModelProfile(provider="openai", model="gpt-5"))
price_list._preparing.join()
print("genai_prices.data" in sys.modules)
print(price(ModelProfile(provider="openai", model="gpt-5"), usage).amount)
print(price(ModelProfile(provider="openai", model="own"), usage).amount)
import threading
print(threading.active_count())
"""


def test_the_list_is_loaded_when_it_is_needed_and_from_the_disk() -> None:
    """What has a price of its own never loads it; nothing connects, and no thread is left that would."""
    done = subprocess.run([sys.executable, "-c", _OFFLINE], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False", "False", "True", "0.00001125", "0", "1"]
