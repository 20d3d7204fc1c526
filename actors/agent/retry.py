"""Retries of model calls, as a layer of the onion."""

from collections.abc import AsyncIterator, Sequence

from ...messages.model import ModelEvent, ModelRequest
from ...providers.retry import RetryPolicy, with_retries
from .context import RunContext
from .middleware import Middleware, ModelNext


class Retry(Middleware):
    """Makes a failed model call again where that may help. Every agent has one as its innermost layer, unless it brings its own.

    Args:
        policy: How often and after how long; by default two more tries after half a second and a second.
    """

    def __init__(self, policy: RetryPolicy | None = None) -> None:
        self.policy = policy or RetryPolicy()

    def wrap_model(self, ctx: RunContext, request: ModelRequest, call_next: ModelNext) -> AsyncIterator[ModelEvent]:
        """Call the model until there is an answer, or a failure that no further try may follow."""
        return with_retries(call_next, request, self.policy)


def policy_of(middleware: Sequence[Middleware]) -> RetryPolicy:
    """Return the policy of an agent: that of its own layer, or the default."""
    return next((layer.policy for layer in middleware if isinstance(layer, Retry)), RetryPolicy())
