"""Identifiers: sortable by time, unique without coordination."""

from ulid import ULID


def new_run_id() -> str:
    """Return a new run id: a ULID, 26 characters, sortable by the time it was made."""
    return str(ULID())


def new_call_id() -> str:
    """Return an id for a tool call whose provider sent none.

    It fits the strictest rule of the providers' (letters, digits, `_` and `-`, at most 40 characters).
    """
    return f"call_{ULID()}"
