"""What a model says, written once in neutral words and spoken in the dialect of every provider."""
