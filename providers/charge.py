"""The charge that some servers report beside the usage."""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from ..messages.usage import Cost
from .shapes import is_object

_TICKS = Decimal(10) ** -10
"""USD in one of the units that one server charges in."""


def read_cost(raw: Mapping[str, Any]) -> Cost | None:
    """Return the charge in USD that a usage object holds, in whatever shape."""
    cost = raw.get("cost")
    if is_object(cost):
        cost = cost.get("total_cost")
    for said, unit in ((cost, Decimal(1)), (raw.get("cost_in_usd_ticks"), _TICKS)):
        amount = _amount(said)
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
