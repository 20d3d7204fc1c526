"""The public price list of `genai-prices`, read from the installed package and never from the network.

Its import takes about a tenth of a second and ten megabytes, so it happens with the first call that nothing else prices.
"""

import threading
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ..messages.usage import Pricing
from .profile import Price

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice, PriceCalculation

LISTED: Mapping[str, str] = {
    "anthropic": "anthropic",
    "azure": "azure",
    "baseten": "baseten",
    "bedrock": "aws",
    "cerebras": "cerebras",
    "cohere": "cohere",
    "databricks": "databricks",
    "deepseek": "deepseek",
    "fireworks": "fireworks",
    "gemini": "google",
    "google": "google",
    "groq": "groq",
    "minimax": "minimax",
    "mistral": "mistral",
    "moonshot": "moonshotai",
    "novita": "novita",
    "openai": "openai",
    "openrouter": "openrouter",
    "perplexity": "perplexity",
    "together": "together",
    "vertex": "google",
    "xai": "x-ai",
    "zai": "zai",
    "zhipu": "zhipuai",
}
"""Families of providers, with the provider of the list.

Only these: the list's own search takes any family with a known word in it, and the price of a server "openai-compatible" is not OpenAI's.
"""

OLDEST_LIST = ("0.2.3", date(2026, 11, 10))
"""The oldest version of the list that is accepted, and the day on which it was published: no entry is older than that."""

_PATHS = frozenset({"google"})
"""Providers that also name their models by a path, of which the list has the last part."""


_preparing: threading.Thread | None = None


def prepare(family: str) -> None:
    """Begin to load the list in the background, if the family is in it: its first use would hold up an event loop for a tenth of a second."""
    global _preparing  # once a process
    if _preparing is None and family in LISTED:
        arguments = ("openai", "", datetime.now(UTC))
        _preparing = threading.Thread(target=_calculated, args=arguments, name="runtree prices", daemon=True)
        _preparing.start()


def find(family: str, model: str, input_tokens: int, at: datetime) -> tuple[Price, Pricing] | None:
    """Return the price of a model for a prompt of this length at this time, or `None` if the list has none.

    An entry without a price for input or output counts as none: what it leaves out need not be free.
    """
    provider = LISTED.get(family)
    if provider is None or not model:
        return None
    names = [model, model.rpartition("/")[2]] if provider in _PATHS else [model]
    for name in names:
        found = _calculated(provider, name, at)
        if found is None:
            continue
        price = _as_price(found.model_price, input_tokens)
        return None if price is None else (price, _pricing(found))
    return None


def _calculated(provider: str, model: str, at: datetime) -> "PriceCalculation | None":
    from genai_prices import Usage, calc_price

    try:
        # Only the entry is of interest: it is applied by the same rules as any other price.
        return calc_price(Usage(), model, provider_id=provider, genai_request_timestamp=at)
    except LookupError:
        return None


def _as_price(listed: "ModelPrice", input_tokens: int) -> Price | None:
    def of(key: str) -> Decimal | None:
        return _for_prompt(getattr(listed, key), input_tokens)

    entered, left, requests = of("input_mtok"), of("output_mtok"), of("requests_kcount")
    if entered is None or left is None:
        return None
    return Price(
        input=entered,
        output=left,
        cache_read=of("cache_read_mtok"),
        cache_write=of("cache_write_mtok"),
        cache_write_1h=of("cache_write_1h_mtok"),
        reasoning=of("output_reasoning_mtok"),
        per_request=None if requests is None else requests / 1000,
    )


def _for_prompt(price: Any, input_tokens: int) -> Decimal | None:
    """Return the rate for a prompt of this length: that of the highest step below it, for all of its tokens."""
    if price is None or isinstance(price, Decimal):
        return price
    rate: Decimal = price.base
    for step in price.tiers:
        if input_tokens > step.start:
            rate = step.price
    return rate


def _pricing(found: "PriceCalculation") -> Pricing:
    from genai_prices import __version__

    updated = found.auto_update_timestamp
    known = OLDEST_LIST[1] if updated is None else updated.date()
    return Pricing(
        source="genai-prices",
        as_of=_start_of(found.model, found.model_price) or known,
        entry=f"{found.provider.id}/{found.model.id}",
        version=__version__,
    )


def _start_of(model: "ModelInfo", price: "ModelPrice") -> date | None:
    conditional = model.prices if isinstance(model.prices, list) else []
    constraint = next((each.constraint for each in conditional if each.prices is price), None)
    return getattr(constraint, "start_date", None)
