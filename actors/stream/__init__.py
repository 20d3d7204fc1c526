"""How items travel: emitter, lanes, reader. No Ray."""
