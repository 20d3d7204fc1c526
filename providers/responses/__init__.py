"""The responses protocol: OpenAI's, and that of every server that speaks it."""
