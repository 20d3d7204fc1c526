"""What follows from the facts of `runtree doctor`. No I/O."""

from collections.abc import Iterator
from typing import Final

from ..messages.diagnosis import Facts, Finding, Machine, NodeInfo, RayInfo, Tone
from ..messages.overview import SupervisorInfo
from ..messages.version import VERSION, WIRE_VERSION
from .figures import count_text

_FULL: Final = 0.9
"""Share of a memory or a store from which on it counts as full; Ray ends processes at 0.95 of a machine's memory."""

_DISK_FULL: Final = 0.95
"""Share of a disk from which on Ray refuses to write objects."""

_RUN_MEMORY: Final = 96 * 2**20
"""What a run asks of its node if nothing else is said."""

_LEAST_FILES: Final = 4096
"""A driver with a few hundred runs has a connection to each."""

_LOOPBACK: Final = ("127.", "localhost", "::1")


def examine(facts: Facts) -> list[Finding]:
    """Return everything worth saying, topic by topic."""
    findings = [*_ray(facts)]
    if facts.ray is not None:
        for node in facts.ray.nodes:
            findings.extend(_node(node, facts.here))
    else:
        findings.extend(_machine("this machine", facts.here))
    if facts.here.open_files and facts.here.open_files < _LEAST_FILES:
        text = f"a process may open {facts.here.open_files:,} files and sockets: too few for some hundred runs"
        findings.append(_bad("this machine", text, "ulimit -n 65536, in the shell that starts Ray and the driver"))
    findings.extend(_supervisor(facts))
    findings.extend(_keys(facts))
    findings.extend(Finding(topic="optional parts", tone="plain", text=text) for text in _extras(facts))
    return findings


def _ray(facts: Facts) -> Iterator[Finding]:
    ray = facts.ray
    if ray is not None:
        yield from _found_ray(ray)
        return
    if facts.wished_address is not None:
        fix = "Correct --address or RAY_ADDRESS, or leave it out to use this machine"
        yield _bad("Ray", facts.ray_problem or "it could not be joined", fix)
        return
    fix = "runtree run and Runtime() start one of their own; `ray start --head` starts one that programs share"
    yield Finding(
        topic="Ray", tone="plain", text="no Ray is running on this machine, and no address was named", fix=fix
    )
    if facts.port_taken:
        fix = "If it is no Ray: ray start --head --port=6380. If it is one: RAY_ADDRESS=127.0.0.1:6379"
        yield _bad("Ray", "something listens at port 6379, where `ray start --head` wants to", fix)


def _found_ray(ray: RayInfo) -> Iterator[Finding]:
    totals: dict[str, float] = {}
    for node in ray.nodes:
        for name, amount in node.resources.items():
            totals[name] = totals.get(name, 0) + amount
    yield _good("Ray", f"at {ray.address}, {count_text(len(ray.nodes), 'node')}")
    told = [
        _resource(name, totals[name], ray.available.get(name, 0)) for name in ("CPU", "GPU", "memory") if name in totals
    ]
    runs = int(ray.available.get("memory", 0) // _RUN_MEMORY)
    yield Finding(
        topic="Ray",
        tone="plain",
        text=f"{', '.join(told)}: room for {runs:,} more {'process' if runs == 1 else 'processes'}",
    )
    if not runs and ray.nodes:
        fix = "End what holds it (`runtree ps`, `ray list actors`), add nodes, or start Ray with more --memory"
        yield _bad("Ray", "no node has memory left for another run", fix)
    if ray.dead_nodes:
        yield Finding(topic="Ray", tone="plain", text=f"{count_text(ray.dead_nodes, 'node')} left or were lost")
    outside = any(not node.address.startswith(_LOOPBACK) for node in ray.nodes)
    if ray.token:
        yield _good("Ray", "token authentication is on in this process")
    elif outside:
        text = "this process shows no token: whoever reaches a Ray without tokens can run code on it"
        fix = "If Ray was started with tokens, set RAY_AUTH_MODE=token; see `ray get-auth-token --generate`"
        yield Finding(topic="Ray", tone="plain", text=text, fix=fix)


def _resource(name: str, total: float, available: float) -> str:
    if name == "memory":
        return f"{_gib(available)} of {_gib(total)} of memory free"
    return f"{available:g} of {total:g} {name} free"


def _node(node: NodeInfo, here: Machine) -> Iterator[Finding]:
    topic = f"node {node.address}" + (" (head)" if node.head else "")
    machine = node.machine
    if machine is None:
        fix = "Look at `ray status` and the load of the node; a lost node leaves the list after half a minute"
        yield _bad(topic, node.problem or "it told nothing", fix)
    else:
        yield from _versions(topic, machine, here)
        yield from _machine(topic, machine, node.object_store)
    used = node.object_store_used or 0
    if node.object_store and used > _FULL * node.object_store:
        text = f"the object store is full: {_gib(used)} of {_gib(node.object_store)}"
        fix = "End programs that hold objects (`ray memory`), or start Ray with more --object-store-memory"
        yield _bad(topic, text, fix)


def _versions(topic: str, machine: Machine, here: Machine) -> Iterator[Finding]:
    told = f"Python {machine.python}, Ray {machine.ray}, runtree {machine.runtree or 'missing'}"
    if machine.runtree is None:
        fix = f"Install runtree {here.runtree} there, or give it to the job: ray job submit --runtime-env-json …"
        yield _bad(topic, f"runtree can't be imported there ({told})", fix)
    elif machine.runtree != here.runtree:
        fix = "Install the same version on every node and for the driver"
        yield _bad(topic, f"{told}: this driver has runtree {here.runtree}", fix)
    elif machine.ray != here.ray or _minor(machine.python) != _minor(here.python):
        fix = "Ray wants the same Ray and the same Python (3.x) on both sides"
        yield _bad(topic, f"{told}: this driver has Python {here.python}, Ray {here.ray}", fix)
    else:
        yield _good(topic, told)


def _machine(topic: str, machine: Machine, object_store: int = 0) -> Iterator[Finding]:
    if machine.memory:
        used = machine.memory_used / machine.memory
        text = f"{_gib(machine.memory_used)} of {_gib(machine.memory)} of memory in use"
        if used > _FULL:
            fix = "Ray ends the newest processes at 95 %: use fewer warm processes, pack runs, or take a bigger machine"
            yield _bad(topic, text, fix)
        else:
            yield Finding(topic=topic, tone="plain", text=text)
    if not machine.memory_monitor:
        fix = "Leave RAY_memory_monitor_refresh_ms out, so that Ray ends one process instead of the system ending any"
        yield _bad(topic, "Ray's memory monitor is off", fix)
    if machine.shared_memory and machine.shared_memory < object_store:
        text = (
            f"shared memory (/dev/shm) has {_gib(machine.shared_memory)}, the object store wants {_gib(object_store)}"
        )
        fix = "Objects go to the disk instead, which is slow. In a container: --shm-size, as large as the object store"
        yield _bad(topic, text, fix)
    if machine.disk and machine.disk_free < (1 - _DISK_FULL) * machine.disk:
        text = f"the disk of Ray's files is full: {_gib(machine.disk_free)} of {_gib(machine.disk)} are free"
        yield _bad(topic, text, "Delete old sessions in /tmp/ray, or start Ray with --temp-dir on another disk")


def _supervisor(facts: Facts) -> Iterator[Finding]:
    topic = f"namespace {facts.namespace}"
    if facts.supervisor_problem is not None:
        fix = f"If it is of another version: runtree down --namespace {facts.namespace}"
        yield _bad(topic, f"its supervisor did not tell what it is: {facts.supervisor_problem}", fix)
    elif facts.supervisor is not None:
        yield from _told_supervisor(topic, facts.supervisor)
    elif facts.ray is not None:
        yield Finding(topic=topic, tone="plain", text="it has no supervisor; the first driver starts one")


def _told_supervisor(topic: str, info: SupervisorInfo) -> Iterator[Finding]:
    where = f"process {info.pid} on {info.host}"
    if (info.version, info.wire_version) != (VERSION, WIRE_VERSION):
        theirs, ours = f"{info.version} (protocol {info.wire_version})", f"{VERSION} (protocol {WIRE_VERSION})"
        fix = f"runtree down --namespace {info.namespace} ends it with all runs, or install the same version"
        yield _bad(topic, f"its supervisor runs runtree {theirs}, this is {ours}; {where}", fix)
    else:
        yield _good(topic, f"its supervisor is up: runtree {info.version}, protocol {info.wire_version}, {where}")
    if info.problem:
        fix = f"Repair what it says, or give up what runs: runtree down --namespace {info.namespace}"
        yield _bad(topic, f"its supervisor can't work: {info.problem}", fix)
    store = info.store or "kept nowhere"
    text = f"{count_text(info.live_runs, 'live run')}, {info.ended_runs:,} ended ones remembered; state: {store}"
    yield Finding(topic=topic, tone="plain", text=text)
    for driver in info.drivers:
        pool = f"{driver.warm_idle} warm and idle, {driver.held} held"
        runs = count_text(driver.live_runs, "live run")
        text = f"driver {driver.host}:{driver.pid} (runtree {driver.version}): {runs}, pool {pool}"
        yield Finding(topic=topic, tone="plain", text=text)


def _keys(facts: Facts) -> Iterator[Finding]:
    present = [name for name, there in facts.keys.items() if there]
    topic = "keys in this environment"
    if present:
        yield _good(topic, ", ".join(present))
    else:
        fix = "Export the one your models need, or pass Runtime(secrets=…); local and scripted models need none"
        yield Finding(topic=topic, tone="plain", text="none of those that model strings ask for", fix=fix)


def _extras(facts: Facts) -> Iterator[str]:
    for name, there in facts.extras.items():
        yield f"{name}: {'here' if there else 'not here'}"


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


def _gib(size: float) -> str:
    return f"{size / 2**30:,.1f} GiB"


def _good(topic: str, text: str) -> Finding:
    return Finding(topic=topic, tone="good", text=text)


def _bad(topic: str, text: str, fix: str) -> Finding:
    tone: Tone = "bad"
    return Finding(topic=topic, tone=tone, text=text, fix=fix)
