"""Where a command writes: results to stdout, notices and errors to stderr."""

import contextlib
import io
import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TextIO

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from .figures import printable

_own: TextIO | None = None


class _BesideResults(io.TextIOBase):
    """Takes what anybody else prints: Ray's remarks on worker processes, which mean nothing to a reader, are left out."""

    def write(self, text: str) -> int:
        """Pass the text on to stderr, unless it is Ray's."""
        if "(raylet)" not in text and text.strip():
            sys.stderr.write(text.rstrip("\n") + "\n")
        return len(text)

    def flush(self) -> None:
        """Flush stderr."""
        sys.stderr.flush()


@contextmanager
def own_stdout() -> Generator[None]:
    """Keep stdout for results: Ray prints remarks of its own to `sys.stdout` of a driver."""
    global _own
    _own = sys.stdout
    try:
        with contextlib.redirect_stdout(_BesideResults()):
            yield
    finally:
        _own = None


def stdout() -> TextIO:
    """Return where results go."""
    return _own or sys.stdout


def write(line: str = "") -> None:
    """Write a line to stdout at once."""
    print(line, file=stdout(), flush=True)


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
