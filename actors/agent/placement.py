"""Where the runs of an agent may be: what it may ask of a node, and whether its runs may share a process."""

import math
from collections.abc import Mapping
from typing import Any, Final

from ...messages.errors import AgentDefinitionError
from .tool import Tool

_RENAMED: Final[Mapping[str, str]] = {"CPU": "num_cpus", "GPU": "num_gpus", "cpu": "num_cpus", "gpu": "num_gpus"}
_REFUSED: Final = frozenset({"object_store_memory", "node:__internal_head__"})


def check_resources(agent: str, resources: Any) -> None:
    """Refuse what no node can have.

    Raises:
        AgentDefinitionError: A name or an amount makes no sense; the text names it and the fix.
    """
    entries: Any = resources or {}
    if not isinstance(entries, Mapping):
        problem = f"a {type(entries).__name__} is no mapping"
        raise _problem(agent, "resources", problem, 'Write resources={"num_cpus": 1}')
    for name in resources or ():
        _check_amount(agent, name, resources[name])


def _check_amount(agent: str, name: Any, amount: Any) -> None:
    if not isinstance(name, str) or not name:
        raise _problem(
            agent, "resources", f"{name!r} is no name", "Use num_cpus, num_gpus, memory or a resource of yours"
        )
    field = f"resources[{name!r}]"
    if name in _RENAMED:
        raise _problem(agent, field, "is not what this resource is called here", f"Call it {_RENAMED[name]!r}")
    if name in _REFUSED:
        raise _problem(agent, field, "can't be asked for", "Leave it out")
    if isinstance(amount, bool) or not isinstance(amount, int | float) or not math.isfinite(amount) or amount < 0:
        raise _problem(agent, field, f"{amount!r} is no amount", "Pass a number from 0 up; memory is in bytes")
    if amount > 1 and amount != int(amount):
        raise _problem(
            agent, field, f"{amount!r} is above 1 and no whole number", "Only parts of one unit can be shared"
        )


def check_packing(agent: str, runs_per_actor: int, tools: Mapping[str, Tool]) -> None:
    """Refuse to have runs share a process that one of them could hold up: threads can't be stopped, and a blocked process is killed.

    Raises:
        AgentDefinitionError: A tool is not async; the text names it and the fix.
    """
    if runs_per_actor == 1:
        return
    for name, tool in tools.items():
        if not tool.is_async:
            fix = f"Make {name} an async function, or leave runs_per_actor at 1"
            raise _problem(agent, f"runs_per_actor={runs_per_actor}", f"the tool {name!r} is not async", fix)


def _problem(agent: str, field: str, problem: str, fix: str) -> AgentDefinitionError:
    return AgentDefinitionError(f"agent {agent}, {field}", problem, fix)
