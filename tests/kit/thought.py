"""Agents whose reasoning a test watches while it is being said: over HTTP, and from a script that waits for the test.

Actors import this module, so that everything in it travels by name.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from runtree import Agent, tool
from runtree.messages.model import Completed, ModelEvent, ModelRequest, Started
from runtree.messages.transcript import AssistantMessage
from runtree.providers.fold import Fold
from runtree.providers.profile import ModelProfile
from runtree.providers.protocol import Model

from .agents import lead
from .gates import Gates
from .loopback import Answer, Step, send, wait
from .wires.families import Family
from .wires.script import Script, split


@tool
async def get_weather(city: str, n: str = "") -> str:
    """Tells the weather."""
    return f"sunny in {city}{n}"


@dataclass(frozen=True)
class Gate:
    """A pause of a paced model until the test has opened the gate."""

    name: str


Pace: TypeAlias = ModelEvent | Gate


class Paced:
    """A model that plays one turn for each answer in the history, and waits at gates in between.

    Without a turn for it, it says what its thoughts of before were signed with.
    """

    def __init__(self, turns: Sequence[Sequence[Pace]], gates: Gates) -> None:
        self.profile = ModelProfile(provider="paced", model="paced")
        self._turns, self._gates = turns, gates

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        fold = Fold("paced", "paced")
        yield Started(model="paced")
        said = [message for message in request.messages if isinstance(message, AssistantMessage)]
        if len(said) == len(self._turns):
            blocks = [block.model_dump_json() for message in said for block in message.content]
            fold.text("\n".join(blocks))
        else:
            for part in self._turns[len(said)]:
                if isinstance(part, Gate):
                    await self._gates.passed(part.name)
                else:
                    fold.add(part)
                    yield part
        yield Completed(response=fold.response())


def thinker(model: Model, name: str = "thinker") -> Agent:
    """An agent that thinks, asks for the weather and answers."""
    return Agent(name, model, tools=[get_weather])


def above(*grandchildren: Agent) -> Agent:
    """A root whose only child calls these agents side by side."""
    return lead(lead(*grandchildren, name="middle"))


def paced(family: Family, script: Script, **stops: str) -> Answer:
    """An answer that stops behind each of the words until it is released by the name that the word is given by."""
    parts = split(family.wire.frames(script), list(stops.values()))
    steps: list[Step] = [send(parts[0])]
    for name, part in zip(stops, parts[1:], strict=True):
        steps += [wait(name), send(part)]
    return Answer(steps)


def streamed(family: Family, script: Script) -> Answer:
    """An answer in one go."""
    return Answer([send(b"".join(family.wire.frames(script)))])
