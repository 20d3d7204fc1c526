"""Where a command writes: results to stdout, notices and errors to stderr."""

import json
import sys
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from .figures import printable


def write(line: str = "") -> None:
    """Write a line to stdout at once."""
    print(line, flush=True)


def notice(line: str) -> None:
    """Write a line to stderr."""
    print(printable(line), file=sys.stderr, flush=True)


def error(problem: object) -> None:
    """Write an error as one line to stderr."""
    notice("error: " + " ".join(str(problem).split()))


def output_text(output: Any) -> str:
    """Return the output of a run for people: text as it is, anything else as JSON."""
    if isinstance(output, str):
        return printable(output.rstrip("\n"))
    value = output.model_dump(mode="json") if isinstance(output, BaseModel) else to_jsonable_python(output)
    return json.dumps(value, indent=2, ensure_ascii=False)
