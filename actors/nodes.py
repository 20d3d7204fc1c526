"""The nodes of the Ray this process has joined, and what a task sees on each of them."""

import asyncio
import sys
from typing import Any, Final

import ray
from ray import cloudpickle
from ray._private import internal_api  # the only place that tells how full the object stores are
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ..messages.diagnosis import Machine, NodeInfo, RayInfo
from .connection import cluster_address

_ray: Any = ray
_internal: Any = internal_api
_pickle: Any = cloudpickle
_affinity: Any = NodeAffinitySchedulingStrategy
"""Ray's annotations are incomplete; what leaves this module is typed here."""

PROBE_SECONDS: Final = 20.0
"""For a task on a node: a cold process takes a second or two to start."""


async def ray_info() -> RayInfo:
    """Return what the cluster says of itself, and what a task on each living node sees; takes `PROBE_SECONDS` at most for all tasks together."""
    rows: list[dict[str, Any]] = await asyncio.to_thread(_ray.nodes)
    living = [row for row in rows if row["Alive"]]
    nodes = await asyncio.gather(*map(_node, living))
    available: dict[str, float] = await asyncio.to_thread(_ray.available_resources)
    return RayInfo(
        address=cluster_address(),
        token=_has_token(),
        nodes=tuple(sorted(nodes, key=lambda node: (not node.head, node.address))),
        dead_nodes=len(rows) - len(living),
        available=_plain(available),
    )


async def _node(row: dict[str, Any]) -> NodeInfo:
    info = NodeInfo(
        node_id=row["NodeID"],
        address=row["NodeManagerAddress"],
        head="node:__internal_head__" in row["Resources"],
        resources=_plain(row["Resources"]),
        object_store=int(row["Resources"].get("object_store_memory", 0)),
    )
    used, seen = await asyncio.gather(_object_store_used(row), _probe(info.node_id))
    told = {"machine": seen} if isinstance(seen, Machine) else {"problem": seen}
    return info.model_copy(update={"object_store_used": used, **told})


async def _probe(node_id: str) -> "Machine | str":
    """Return what a task sees on a node, or why none could be run there."""
    reference = None
    try:
        # By value: the node may have another runtree, or none.
        _pickle.register_pickle_by_value(_this_module())
        try:
            task = _ray.remote(num_cpus=0, max_retries=0)(see)
            # Soft, since a hard wish for a node that just left would wait for it.
            strategy = _affinity(node_id=node_id, soft=True)
            reference = task.options(scheduling_strategy=strategy, name="runtree doctor").remote()
        finally:
            _pickle.unregister_pickle_by_value(_this_module())
        async with asyncio.timeout(PROBE_SECONDS):
            seen_on, seen = await reference
    except TimeoutError:
        _ray.cancel(reference, force=True)
        return f"a task did not run on it within {PROBE_SECONDS:g} s"
    except RayError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return f"a task on it failed: {lines[-1] if lines else type(error).__name__}"
    return Machine.model_validate(seen) if seen_on == node_id else "a task for it ran on another node"


def _this_module() -> Any:
    return sys.modules[__name__]


def see() -> "tuple[str, dict[str, Any]]":
    """Return the node and the fields of its `Machine`. Runs where only Ray may be installed, so that everything is imported inside."""
    import importlib
    import os
    import platform
    import resource
    import shutil

    load: Any = importlib.import_module
    ray = load("ray")
    memory, files = ray._private.utils, ray._common.utils

    def number(read: "Any") -> int:
        try:
            return int(read())
        except Exception:  # noqa: BLE001 - private corners of Ray, and files that another system does not have
            return 0

    try:
        runtree = load("runtree.messages.version").VERSION
    except ImportError:
        runtree = None
    most_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    node_id = ray.get_runtime_context().get_node_id() if ray.is_initialized() else ""
    return node_id, {
        "host": platform.node(),
        "python": platform.python_version(),
        "ray": ray.__version__,
        "runtree": runtree,
        "memory": number(lambda: memory.get_system_memory()),
        "memory_used": number(lambda: memory.get_used_memory()),
        "shared_memory": number(lambda: shutil.disk_usage("/dev/shm").total),  # noqa: S108 - it is looked at, not used
        "disk": number(lambda: shutil.disk_usage(files.get_default_system_temp_dir()).total),
        "disk_free": number(lambda: shutil.disk_usage(files.get_default_system_temp_dir()).free),
        "open_files": 0 if most_files == resource.RLIM_INFINITY else most_files,
        "memory_monitor": os.environ.get("RAY_memory_monitor_refresh_ms") != "0",  # noqa: SIM112 - Ray spells it so
    }


def here() -> Machine:
    """Return what this process sees of its machine; needs no Ray."""
    return Machine.model_validate(see()[1])


async def _object_store_used(row: dict[str, Any]) -> int | None:
    def ask() -> int:
        stats = _internal.node_stats(row["NodeManagerAddress"], row["NodeManagerPort"], include_memory_info=False)
        return int(stats.store_stats.object_store_bytes_used)

    try:
        async with asyncio.timeout(PROBE_SECONDS):
            return await asyncio.to_thread(ask)
    except Exception:  # noqa: BLE001 - a private corner of Ray, which may raise anything; the rest does not hang on it
        return None


def _has_token() -> bool:
    """Return whether Ray's token authentication is on in this process."""
    raylet: Any = _ray._raylet
    return bool(raylet.get_authentication_mode() == raylet.AuthenticationMode.TOKEN)


def _plain(resources: dict[str, float]) -> dict[str, float]:
    """Return resources without the names of nodes."""
    return {name: amount for name, amount in sorted(resources.items()) if not name.startswith("node:")}
