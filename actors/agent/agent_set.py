"""All agents of a tree, flat and under keys, as they travel to its actors."""

import io
from collections.abc import Mapping
from typing import Any

import cloudpickle  # pyright: ignore[reportMissingTypeStubs]

from ...messages.errors import AgentDefinitionError, NotPicklableError
from ...providers.pricing import overrides, provide_overrides
from ...providers.protocol import NeedsSecrets
from ...providers.registry import provide_registrations, registered, resolve
from .agent import Agent
from .output import OutputPlan
from .placement import check_packing
from .subagents import input_model
from .tool import Tool
from .tool_output import describe


class AgentSet:
    """The agents a root can reach. Make one with `of`, send it with `dump`, and read it with `load`."""

    def __init__(self, agents: Mapping[str, Agent], children: Mapping[str, Mapping[str, str]], root_key: str) -> None:
        self._agents = dict(agents)
        self._children = {key: dict(names) for key, names in children.items()}
        self.root_key = root_key
        """Key of the root."""

    @classmethod
    def of(cls, root: Agent) -> "AgentSet":
        """Collect and check every agent the root can reach.

        Raises:
            AgentDefinitionError: A name in `agents` names no agent of the tree, or several; or an input or output type has no schema; or an
                agent whose runs are to share a process has a tool that is not async.
            UnknownModelError: A model string has an unknown prefix.
            ConfigurationError: A provider refuses a model name.
        """
        flat = _Flattening()
        key = flat.visit(root, ())
        return cls(flat.agents, flat.resolve(), key)

    def all(self) -> tuple[Agent, ...]:
        """Return every agent, the root first."""
        return tuple(self._agents.values())

    def agent(self, key: str) -> Agent:
        """Return the agent of a key."""
        return self._agents[key]

    def child_key(self, key: str, name: str) -> str:
        """Return the key of a sub-agent by its name.

        Raises:
            AgentDefinitionError: The agent has no such sub-agent.
        """
        names = self._children[key]
        if name not in names:
            known = ", ".join(sorted(names)) or "none"
            raise AgentDefinitionError(
                f"agent {self._agents[key].name}, agents", f"{name!r} is not among them ({known})", "Add it to `agents`"
            )
        return names[name]

    def secret_names(self) -> dict[str, bool]:
        """Return the names of all keys the models use, sorted, and for each whether a model can't do without."""
        names: dict[str, bool] = {}
        for agent in self._agents.values():
            model = resolve(agent.model)
            if isinstance(model, NeedsSecrets):
                for name in model.secret_names:
                    names[name] = names.get(name, False) or getattr(model, "key_required", True)
        return dict(sorted(names.items()))

    def dump(self) -> bytes:
        """Return the set as bytes for an actor of the same job.

        Raises:
            NotPicklableError: A part can't travel; the text names it.
        """
        state = (self._agents, self._children, self.root_key, registered(), overrides())
        try:
            data = pickled(state)
        except Exception as error:
            raise self._culprit(error) from error
        return data

    @classmethod
    def load(cls, data: bytes) -> "AgentSet":
        """Read a set; models and hooks are fresh objects each time. Only for bytes of the same job's `dump`."""
        agents, children, root_key, registrations, prices = cloudpickle.load(io.BytesIO(data))
        provide_registrations(registrations)
        provide_overrides(prices)
        return cls(agents, children, root_key)

    def _culprit(self, error: Exception) -> NotPicklableError:
        for agent in self._agents.values():
            for part, value in _parts(agent):
                try:
                    pickled(value)
                except Exception as reason:  # noqa: BLE001  # pickling runs anybody's code
                    return _not_picklable(f"agent {agent.name}, {part}", reason)
        return _not_picklable("the agents", error)


def pickled(value: Any) -> bytes:
    """Return a value as cloudpickle writes it."""
    data: bytes = cloudpickle.dumps(value)  # pyright: ignore[reportUnknownMemberType]
    return data


def _parts(agent: Agent) -> list[tuple[str, Any]]:
    parts: list[tuple[str, Any]] = [(f"tool {each.name}", each) for each in agent.tools if isinstance(each, Tool)]
    parts += [(f"middleware {type(layer).__name__}", layer) for layer in agent.middleware]
    return [*parts, ("model", agent.model), ("input_type", agent.input_type), ("output_type", agent.output_type)]


def _not_picklable(field: str, error: Exception) -> NotPicklableError:
    return NotPicklableError(
        field,
        f"can't be sent to an actor: {describe(error)}",
        "Make what it needs (a client, a lock, a file) inside the function, or pass it through deps",
    )


class _Flattening:
    """Walks the agents depth first; each distinct object gets the path on which it was found as its key."""

    def __init__(self) -> None:
        self.agents: dict[str, Agent] = {}
        self._keys: dict[int, str] = {}
        self._ancestors: dict[str, tuple[str, ...]] = {}

    def visit(self, agent: Agent, ancestors: tuple[str, ...]) -> str:
        if id(agent) in self._keys:
            return self._keys[id(agent)]
        path = f"{ancestors[-1]}/{agent.name}" if ancestors else agent.name
        self._keys[id(agent)] = path
        self.agents[path] = agent
        self._ancestors[path] = (*ancestors, path)
        _check(agent)
        for entry in agent.agents:
            if isinstance(entry, Agent):
                self.visit(entry, (*ancestors, path))
        return path

    def resolve(self) -> dict[str, dict[str, str]]:
        children: dict[str, dict[str, str]] = {}
        for key, agent in self.agents.items():
            children[key] = {
                (entry if isinstance(entry, str) else entry.name): (
                    self._named(key, entry) if isinstance(entry, str) else self._keys[id(entry)]
                )
                for entry in agent.agents
            }
        return children

    def _named(self, key: str, name: str) -> str:
        for ancestor in reversed(self._ancestors[key]):
            if self.agents[ancestor].name == name:
                return ancestor
        found = [other for other, agent in self.agents.items() if agent.name == name]
        if len(found) == 1:
            return found[0]
        problem = f"{len(found)} agents of the tree are named {name!r}" if found else f"no agent is named {name!r}"
        raise AgentDefinitionError(f"agent {self.agents[key].name}, agents", problem, "Pass the Agent itself")


def _check(agent: Agent) -> None:
    check_packing(agent.name, agent.runs_per_actor, agent.toolset)
    resolve(agent.model)
    OutputPlan(agent)
    input_model(agent)
