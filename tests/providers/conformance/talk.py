"""Asking a model over HTTP, with a limit."""

from collections.abc import Awaitable, Callable

import anyio

from runtree.messages.model import ModelEvent, ModelRequest
from runtree.providers.protocol import Model
from tests.kit.loopback import Answer, Loopback, Route, send
from tests.kit.wires.families import ASKED, Family
from tests.kit.wires.script import Script

LIMIT = 15.0


async def ask(model: Model, request: ModelRequest = ASKED) -> list[ModelEvent]:
    """The events of a call."""
    with anyio.fail_after(LIMIT):
        return [event async for event in model.stream(request)]


async def ask_and(model: Model, then: Callable[[ModelEvent], Awaitable[None]]) -> list[ModelEvent]:
    """The events of a call; something is done at each."""
    events: list[ModelEvent] = []
    with anyio.fail_after(LIMIT):
        async for event in model.stream(ASKED):
            events.append(event)
            await then(event)
    return events


async def streaming(loopback: Loopback, family: Family, script: Script) -> Route:
    """An address that streams the script to whoever asks."""
    return await loopback.route(Answer([send(b"".join(family.wire.frames(script)))]))
