"""The two versions runtree checks: of the code, and of what its processes say to each other."""

from typing import Final

VERSION: Final = "0.1.0"
"""Version of the distribution; every process of a tree must run the same one."""

WIRE_VERSION: Final = 3
"""Version of the supervisor's protocol; raised whenever a message of `control` changes its meaning."""
