"""What the refusals of a server show."""

from typing import Any

import pydantic_core

from ...messages.failure import FailureCode
from ..failures import from_answer
from ..shapes import is_array, is_object
from .recording import Recording
from .seen import ErrorSeen


def reason_of(recording: Recording) -> str:
    """Return what a server said to a request that it refused."""
    if recording.status is None:
        return recording.fault or "no answer"
    return from_answer(recording.status, recording.headers, recording.body).message


def code_of(recording: Recording) -> FailureCode | None:
    """Return what a refusal is taken for, `None` if it is none."""
    if recording.status is None or recording.accepted:
        return None
    return from_answer(recording.status, recording.headers, recording.body).code


def see_error(recording: Recording | None) -> ErrorSeen | None:
    """Return the form of an error, `None` if there was none."""
    if recording is None or recording.status is None or recording.accepted:
        return None
    failure = from_answer(recording.status, recording.headers, recording.body)
    return ErrorSeen(
        status=recording.status,
        content_type=recording.content_type,
        shape=_shape(recording),
        code=failure.code,
        message=failure.message,
    )


def _shape(recording: Recording) -> str:
    body = recording.body.strip()
    if not body:
        return "nothing"
    try:
        return _form(pydantic_core.from_json(body), 0)
    except ValueError:
        return "a web page" if body[:1] == b"<" else "text"


def _form(value: Any, depth: int) -> str:
    if is_object(value):
        names = sorted(value)
        inner = [
            f"{name}: {_form(value[name], depth + 1)}" if depth < 2 and is_object(value[name]) else name
            for name in names
        ]
        return "{" + ", ".join(inner) + "}"
    if is_array(value):
        return f"[{_form(value[0], depth + 1)}]" if value else "[]"
    return type(value).__name__
