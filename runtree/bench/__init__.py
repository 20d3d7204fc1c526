"""Measurements of the runtime that users can make on their own cluster: what `runtree bench` and `benchmarks/` run."""
