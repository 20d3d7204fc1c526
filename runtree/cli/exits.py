"""The exit codes of all commands."""

from typing import Final

COMPLETED: Final = 0
FAILED: Final = 1
USAGE: Final = 2
CANCELLED: Final = 130


def exit_code_of(problem: Exception) -> int:
    """Return 2 for what the caller has to change, 1 for what went wrong."""
    from ..messages.errors import ConfigurationError, VersionMismatchError

    return USAGE if isinstance(problem, ConfigurationError | VersionMismatchError) else FAILED
