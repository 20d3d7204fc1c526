"""What holds for every test: a clean environment, no network beyond loopback, Ray only where it is asked for."""

import ipaddress
import os
import re
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parent.parent
RAY_MARKERS = ("cluster", "multinode")

# What a developer's shell may hold and a test must not depend on.
_FOREIGN = re.compile(
    r"(.*_)?(api_key|api_token|auth_token|base_url)|(all|ftp|http|https|no)_proxy|ray_(address|namespace)", re.I
)


class NetworkGuardError(RuntimeError):
    """A test tried to leave the machine.

    Not an OSError, so that code under test does not take it for an ordinary connection failure.
    """


def pytest_configure(config: pytest.Config) -> None:
    """Cleans the environment before any module of ours, or Ray, reads it."""
    # How long an example takes depends on what else the machine does.
    too_slow = hypothesis.HealthCheck.too_slow
    hypothesis.settings.register_profile("no clock", deadline=None, suppress_health_check=[too_slow])
    hypothesis.settings.load_profile("no clock")
    for name in list(os.environ):
        if _FOREIGN.fullmatch(name):
            del os.environ[name]
    # An actor call that forgets ray.init must fail, not start a Ray of its own.
    os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"
    # Ray reads the mode once, when it is first imported. The token of the tests stays out of the developer's home.
    token = Path(tempfile.mkdtemp(prefix="runtree-tests-")) / "auth_token"
    token.write_text(secrets.token_hex(32))
    config.add_cleanup(lambda: shutil.rmtree(token.parent, ignore_errors=True))
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(token)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what uses the session's Ray, and runs the tests that need no Ray first."""
    for item in items:
        if "ray_cluster" in getattr(item, "fixturenames", ()):
            item.add_marker("cluster")
    items.sort(key=_tier)


def _tier(item: pytest.Item) -> int:
    if item.get_closest_marker("multinode"):
        return 2
    return 1 if item.get_closest_marker("cluster") else 0


@pytest.fixture(autouse=True)
def clean_environment() -> Iterator[None]:
    """What a test writes into the environment ends with it."""
    before = dict(os.environ)
    yield
    if os.environ != before:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="session", autouse=True)
def loopback_only() -> Iterator[None]:
    connect, connect_ex, look_up = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def guarded_connect(self: socket.socket, address: Any) -> None:
        _refuse_outside(self, address)
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        _refuse_outside(self, address)
        return connect_ex(self, address)

    def guarded_look_up(host: Any, *arguments: Any, **options: Any) -> Any:
        # To ask for the address of a name is to leave the machine already; the machine's own name is in its own files.
        name = host.decode() if isinstance(host, bytes) else host
        if name and name not in ("localhost", socket.gethostname()) and not _is_number(name):
            raise NetworkGuardError(f"a test asked for the address of {name}; tests speak to loopback addresses only")
        return look_up(host, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", guarded_look_up)
        patch.setattr(socket.socket, "connect", guarded_connect)
        patch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
        yield


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _refuse_outside(sock: socket.socket, address: Any) -> None:
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    host = str(address[0])
    try:
        inside = ipaddress.ip_address(host).is_loopback
    except ValueError:
        inside = host == "localhost"
    if not inside:
        sock.close()  # the callers of connect clean up after an OSError only
        raise NetworkGuardError(f"a test tried to connect to {host}; tests speak to loopback addresses only")


@pytest.fixture(autouse=True)
def ray_only_where_marked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if any(request.node.get_closest_marker(name) for name in RAY_MARKERS):
        return

    def refuse(*_args: object, **_kwargs: object) -> NoReturn:
        pytest.fail("ray.init was called by a test that is marked neither cluster nor multinode", pytrace=True)

    monkeypatch.setattr("ray.init", refuse)


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    """One local Ray for the session; its workers import this checkout."""
    import ray

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))))
        ray.init(
            "local",
            num_cpus=4,
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=200 * 1024**2,
            _system_config={"metrics_report_interval_ms": 1000},  # ten seconds otherwise
        )
        try:
            yield
        finally:
            ray.shutdown()


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of shared fixtures beside the checkout, or where RUNTREE_SHARED says."""
    path = Path(os.environ.get("RUNTREE_SHARED") or ROOT.parent / "shared")
    if not path.is_dir():
        pytest.skip(f"NOT RUN: the shared fixtures are not at {path}; set RUNTREE_SHARED to their folder")
    return path
