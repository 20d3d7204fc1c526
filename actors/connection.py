"""How a driver gets at Ray: a cluster that is named, one that runs, or one of its own."""

import importlib
import os
import socket
from collections.abc import Mapping
from typing import Any, Final

import ray
from ray._private import services  # the only place that knows which cluster `ray start` left on this machine

from ..messages.errors import AddressError

# Ray's exit hook would import it, after which an unhandled Ctrl-C no longer ends a script with 130.
importlib.import_module("ray.dag.compiled_dag_node")

_ray: Any = ray
_services: Any = services
"""Ray's annotations are incomplete; what leaves this module is typed here."""

_QUIET: Final[Mapping[str, Any]] = {"include_dashboard": False, "log_to_driver": False}
_STARTING: Final = frozenset({"num_cpus", "num_gpus", "resources", "object_store_memory", "include_dashboard"})
"""Arguments of `ray.init` that only make sense for a Ray that is being started."""

_PROBE_SECONDS: Final = 5.0


def connect(address: str | None, namespace: str, options: Mapping[str, Any], *, start: bool) -> bool:
    """Join Ray, or start it on this machine. Blocks for some seconds if it has to be started; call it from the main thread.

    Args:
        address: `None`: what `RAY_ADDRESS` says, else a cluster that runs on this machine, else a new one. `"local"`: always a new one.
        namespace: Ray namespace of the job.
        options: Further arguments of `ray.init`.
        start: Whether a new one may be started.

    Returns:
        Whether this process has to shut Ray down.

    Raises:
        AddressError: The address is a Ray Client's, nothing answers there, or there is nothing to join.
    """
    target = address or os.environ.get("RAY_ADDRESS") or None
    if target is not None and target.startswith("ray://"):
        raise AddressError(
            f"address {target!r}",
            "Ray Client can't carry the streams of a run tree",
            "Run the driver on the cluster: `ray job submit --working-dir . -- python driver.py`",
        )
    if is_connected():
        return False
    if target in (None, "auto"):
        running: str | None = _services.find_bootstrap_address(None)
        if running is not None and answers(running):
            # Named, it would be joined without the token that `ray start` gave it: Ray looks for one only when it finds the cluster itself.
            return _join("auto", namespace, options)
        if not start or target == "auto":
            raise AddressError("address", "no Ray is running on this machine", "Start one with `ray start --head`")
    elif target != "local":
        if not answers(target):
            fix = "Check that the head runs there (`ray status`), or leave the address out to use this machine"
            raise AddressError(f"address {target!r}", "no Ray answers there", fix)
        return _join(target, namespace, options)
    _ray.init(address="local", namespace=namespace, **{**_QUIET, **options})
    return True


def is_connected() -> bool:
    """Return whether this process has joined a Ray."""
    connected: bool = _ray.is_initialized()
    return connected


def cluster_address() -> str:
    """Return host and port of the head this process has joined."""
    address: str = _ray.get_runtime_context().gcs_address
    return address


def _join(address: str, namespace: str, options: Mapping[str, Any]) -> bool:
    fitting = {name: value for name, value in options.items() if name not in _STARTING}
    try:
        _ray.init(address=address, namespace=namespace, **{"log_to_driver": False, **fitting})
    except ConnectionError as error:
        fix = "If it asks for a token: RAY_AUTH_MODE=token, and the token in ~/.ray/auth_token or RAY_AUTH_TOKEN_PATH"
        raise AddressError(f"address {address!r}", "the Ray there does not let this process in", fix) from error
    return False


def answers(address: str) -> bool:
    """Return whether something listens there. Ray itself waits for minutes at a dead address, such as one a killed head left behind."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=_PROBE_SECONDS):
            return True
    except (OSError, ValueError):
        return False
