"""What variables a sandbox holds, told without their values."""

from dataclasses import dataclass
from typing import Final

from ...messages.repl import ReplVariable
from .functions import RESERVED
from .marshal import is_mapping
from .worker import Ended

PROBE: Final = """{_k: (type(_v).__name__, len(_v) if isinstance(_v, (str, bytes, list, dict, tuple, set, frozenset)) else None, id(_v),
 sum([len(_w) for _w in (_v.values() if isinstance(_v, dict) else _v) if isinstance(_w, (str, bytes, list, dict, tuple, set, frozenset))])
 if isinstance(_v, (list, dict, tuple, set, frozenset)) and len(_v) <= 256 else 0)
 for _k, _v in locals().items()}"""
"""Tells the sandbox's variables without their values, and what short containers hold."""


@dataclass(frozen=True)
class Known:
    """A variable, and which object it is bound to."""

    shown: ReplVariable
    identity: int
    """The `id` of the object in the sandbox."""


def known(probed: Ended, before: dict[str, Known]) -> dict[str, Known]:
    """Return what a probe has found; what was known before if a cell has taken the names that it needs."""
    found = probed.value
    if not is_mapping(found):
        return before
    variables: dict[str, Known] = {}
    for name, entry in found.items():
        match name, entry:
            case (str(), (str(kind), int() | None as size, int(identity), _)) if _is_variable(name, kind):
                variables[name] = Known(ReplVariable(type=kind, size=size), identity)
            case _:
                continue
    return variables


def least_bytes(probed: Ended) -> int:
    """Return how many bytes a copy of the probed variables takes at least: one for each character and element."""
    least = 0
    for entry in probed.value.values() if is_mapping(probed.value) else ():
        match entry:
            case (_, int() | None as size, _, int(held)):
                least += (size or 0) + held
            case _:
                continue
    return least


def _is_variable(name: str, kind: str) -> bool:
    return name not in RESERVED and not name.startswith("_") and kind != "module"


def changed(before: dict[str, Known], after: dict[str, Known]) -> tuple[str, ...]:
    """Return the names that are bound to something else, or whose value has grown or shrunk."""
    return tuple(sorted(name for name, found in after.items() if before.get(name) != found))
