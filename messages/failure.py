"""Why something failed, as a value that a stream item, a result or a tool message can carry."""

from typing import Literal

from .value import Value

FailureCode = Literal[
    "agent_error",
    "authentication",
    "cancelled",
    "content_filter",
    "context_overflow",
    "in_doubt",
    "invalid_request",
    "limit_exceeded",
    "lost",
    "missing_secret",
    "model_not_found",
    "output_invalid",
    "overloaded",
    "protocol",
    "provider",
    "quota",
    "rate_limit",
    "refusal",
    "thinking_rejected",
    "timeout",
    "tool_error",
    "transport",
    "version_mismatch",
]
"""The kinds of failure a caller may want to tell apart."""


class Failure(Value):
    """A failure that is reported rather than raised."""

    code: FailureCode
    """The kind of failure."""
    message: str
    """One sentence for a person, with the next step where there is one; free of secrets."""
    retryable: bool = False
    """Whether the same request may succeed later."""
    retry_after: float | None = None
    """Seconds the other side asked to wait."""
    status: int | None = None
    """HTTP status, if an HTTP answer was the cause."""
    provider_code: str | None = None
    """The provider's own code or type."""
    limit: str | None = None
    """Name of the limit that was hit."""
