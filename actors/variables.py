"""Variables for the REPLs of a tree: put into the object store once by the driver, brought to each node once by Ray."""

import asyncio
import codecs
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..messages.errors import ConfigurationError, NotPicklableError
from .agent import AgentSet
from .pickling import pack, unpack
from .remote import fetch, put

PART: Final = "variables"

_PIECE: Final = 2**20
"""Of a text that is encoded or decoded at once; each piece holds Python's lock for a millisecond or so."""


@dataclass(frozen=True, slots=True)
class StoredVariable:
    """A value in the object store; it lasts as long as a run of the tree, or its driver, holds this."""

    reference: Awaitable[bytes] = field(repr=False)
    is_text: bool = False
    """Whether its bytes are UTF-8, since a pickle of a large text can be read only in one go, in which nothing else runs."""

    async def get(self) -> Any:
        """Return the value. Large ones are taken apart in a thread."""
        data = await fetch(self.reference, PART)
        return await asyncio.to_thread(_decoded if self.is_text else unpack, data)


async def stored(variables: Mapping[str, Any] | None, agents: AgentSet) -> dict[str, StoredVariable]:
    """Check variables and put them into the object store.

    Raises:
        ConfigurationError: A name or value can't be a variable of a cell, or no agent of the tree has a REPL.
        RuntimeUnavailableError: The object store is full, or Ray failed.
    """
    if not variables:
        return {}
    if all(agent.repl is None for agent in agents.all()):
        raise ConfigurationError(
            "variables",
            "no agent of the tree has a REPL that would find them",
            "Set Agent(repl=ReplPolicy()), or use deps",
        )
    # Few drivers need it, and it is no small import.
    from .repl.session import check_name

    for name in variables:
        check_name(name)
    return {name: await asyncio.to_thread(_stored, name, value) for name, value in variables.items()}


def _stored(name: str, value: Any) -> StoredVariable:
    if type(value) is str:
        return StoredVariable(put(_encoded(value), PART), is_text=True)
    try:
        data = pack(value)
    except Exception as error:  # noqa: BLE001 - pickling runs any user code
        problem = f"can't be sent to an actor: {type(error).__name__}: {error}"
        raise NotPicklableError(f"variables, {name}", problem, "Pass text, or what JSON can hold") from None
    return StoredVariable(put(data, PART))


def _encoded(text: str) -> bytes:
    return b"".join(
        text[start : start + _PIECE].encode("utf-8", "surrogatepass") for start in range(0, len(text), _PIECE)
    )


def _decoded(data: bytes) -> str:
    decoder = codecs.getincrementaldecoder("utf-8")("surrogatepass")
    pieces = [decoder.decode(data[start : start + _PIECE]) for start in range(0, len(data), _PIECE)]
    return "".join(pieces) + decoder.decode(b"", final=True)
