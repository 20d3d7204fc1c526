"""Variables of a tree between the driver that stores them and the session that fetches them."""

import asyncio
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtree.actors import variables
from tests.repl.test_stalls import ROUNDS, rounds_beside


class Kept:
    """Stands for a reference to the object store."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __await__(self) -> Generator[Any, None, bytes]:
        yield from asyncio.sleep(0).__await__()
        return self._data


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.put", Kept)


async def test_e5_while_100_mb_of_text_are_fetched() -> None:
    found = variables._stored("context", "é" * 50_000_000)
    assert await rounds_beside(found.get()) > ROUNDS


@pytest.mark.parametrize("value", ["", "text", "a\ud800é", "é漢🌍" * 500_000, [1, {"a": None}], {"b": "c"}])
async def test_a_variable_is_what_was_stored(value: Any) -> None:
    assert await variables._stored("context", value).get() == value


@given(st.text(st.characters(codec=None)), st.integers(1, 9))
def test_any_text_survives_in_pieces_of_any_size(text: str, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(variables, "_PIECE", size)
        assert variables._decoded(variables._encoded(text)) == text
