"""Where a command writes: results to stdout, notices and errors to stderr, and the exit codes of all commands."""

import json
import sys
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from .figures import printable

COMPLETED_EXIT: Final = 0
FAILED_EXIT: Final = 1
USAGE_EXIT: Final = 2
CANCELLED_EXIT: Final = 130


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


def exit_code_of(problem: Exception) -> int:
    """Return 2 for what the caller has to change, 1 for what went wrong."""
    from ..messages.errors import ConfigurationError, VersionMismatchError

    return USAGE_EXIT if isinstance(problem, ConfigurationError | VersionMismatchError) else FAILED_EXIT
