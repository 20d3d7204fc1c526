"""The wire: models of all providers behind one protocol. No Ray."""
