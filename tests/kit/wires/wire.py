"""What a dialect's writer can do: speak a script, fail, and read back what it was sent."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Protocol

from .script import Called, Hidden, Part, Said, Script, Thought

Trouble = Literal["rate_limit", "overloaded", "invalid_request", "authentication"]
"""Failures that every dialect has words for."""

Ability = Literal["signature", "hidden", "order", "no_ids", "cache_write"]
"""What not every dialect can say: signed thoughts, hidden ones, parts in any order in a unary body, calls without ids."""


class Wire(Protocol):
    """One dialect."""

    abilities: frozenset[Ability]
    """What it can say."""

    def frames(self, script: Script) -> list[bytes]:
        """The events of a streamed answer, each as the bytes it is sent as."""
        ...

    def body(self, script: Script) -> bytes:
        """The unary answer."""
        ...

    def kept(self, parts: Sequence[Part]) -> list[Part]:
        """What is left of an answer when it comes back in a history."""
        ...

    def error_frame(self, trouble: Trouble, message: str) -> bytes:
        """An error in the middle of a stream."""
        ...

    def error_body(self, trouble: Trouble, message: str) -> bytes:
        """The body of an HTTP error."""
        ...

    def history(self, sent: dict[str, Any]) -> list[list[Part]]:
        """The assistant's turns in a request, as the provider reads them."""
        ...

    def results(self, sent: dict[str, Any]) -> list[str]:
        """The ids of the calls that a request has results for, in order."""
        ...


def event(payload: dict[str, Any], name: str | None = None) -> bytes:
    """A server-sent event."""
    line = f"event: {name}\n" if name else ""
    return f"{line}data: {json.dumps(payload, ensure_ascii=False)}\n\n".encode()


def adapted(wire: Wire, script: Script) -> Script:
    """The script in the dialect's own blocks: where nothing is hidden, such a thought is one without words."""
    if "hidden" in wire.abilities or "signature" not in wire.abilities:
        return script
    parts = [Thought((), part.data) if isinstance(part, Hidden) else part for part in script.parts]
    return replace(script, parts=parts)


def in_order(parts: Sequence[Part], abilities: frozenset[Ability]) -> list[Part]:
    """The parts as a dialect keeps them that has blocks in any order, the pieces of each put together."""
    said: list[Part] = []
    for part in parts:
        match part:
            case Said():
                said.append(Said((part.text,)))
            case Thought():
                signature = part.signature if "signature" in abilities else None
                if part.text or signature:
                    said.append(Thought((part.text,) if part.text else (), signature))
            case Hidden():
                if "hidden" in abilities:
                    said.append(part)
            case Called():
                said.append(Called(part.call_id, part.name, (part.arguments or "{}",)))
    return said
