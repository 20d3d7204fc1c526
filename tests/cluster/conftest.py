"""What the tests on the session's Ray share: warm Runtimes, a loopback server, and the check that nothing is left behind.

Ray is imported inside the fixtures: it reads its environment when it is, and this file is loaded before that is prepared.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit.eventually import eventually
from tests.kit.gates import Gates
from tests.kit.loopback import Loopback, running

if TYPE_CHECKING:
    from runtree import Runtime

WARM = 4


@pytest.fixture(scope="session")
async def cluster(ray_cluster: None) -> AsyncIterator[None]:
    """The session's Ray; after the last test nothing of ours may be left on it but the supervisors, which outlive their drivers."""
    from tests.kit import ray_state

    yield
    await eventually(lambda: ray_state.named_actors() <= {"supervisor"})
    ray_state.end_supervisors()
    await eventually(lambda: not ray_state.named_actors())
    await eventually(lambda: not ray_state.actor_processes())


@pytest.fixture(scope="session")
async def runtime(cluster: None) -> "AsyncIterator[Runtime]":
    """A warm Runtime that tests share."""
    from runtree import Runtime

    async with Runtime(warm=WARM) as runtime:
        await runtime.warmed()
        yield runtime


@pytest.fixture(scope="session")
async def narrow(cluster: None) -> "AsyncIterator[Runtime]":
    """A Runtime whose streams are full after eight items, and then wait."""
    from runtree import Runtime

    async with Runtime(warm=1, buffer_items=8) as runtime:
        await runtime.warmed()
        yield runtime


@pytest.fixture
def gates(tmp_path: Path) -> Gates:
    folder = tmp_path / "gates"
    folder.mkdir()
    return Gates(folder)


@pytest.fixture(scope="session")
def loopback() -> Iterator[Loopback]:
    with running() as server:
        yield server


@pytest.fixture(scope="session")
def ray_environment(cluster: None) -> dict[str, str]:
    """What makes another process join the session's Ray."""
    import ray

    return {"RAY_ADDRESS": ray.get_runtime_context().gcs_address}
