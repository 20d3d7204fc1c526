"""runtree: trees of agents on Ray."""
