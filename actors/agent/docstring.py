"""What a Google-style docstring tells a model: the description, and a line for each argument."""

import inspect
import re
from dataclasses import dataclass, field

_SECTION = re.compile(r"^(Args|Arguments|Returns?|Raises|Yields?|Examples?|Notes?):\s*$")
_ARGUMENT = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")


@dataclass(frozen=True)
class Docstring:
    """A docstring taken apart."""

    description: str = ""
    """What stands before the first section."""
    arguments: dict[str, str] = field(default_factory=dict[str, str])
    """Description of each argument."""

    @classmethod
    def parse(cls, text: str | None) -> "Docstring":
        """Read a docstring; `None` gives an empty one."""
        lines = inspect.cleandoc(text or "").splitlines()
        starts = [index for index, line in enumerate(lines) if _SECTION.match(line)]
        end = starts[0] if starts else len(lines)
        arguments: dict[str, str] = {}
        for start, stop in zip(starts, [*starts[1:], len(lines)], strict=False):
            if lines[start].startswith("Arg"):
                arguments = _arguments(lines[start + 1 : stop])
        return cls("\n".join(lines[:end]).strip(), arguments)


def _arguments(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    body = inspect.cleandoc("\n" + "\n".join(lines)).splitlines()
    name: str | None = None
    for line in body:
        match = _ARGUMENT.match(line)
        if match:
            name = str(match[1])
            found[name] = match[2].strip()
        elif name is not None and line.strip():
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found
