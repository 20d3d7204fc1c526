"""Models that run on this node: their weights, one server for all processes of a user, and the model that talks to it."""
