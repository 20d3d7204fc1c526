"""Values on their way out of a cell and back."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtree.actors.repl.marshal import cut_text, plain, plain_whole
from tests.repl.sessions import Bench, only, values

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.dates() | st.complex_numbers(),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text() | st.integers() | st.none(), inner)
    | st.frozensets(st.integers()),
)  # fmt: skip


@pytest.mark.parametrize(
    "code, value",
    [
        ("float('inf'), -float('inf')", [math.inf, -math.inf]),
        ("10**40", 10**40),
        ("-(10**4299)", -(10**4299)),
        ("10**5000", hex(10**5000)),
        ("b'text', 'é'.encode()", ["text", "é"]),
        ("b'\\xff\\x00'", "base64:/wA="),
        ("(1, (2, [3, {4}]))", [1, [2, [3, [4]]]]),
        ("{1: 'a', None: 'b', (1, 2): 'c'}", {"1": "a", "None": "b", "[1, 2]": "c"}),
        ("frozenset([1])", [1]),
        ("...", "Ellipsis"),
        ("1j", "1j"),
        ("'a\\x00b'", "a\x00b"),
        ("x = [1]\nx.append(x)\nx", [1, "[...]"]),
        ("class P:\n  def __init__(self): self.x = (1,)\nP()", {"x": [1]}),
        ("import datetime\ndatetime.date(2026, 1, 2)", "2026-01-02"),
        ("range(3)", "range(0, 3)"),
    ],
)
async def test_e09_values_come_out_as_specified(code: str, value: Any) -> None:
    async with Bench().session() as session:
        assert await values(session, code) == [value]


@pytest.mark.parametrize(
    "code", ["lambda x: x", "print", "int", "import json\njson", "model_query('q')", "answer", "'\\ud800'", "type(1)"]
)
async def test_e09_what_has_no_value_outside_is_described(code: str) -> None:
    async with Bench().session() as session:
        assert isinstance(only(await values(session, code)), str)


async def test_e09_nan_comes_out() -> None:
    async with Bench().session() as session:
        assert math.isnan(only(await values(session, "float('nan')")))


async def test_e09_deep_nesting_never_crashes() -> None:
    async with Bench().session() as session:
        for depth in (10, 200, 2_000, 50_000):
            result = await session.eval_cell(f"a = []\nfor i in range({depth}): a = [a]\na")
            assert result.error is None or result.error.type == "RecursionError"
        assert await values(session, "1") == [1]


async def test_e09_values_pass_through_calls() -> None:
    async with Bench().session() as session:
        code = "await tool_call('echo', value=[1, 2.5, None, True, 'é', {'a': (1,)}, b'x', 10**30])"
        assert await values(session, code) == [[1, 2.5, None, True, "é", {"a": [1]}, "x", 10**30]]


@settings(max_examples=50)
@given(ANYTHING)
def test_e09_anything_becomes_json(value: Any) -> None:
    json.dumps(plain(value))


@settings(max_examples=50)
@given(ANYTHING, st.integers(0, 200))
def test_what_is_kept_has_about_the_size_that_is_allowed(value: Any, limit: int) -> None:
    assert len(json.dumps(plain(value, limit), ensure_ascii=False).encode("utf-8", "replace")) <= 12 * limit + 4500


@given(st.text(), st.integers(0, 50))
def test_text_is_cut_on_characters(text: str, limit: int) -> None:
    kept = cut_text(text, limit)
    assert len(kept.encode()) <= limit
    assert text.encode("utf-8", "replace").decode().startswith(kept)


def test_the_whole_or_an_error() -> None:
    assert plain_whole({"a": (1,)}, 1000, "it") == {"a": [1]}
    with pytest.raises(ValueError, match="it is larger than 10 bytes"):
        plain_whole("a" * 11, 10, "it")
    nested: Any = []
    for _ in range(100):
        nested = [nested]
    with pytest.raises(ValueError, match="nested deeper"):
        plain_whole(nested, 1000, "it")
