"""The registry of runs as a state machine without I/O. No Ray."""
