"""The usage object of the responses protocol in the normal form, and the charge where a server reports one."""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from ...messages.usage import Cost, Usage
from ..fold import UNKNOWN_USAGE
from ..shapes import as_count, as_object

_TICKS = Decimal(10) ** -10
"""USD in one of the units that one server charges in."""


def read_usage(raw: Mapping[str, Any]) -> Usage:
    """Return the usage: input and output are gross already, and what is not reported stays unknown."""
    entered, left = as_count(raw.get("input_tokens")), as_count(raw.get("output_tokens"))
    if entered is None and left is None:
        return UNKNOWN_USAGE
    read = as_object(raw.get("input_tokens_details"))
    written = as_object(raw.get("output_tokens_details"))
    return Usage(
        input_tokens=entered,
        output_tokens=left,
        cache_read_tokens=as_count(read.get("cached_tokens")),
        cache_write_tokens=as_count(read.get("cache_write_tokens")),
        reasoning_tokens=as_count(written.get("reasoning_tokens")),
        precision="unknown" if entered is None or left is None else "exact",
    )


def read_cost(raw: Mapping[str, Any]) -> Cost | None:
    """Return the charge in USD where the server reports one."""
    for field, unit in (("cost", Decimal(1)), ("cost_in_usd_ticks", _TICKS)):
        amount = _amount(raw.get(field))
        if amount is not None:
            return Cost(amount=amount * unit)
    return None


def _amount(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        amount = Decimal(str(value))
    except (InvalidOperation, ValueError):
        return None
    return amount if amount.is_finite() and amount >= 0 else None
