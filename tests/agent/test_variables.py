"""Variables in the object store: what Ray says when it can't keep them, or has lost them, is said in our own words."""

import threading
from typing import Any

import pytest
from ray.exceptions import ObjectLostError, ObjectStoreFullError

from runtree import Agent
from runtree.actors.agent import AgentSet
from runtree.actors.variables import StoredVariable, stored
from runtree.messages import ReplPolicy
from runtree.messages.errors import NotPicklableError, RuntimeUnavailableError

AGENTS = AgentSet.of(Agent("reader", model="openai:gpt-5", repl=ReplPolicy()))


def refuse(_: Any) -> None:
    raise ObjectStoreFullError("full")


async def lost() -> bytes:
    raise ObjectLostError("0" * 56, None, "")


async def test_a_full_store_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.put", refuse)
    with pytest.raises(RuntimeUnavailableError, match=r"variables: the object store has no room .*object_store_memory"):
        await stored({"text": "long"}, AGENTS)


async def test_a_value_that_can_not_be_pickled_is_named() -> None:
    with pytest.raises(NotPicklableError, match="variables, text"):
        await stored({"text": threading.Lock()}, AGENTS)


async def test_a_lost_variable_is_an_unavailable_part() -> None:
    with pytest.raises(RuntimeUnavailableError, match="variables"):
        await StoredVariable(lost()).get()
