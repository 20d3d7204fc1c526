"""The model server of a node: llama.cpp's own HTTP server in a process that ends when nobody uses it.

Started by path, not by module name: this file needs the standard library and `xllamacpp` alone, and importing the package would cost the
server a second and a hundred megabytes for nothing.

Four files of one folder tie it to its users. All locks are `flock`s, which the kernel frees when a process ends, however it ends:

* `STEM.lock`: held by whoever starts or ends a server,
* `STEM.alive`: held by the server as long as it lives; its text is the process id,
* `STEM.lease`: held shared by every user; a server that can hold it alone has no users,
* `STEM.json`: address and token, readable by this user only, there once the server listens.
"""

import argparse
import fcntl
import importlib
import json
import os
import secrets
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

STATUS_ALREADY_RUNNING = 3


def main() -> None:
    """Detach, serve, and end when the last user is gone."""
    options = _options()
    os.umask(0o077)
    alive = _open(options.folder / f"{options.stem}.alive")
    if not _lock_soon(alive):
        sys.exit(STATUS_ALREADY_RUNNING)
    state = options.folder / f"{options.stem}.json"
    state.unlink(missing_ok=True)
    # A child of the starter would be killed with it: Ray ends the children of an actor it kills. An orphan isn't. The lock is on
    # the open file, which both processes share, so it is never free in between.
    if os.fork() > 0:
        os._exit(0)
    os.ftruncate(alive, 0)
    os.write(alive, str(os.getpid()).encode())
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    token = secrets.token_urlsafe(32)
    server = _serve(options, token)
    _publish(state, {"base_url": f"{server.listening_address}/v1", "api_key": token, "pid": os.getpid()})
    _watch(options, stop)
    state.unlink(missing_ok=True)
    os._exit(0)  # the kernel takes the rest, in one go and without a chance to hang


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--stem", required=True)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--alias", required=True)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--linger", type=float, default=30.0)
    return parser.parse_args()


def _serve(options: argparse.Namespace, token: str) -> Any:
    xllamacpp: Any = importlib.import_module("xllamacpp")  # ships no types
    params = xllamacpp.CommonParams()
    params.model.path = options.weights
    params.model_alias = {options.alias}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [token]
    params.n_parallel = options.slots
    params.n_ctx = options.slots * options.context
    params.kv_unified = False  # each slot has its own context: no request can starve another one of memory
    params.fit_params = False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = _processors()
    params.n_gpu_layers = 0
    params.cache_ram_mib = 0  # no cache of prompts beside the slots
    params.cache_idle_slots = False
    params.n_ctx_checkpoints = 0
    params.ui = False
    params.endpoint_slots = params.endpoint_props = params.endpoint_metrics = False
    params.cors_origins = ""
    params.verbosity = 2  # warnings and errors; prompts are not logged
    return xllamacpp.Server(params)  # returns when the model is loaded and the port listens


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _publish(path: Path, state: dict[str, object]) -> None:
    partial = path.with_suffix(".partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(state, file)
    partial.replace(path)


def _watch(options: argparse.Namespace, stop: threading.Event) -> None:
    """Return when nobody held the lease for `linger` seconds, with the start lock held, or when `stop` is set."""
    lease = _open(options.folder / f"{options.stem}.lease")
    start = _open(options.folder / f"{options.stem}.lock")
    interval = max(0.05, min(1.0, options.linger / 4))
    last_used = time.monotonic()
    while not stop.wait(interval):
        if not _is_free(lease):
            last_used = time.monotonic()
        elif time.monotonic() - last_used >= options.linger and _try_lock(start):
            # Users take the lease under the start lock: nobody can come between this look and our end.
            if _is_free(lease):
                return
            fcntl.flock(start, fcntl.LOCK_UN)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _lock_soon(descriptor: int) -> bool:
    # Processes that look whether a server lives hold the lock for a moment.
    deadline = time.monotonic() + 2
    while not _try_lock(descriptor):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_free(descriptor: int) -> bool:
    free = _try_lock(descriptor)
    if free:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    return free


if __name__ == "__main__":
    main()
