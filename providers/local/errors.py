"""What can be wrong with a local model; every text names the next step."""

from ...messages.errors import LocalModelError


class LocalExtraMissingError(LocalModelError):
    """The package that runs local models is not installed."""


class WeightsMissingError(LocalModelError):
    """The weights are not on this node."""


class WeightsPullError(LocalModelError):
    """The weights could not be fetched, or are not the ones they should be."""


class LocalServerError(LocalModelError):
    """The model server of this node does not start or does not answer."""
