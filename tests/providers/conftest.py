from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.loopback import Loopback, running


@pytest.fixture(scope="session")
def streams(shared_dir: Path) -> Path:
    """Where the recorded answers are."""
    return shared_dir / "streams"


@pytest.fixture(scope="session")
def loopback() -> Iterator[Loopback]:
    with running() as server:
        yield server
