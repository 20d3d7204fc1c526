"""What a run actor asks of its node, and the wait until it is there."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ..messages.errors import RuntimeUnavailableError
from .jobs import ProcessInfo
from .remote import MIB, ActorGoneError, Handle, call

PART: Final = "run actor"

StartActor = Callable[[str, str, Mapping[str, float]], Handle]
"""Starts a RunActor under a name in a namespace with what it asks of its node."""

DEFAULT_RESOURCES: Final[Mapping[str, float]] = {"memory": 96 * MIB}
"""What a run asks of its node: memory, so that a node is bounded and the autoscaler sees demand, and no CPU, since runs mostly wait."""

STARTS_AT_ONCE: Final = max(8, 2 * (os.cpu_count() or 1))
"""Actors that one process has started at once: a hundred together would each take as long as all, and time out before they could begin."""


class ActorStarts:
    """The starts of actors for single runs: so many at once over all runs of a process. It belongs to the event loop of these runs."""

    def __init__(self, start_actor: StartActor) -> None:
        self.start_actor = start_actor
        self.room = asyncio.Semaphore(STARTS_AT_ONCE)


def demand(resources: Mapping[str, float] | None) -> dict[str, float]:
    """Return all that an actor asks of its node."""
    return {**DEFAULT_RESOURCES, **(resources or {})}


async def ready(
    handle: Handle, resources: Mapping[str, float] | None, timeout: float, queues: Sequence[str] = ()
) -> ProcessInfo:
    """Return when an actor has a process that is ready for runs.

    Args:
        handle: The actor.
        resources: What it asks of its node, beyond what every run actor does.
        timeout: Seconds it may take.
        queues: Names of the queue actors that its runs will talk to.

    Raises:
        ActorGoneError: It died.
        RuntimeUnavailableError: No node had room for it in time; the text names what it asks for.
    """
    try:
        info: ProcessInfo = await call(handle, "start", queues, part=PART, timeout=timeout)
    except ActorGoneError:
        raise
    except RuntimeUnavailableError:
        asked = ", ".join(f"{name}={value:g}" for name, value in demand(resources).items())
        fix = "Ask for less by Agent(resources=...), add nodes, or raise Runtime(schedule_timeout=...)"
        raise RuntimeUnavailableError(PART, f"no node had room for {asked} within {timeout:g} s", fix) from None
    return info
