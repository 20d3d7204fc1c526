"""What a model is to the runtime: a profile and one method that streams events."""

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from ..messages.model import ModelEvent, ModelRequest
from .profile import ModelProfile


@runtime_checkable
class Model(Protocol):
    """Anything that answers a request with events.

    The last event is always `Completed` or `Failed`; a stream that ends without one is a failure. Closing the iterator early ends the
    call and frees its connection. One object serves concurrent calls. It must pickle, without open handles and without secrets.
    """

    @property
    def profile(self) -> ModelProfile:
        """What the model can do and how it counts."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Send the request and yield what comes back, as it comes."""
        ...


@runtime_checkable
class NeedsSecrets(Protocol):
    """A model that needs keys names them, so that the driver can send them along.

    One that can do without says so by an attribute `key_required` that is false.
    """

    @property
    def secret_names(self) -> tuple[str, ...]:
        """Names under which the keys are looked up in `runtree.providers.secrets`."""
        ...
