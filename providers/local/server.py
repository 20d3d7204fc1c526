"""One model server for all processes of a user on a node: found if it runs, started if not, left to itself at the end.

A process that asked for a server once counts as its user until it ends.
"""

import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from . import weights
from .errors import LocalExtraMissingError, LocalServerError
from .lock import FileLock
from .server_files import ServerAddress, ServerFiles

START_TIMEOUT = 60.0
"""Seconds a server may take to load its model and to listen."""
SLOTS = 4
"""Requests a server works on at once; more wait in its queue."""
CONTEXT = 4096
"""Tokens of prompt and answer for one request; each takes 23 kB of memory in every slot."""
LINGER = 30.0
"""Seconds a server waits for new users; `RUNTREE_LOCAL_LINGER` changes it."""

_POLL = 0.05
# How long a thread of the server spins for its siblings before it sleeps. libgomp's default of 300,000 burns milliseconds whenever a
# sibling has lost its processor to another process: with one busy process beside it, a server on two processors fell from 70 tokens/s
# to less than one. With 1,000 it kept 20, and 50 when alone.
_SPIN_COUNT = "1000"
_MAIN = Path(__file__).with_name("server_main.py")
_ENVIRONMENT = frozenset(
    ["HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PATH", "PYTHONPATH", "TMPDIR", "VIRTUAL_ENV"]
)

_leases: dict[Path, FileLock] = {}


async def ensure_server(name: str, *, timeout: float = START_TIMEOUT) -> ServerAddress:
    """Return the address of this node's server for a model; start the server if none runs.

    Args:
        name: what stands after `local:`.
        timeout: seconds a server that has to be started may take.

    Raises:
        UnknownModelError: there is no local model of this name.
        LocalExtraMissingError: the package that serves it is not installed.
        WeightsMissingError: its weights are not on this node.
        LocalServerError: the server does not start.
    """
    files = ServerFiles(name)
    # While we hold the lease, a server that lives goes on living.
    if files.lease in _leases and (address := files.address()) is not None:
        return address
    path = weights.require(name)
    if importlib.util.find_spec("xllamacpp") is None:
        problem = "the package xllamacpp is not installed"
        raise LocalExtraMissingError(files.label, problem, 'Run `pip install "runtree[local]"`')
    start = FileLock(files.start)
    try:
        with anyio.move_on_after(timeout + 5):
            while not start.try_acquire():  # noqa: ASYNC110  another process has it, which sets no event
                await anyio.sleep(_POLL)
            await _take_lease(files.lease)
            return await _find_or_start(files, path, timeout)
    finally:
        start.release()
    problem = f"another process has been starting its server for {timeout:.0f} s"
    raise LocalServerError(files.label, problem, f"See {files.log}")


def release_server(name: str) -> None:
    """Stop counting this process as a user of a model's server."""
    if (lease := _leases.pop(ServerFiles(name).lease, None)) is not None:
        lease.release()


async def _take_lease(path: Path) -> None:
    lease = FileLock(path)
    # A server that looks for users holds the lease for a moment.
    while path not in _leases and not lease.try_acquire(shared=True):  # noqa: ASYNC110  as above
        await anyio.sleep(_POLL)
    _leases.setdefault(path, lease)


async def _find_or_start(files: ServerFiles, path: Path, timeout: float) -> ServerAddress:
    """Wait until a server listens, with the start lock held."""
    launched = False
    with anyio.move_on_after(timeout):
        while True:
            if files.alive():
                address = files.address()
                if address is not None and _listens(address):
                    return address
                if address is not None:
                    files.kill()
            elif launched:
                raise files.failure("its server ended while it was starting")
            else:
                await _launch(files, path)
                launched = True
            await anyio.sleep(_POLL)
    files.kill()
    raise files.failure(f"its server did not listen within {timeout:.0f} s")


async def _launch(files: ServerFiles, path: Path) -> None:
    options = {
        "folder": files.folder,
        "stem": files.stem,
        "weights": path,
        "alias": files.name,
        "slots": SLOTS,
        "context": CONTEXT,
        "linger": os.environ.get("RUNTREE_LOCAL_LINGER", LINGER),
    }
    command = [sys.executable, "-P", str(_MAIN), *(f"--{name}={value}" for name, value in options.items())]
    # Keys of other providers are no business of the server, and Ray's OMP_NUM_THREADS would bind it to one processor.
    environment = {name: value for name, value in os.environ.items() if name in _ENVIRONMENT}
    environment.setdefault("GOMP_SPINCOUNT", _SPIN_COUNT)
    log = await anyio.to_thread.run_sync(_open_log, files.log)
    try:
        done = await anyio.run_process(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
            check=False,
        )
    finally:
        os.close(log)
    if done.returncode != 0 and not files.alive():
        raise files.failure(f"its server ended with status {done.returncode}")


def _open_log(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)


def _listens(address: ServerAddress) -> bool:
    # A connection, not a request: a server with a long queue answers late, but the kernel takes connections at once.
    url = urlsplit(address.base_url)
    try:
        socket.create_connection((url.hostname or "", url.port or 0), timeout=2).close()
    except OSError:
        return False
    return True
