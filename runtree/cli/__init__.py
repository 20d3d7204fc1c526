"""The command `runtree`, one file a command. Commands import what they need when they are called, so that `--help` is quick."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line of this process and exit."""
    from .app import app
    from .output import CANCELLED_EXIT, FAILED_EXIT, error

    try:
        app()
    except KeyboardInterrupt:
        sys.exit(CANCELLED_EXIT)
    except BrokenPipeError:
        sys.exit(FAILED_EXIT)
    except Exception as problem:
        from ..messages.errors import RuntreeError
        from .output import exit_code_of

        if not isinstance(problem, RuntreeError):
            raise
        error(problem)
        sys.exit(exit_code_of(problem))
