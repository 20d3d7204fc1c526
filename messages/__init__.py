"""The words of runtree: frozen values that every process of a tree understands. No I/O, no Ray."""
