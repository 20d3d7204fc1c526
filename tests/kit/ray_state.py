"""What Ray has of ours at the moment: named actors and their processes."""

import importlib
import os
import signal
from pathlib import Path
from typing import Any

import ray
import ray._private.state
import ray._private.worker
import ray.util

_util: Any = ray.util


def named_actors(prefix: str = "", namespace: str | None = None) -> set[str]:
    """The living actors that have a name, which all of runtree's have; of all namespaces or one."""
    return {
        actor["name"]
        for actor in _util.list_named_actors(all_namespaces=True)
        if actor["name"].startswith(prefix) and namespace in (None, actor["namespace"])
    }


def namespaces_of(name: str) -> list[str]:
    """The namespaces that have a living actor of a name."""
    return [actor["namespace"] for actor in _util.list_named_actors(all_namespaces=True) if actor["name"] == name]


def end_supervisors() -> None:
    """Ends what outlives its drivers on purpose."""
    for actor in _util.list_named_actors(all_namespaces=True):
        if actor["name"] == "supervisor":
            ray.kill(ray.get_actor(actor["name"], actor["namespace"]))


def records() -> list[str]:
    """Everything Ray's tables say of actors, jobs and workers, as text; the dead included."""
    state: Any = ray._private.state
    tables: list[Any] = [state.actors().values(), state.jobs(), state.workers().values()]
    return [repr(record) for table in tables for record in table]


def session_folder() -> Path:
    """Where this Ray keeps its files and logs."""
    node: Any = ray._private.worker._global_node
    return Path(node.get_session_dir_path())


def actor_processes() -> set[int]:
    """Ids of the processes of this session's Ray that carry one of our actors."""
    session = session_folder().name.encode()
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            ours = (
                (entry / "cmdline").read_bytes().startswith((b"ray::RunActor", b"ray::StreamQueue", b"ray::Supervisor"))
            )
            # The title hides the command line; the parent is this session's raylet, whose command line tells.
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            if ours and session in (Path("/proc") / parent / "cmdline").read_bytes():
                found.add(int(entry.name))
        except OSError:
            continue
    return found


def shown_names() -> set[str]:
    """What the dashboard and the prefixes of logs call the living actors."""
    accessor: Any = ray._private.state.state._connect_and_get_accessor()
    table: Any = importlib.import_module("ray.core.generated.gcs_pb2").ActorTableData
    rows = [table.FromString(row) for row in accessor.get_actor_table(None, "ALIVE")]
    return {row.repr_name for row in rows}


def metrics_address() -> str:
    """Where Prometheus reads the metrics of this session's node; the agent is there also without a dashboard."""
    nodes: Any = ray.nodes
    (node,) = nodes()
    return f"http://127.0.0.1:{node['MetricsExportPort']}/metrics"


def pid_of(name: str, namespace: str | None = None) -> int:
    """Id of the process of an actor; 0 while it is being started or is gone."""
    states: Any = ray._private.state
    handle: Any = None if namespace is None else ray.get_actor(name, namespace)
    for record in states.actors().values():
        same = record["Name"] == name and (handle is None or record["ActorID"] == handle._actor_id.hex())
        if same and record["State"] == "ALIVE":
            return int(record["Pid"])
    return 0


def kill_supervisor(namespace: str) -> None:
    """Ends the process of a supervisor, which Ray starts again."""
    pid = pid_of("supervisor", namespace)
    assert pid, "it is not there"
    os.kill(pid, signal.SIGKILL)


def end_supervisor(namespace: str) -> None:
    """Ends the supervisor of a namespace for good."""
    ray.kill(ray.get_actor("supervisor", namespace))
