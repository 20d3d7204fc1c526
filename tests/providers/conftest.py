from collections.abc import Iterator

import pytest

from tests.kit.loopback import Loopback, running


@pytest.fixture(scope="session")
def loopback() -> Iterator[Loopback]:
    with running() as server:
        yield server
