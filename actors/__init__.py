"""The runtime: agents as Ray actors."""
