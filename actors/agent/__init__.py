"""What a run executes: agents, tools, hooks and the loop. No Ray."""
