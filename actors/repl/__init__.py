"""Sessions that evaluate model-written Python in sandboxed processes. No Ray.

`ReplSession` is in `session`, what it calls for models, tools and agents is the port in `host`, and `plain` has that port for use without an agent.
"""
