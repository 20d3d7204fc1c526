"""A profile as the Python that makes it, with a word on where each line comes from."""

from collections.abc import Collection
from typing import Any, TypeGuard

from pydantic import BaseModel

from ..chat.profile import ChatProfile
from ..shapes import is_object
from .fit import Fit

_LEFT_OUT = frozenset({"model", "price"})


def paste(fit: Fit, model: str) -> str:
    """Return a module that defines `PROFILE`.

    Args:
        fit: The fit.
        model: Name of the model, for the line that shows how to use it.
    """
    reasons = {difference.field: difference.reason for difference in fit.differences}
    notes = {**fit.notes, **reasons}
    imports = {("runtree.providers", "ChatProfile"), ("runtree.providers", "OpenAIChat")}
    lines: list[str] = []
    for name, field in ChatProfile.model_fields.items():
        value = getattr(fit.profile, name)
        is_default = not field.is_required() and value == field.get_default(call_default_factory=True)
        if name in _LEFT_OUT or (is_default and name not in reasons):
            continue
        comment = f"  # {' '.join(notes[name].split())}" if name in notes else ""
        lines.append(f"    {name}={_literal(value, imports)},{comment}")
    head = [f"from {module} import {', '.join(names)}" for module, names in sorted(_grouped(imports).items())]
    body = [f"PROFILE = ChatProfile(  # based on {fit.name} of {fit.module}", *lines, ")"]
    return "\n".join([*head, "", *body, f"model = OpenAIChat({_literal(model, imports)}, profile=PROFILE)", ""])


def _grouped(imports: set[tuple[str, str]]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for module, name in sorted(imports):
        grouped.setdefault(module, []).append(name)
    return grouped


def _literal(value: Any, imports: set[tuple[str, str]]) -> str:
    if isinstance(value, BaseModel):
        return _call(value, imports)
    if isinstance(value, str):
        return quoted(value)
    if is_object(value):
        pairs = (f"{_literal(key, imports)}: {_literal(item, imports)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    if _is_collection(value):
        items = [_literal(item, imports) for item in value]
        if isinstance(value, tuple):
            return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        if isinstance(value, list):
            return f"[{', '.join(items)}]"
        members = f"{{{', '.join(sorted(items))}}}" if items else ""
        return members if items and isinstance(value, set) else f"{type(value).__name__}({members})"
    return repr(value)


def _is_collection(value: object) -> TypeGuard[Collection[Any]]:
    return isinstance(value, tuple | list | set | frozenset)


def _call(value: BaseModel, imports: set[tuple[str, str]]) -> str:
    kind = type(value)
    imports.add((kind.__module__, kind.__name__))
    given = [
        f"{name}={_literal(getattr(value, name), imports)}"
        for name, field in kind.model_fields.items()
        if field.is_required() or getattr(value, name) != field.get_default(call_default_factory=True)
    ]
    return f"{kind.__name__}({', '.join(given)})"


def quoted(text: str) -> str:
    """Return text as a Python string."""
    quoted = repr(text)
    return f'"{quoted[1:-1]}"' if quoted[0] == "'" and '"' not in text else quoted
