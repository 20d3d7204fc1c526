from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.kit.loopback import Loopback, running

# How long an example takes depends on what else the machine does.
settings.register_profile("no clock", suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no clock")


@pytest.fixture(scope="session")
def streams(shared_dir: Path) -> Path:
    """Where the recorded answers are."""
    return shared_dir / "streams"


@pytest.fixture(scope="session")
def loopback() -> Iterator[Loopback]:
    with running() as server:
        yield server
