"""The command `runtree`, one file a command. Commands import what they need when they are called, so that `--help` is quick."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line of this process and exit."""
    from . import exits
    from .app import app

    try:
        app()
    except KeyboardInterrupt:
        sys.exit(exits.CANCELLED)
    except BrokenPipeError:
        sys.exit(exits.FAILED)
    except Exception as problem:
        from ..messages.errors import RuntreeError
        from .output import error

        if not isinstance(problem, RuntreeError):
            raise
        error(problem)
        sys.exit(exits.exit_code_of(problem))
