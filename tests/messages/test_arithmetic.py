"""Limits only ever narrow, and sums never show an unknown part as zero (S9)."""

import pickle
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from runtree.messages import NO_COST, NO_USAGE, Cost, Limits, Usage

_counts = st.none() | st.integers(1, 10**6)
_seconds = st.none() | st.floats(0.001, 10**6)
limits = st.builds(
    Limits,
    max_cost=st.none() | st.decimals("0.01", "1000", places=2),
    max_tokens=_counts,
    max_model_calls=_counts,
    max_tool_calls=_counts,
    max_runs=_counts,
    max_depth=st.none() | st.integers(0, 50),
    max_parallel=_counts,
    deadline=_seconds,
    model_call_timeout=_seconds,
    tool_timeout=_seconds,
    stream_idle_timeout=_seconds,
)
_tokens = st.none() | st.integers(0, 10**9)
_precision = st.sampled_from(["exact", "estimated", "unknown"])
usages = st.builds(
    Usage,
    input_tokens=_tokens,
    output_tokens=_tokens,
    cache_read_tokens=_tokens,
    cache_write_tokens=_tokens,
    cache_write_1h_tokens=_tokens,
    reasoning_tokens=_tokens,
    model_calls=st.integers(0, 1000),
    tool_calls=st.integers(0, 1000),
    precision=_precision,
)
costs = st.builds(Cost, amount=st.none() | st.decimals("0", "1000", places=6), precision=_precision)


def _no_wider(narrowed: Any, bound: Any) -> bool:
    return bound is None or (narrowed is not None and narrowed <= bound)


@given(limits, limits)
def test_the_stricter_of_two_limits_wins(outer: Limits, inner: Limits) -> None:
    narrowed = outer.narrow(inner)
    for name in Limits.model_fields:
        got, first, second = (getattr(value, name) for value in (narrowed, outer, inner))
        assert _no_wider(got, first), name
        assert _no_wider(got, second), name
        assert got in (first, second), name


@given(limits, limits)
def test_narrowing_is_symmetric_and_idempotent(first: Limits, second: Limits) -> None:
    assert first.narrow(second) == second.narrow(first)
    assert first.narrow(first) == first
    assert first.narrow(None) == first


def test_money_is_read_exactly_and_misspelt_limits_are_refused() -> None:
    """B: floats do not carry their noise into money."""
    assert Limits(max_cost=2.3).max_cost == Decimal("2.3")  # type: ignore[arg-type]
    assert Limits.model_validate({"max_cost": "2.50"}).max_cost == Decimal("2.50")
    for wrong in ({"max_costs": 1}, {"max_cost": 0}, {"max_runs": 0}, {"deadline": -1}, {"max_depth": -1}):
        with pytest.raises(ValidationError):
            Limits.model_validate(wrong)


@given(usages, usages, usages)
def test_usage_sums_in_any_order(a: Usage, b: Usage, c: Usage) -> None:
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a


@given(usages)
def test_nothing_added_changes_nothing_but_what_was_not_reported(usage: Usage) -> None:
    total = usage + NO_USAGE
    assert total.input_tokens == (usage.input_tokens or 0)
    assert total.precision == usage.precision
    assert total.cache_read_tokens == usage.cache_read_tokens


@given(st.lists(usages, max_size=6))
def test_s9_a_sum_is_as_trustworthy_as_its_worst_part(parts: list[Usage]) -> None:
    total = sum(parts, NO_USAGE)
    order = ("exact", "estimated", "unknown")
    assert total.precision == max((part.precision for part in parts), key=order.index, default="exact")
    assert total.tokens == sum(part.tokens for part in parts)


@given(st.lists(costs, max_size=6))
def test_s9_an_unknown_price_marks_the_sum(parts: list[Cost]) -> None:
    total = sum(parts, NO_COST)
    assert total.amount == sum((part.amount or Decimal(0) for part in parts), Decimal(0))
    assert (total.precision == "unknown") == any(part.precision == "unknown" for part in parts)


def test_unknown_and_unknown_is_unknown() -> None:
    assert Cost(precision="unknown") + Cost(precision="unknown") == Cost(precision="unknown")
    assert (Usage(precision="unknown") + Usage(precision="unknown")).input_tokens is None


@given(usages, costs, limits)
def test_values_pickle(usage: Usage, cost: Cost, limit: Limits) -> None:
    for value in (usage, cost, limit):
        assert pickle.loads(pickle.dumps(value)) == value
