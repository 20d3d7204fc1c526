"""Lets `python -m runtree` stand for the `runtree` command."""

from runtree.cli import main

if __name__ == "__main__":
    main()
