"""Inputs of any size and shape: they come on top of the memory of cells, and are handed over in pieces."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtree.actors.repl import handing
from runtree.actors.repl.handing import handed
from runtree.messages import ConfigurationError, ReplPolicy
from tests.repl.sessions import Bench, values

TIGHT = ReplPolicy(memory_bytes=2_000_000)


@pytest.mark.parametrize(
    "table, size",
    [
        ([{"id": i, "text": f"row {i}", "v": i * 0.5} for i in range(50_000)], 50_000),
        ([[] for _ in range(100_000)], 100_000),
        ({str(i): i for i in range(100_000)}, 100_000),
        ([{chr(97 + j): j for j in range(20)} for _ in range(5_000)], 5_000),
        (["é" * 3] * 100_000, 100_000),
        ({"a": {"b": ["x" * 5_000_000, "é" * 3_000_000]}}, 1),
        (list(range(500_000)), 500_000),
    ],
    ids=["rows", "lists", "dict", "wide", "texts", "deep", "numbers"],
)
async def test_structured_inputs_come_on_top_of_the_memory(table: Any, size: int) -> None:
    async with Bench().session(TIGHT, inputs={"table": table}) as session:
        assert await values(session, "len(table)", "y = 'a' * 500_000\nlen(y)") == [size, 500_000]


async def test_an_input_that_does_not_fit_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtree.actors.repl.session._VALUE_BYTES", 0)
    async with Bench().session(TIGHT, inputs={"table": [[i] for i in range(100_000)]}) as session:
        with pytest.raises(ConfigurationError, match=r"inputs, table.*memory_bytes"):
            await session.eval_cell("1")


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=40),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=40), inner),
)


@given(JSON, st.integers(300, 3000))
def test_any_value_is_put_together_again(value: Any, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(handing, "PIECE", size)
        found: dict[str, Any] = {}
        for piece in handed("found", value):
            found.update(piece.inputs)
            exec(piece.code, found)  # noqa: S102  # our own code, in our own Python
        assert found["found"] == value


def test_a_piece_is_never_much_larger_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handing, "PIECE", 10_000)
    rows = [{"id": i, "deep": {"text": "x" * i, "list": list(range(i))}} for i in range(100)]
    pieces = list(handed("found", {"rows": rows, "more": [rows, "y" * 50_000]}))
    assert len(pieces) > 100
    assert max(len(repr(dict(piece.inputs))) for piece in pieces) < 15_000
