"""From an admission to an exception, where there is no model to tell."""

from ..messages.control import Admission, Admitted
from ..messages.errors import LimitExceededError, RuntimeUnavailableError


def admitted_or_raise(admission: Admission) -> Admitted:
    """Return the admission.

    Raises:
        LimitExceededError: A bound forbids the run.
        RuntimeUnavailableError: It is refused for another reason.
    """
    if isinstance(admission, Admitted):
        return admission
    error = admission.error
    if error.limit is not None:
        raise LimitExceededError(error.limit, error.message, "tree")
    raise RuntimeUnavailableError("supervisor", error.message, "Start another run")
