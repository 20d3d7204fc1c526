"""`runtree doctor`: what follows from the facts, and the command without and with a Ray."""

import asyncio
import json
from typing import Any

import pytest

from runtree import Runtime
from runtree.cli.doctor_findings import examine
from runtree.messages.diagnosis import Diagnosis, Facts, Finding, Machine, NodeInfo, RayInfo
from runtree.messages.overview import DriverInfo, SupervisorInfo
from runtree.messages.version import VERSION, WIRE_VERSION

from .conftest import Command

GIB = 2**30
HERE = Machine(
    host="here", python="3.11.7", ray="2.60.0", runtree=VERSION, memory=16 * GIB, memory_used=4 * GIB, open_files=65536
)
SUPERVISOR = SupervisorInfo(
    namespace="runtree",
    version=VERSION,
    wire_version=WIRE_VERSION,
    host="here",
    pid=7,
    node_id="n",
    started=0.0,
    live_runs=3,
    ended_runs=1000,
    store="/tmp/state.db",  # noqa: S108 - a name, nobody opens it
    drivers=(DriverInfo(driver_id="d", host="here", pid=8, version=VERSION, live_runs=3, warm_idle=2, held=3),),
)


def node(**fields: Any) -> NodeInfo:
    resources = {"CPU": 4.0, "memory": 8.0 * GIB, "object_store_memory": 2.0 * GIB}
    given = {"node_id": "n", "address": "10.0.0.1", "head": True, "resources": resources, "object_store": 2 * GIB}
    return NodeInfo(**{**given, "machine": HERE, **fields})


def facts(*nodes: NodeInfo, **fields: Any) -> Facts:
    available = fields.pop("available", {"CPU": 4.0, "memory": 8.0 * GIB})
    ray = RayInfo(address="10.0.0.1:6379", token=True, nodes=nodes or (node(),), available=available)
    return Facts(**{"namespace": "runtree", "here": HERE, "ray": ray, "supervisor": SUPERVISOR, **fields})


def problems(seen: Facts) -> list[Finding]:
    return [finding for finding in examine(seen) if finding.tone == "bad"]


def machine(**fields: Any) -> Machine:
    return HERE.model_copy(update=fields)


def test_a_sound_cluster_has_no_problems_and_is_described() -> None:
    seen = facts(keys={"OPENAI_API_KEY": True, "GROQ_API_KEY": False})
    assert not problems(seen)
    text = "\n".join(finding.text for finding in examine(seen))
    assert "at 10.0.0.1:6379, 1 node" in text
    assert "room for 85 more processes" in text
    assert f"Python 3.11.7, Ray 2.60.0, runtree {VERSION}" in text
    assert "3 live runs, 1,000 ended ones remembered; state: /tmp/state.db" in text
    assert "pool 2 warm and idle, 3 held" in text
    assert "OPENAI_API_KEY" in text
    assert "GROQ" not in text


@pytest.mark.parametrize(
    "seen, says, fix",
    [
        (facts(node(machine=machine(runtree="0.0.1"))), "runtree 0.0.1: this driver has", "same version"),
        (facts(node(machine=machine(runtree=None))), "runtree can't be imported there", "Install runtree"),
        (facts(node(machine=machine(ray="2.61.0"))), "Ray 2.61.0", "same Ray"),
        (facts(node(machine=machine(python="3.12.1"))), "Python 3.12.1", "same Python"),
        (facts(node(machine=None, problem="a task did not run")), "a task did not run", "ray status"),
        (facts(node(machine=machine(memory_used=15 * GIB))), "15.0 GiB of 16.0 GiB of memory", "95 %"),
        (facts(node(machine=machine(memory_monitor=False))), "memory monitor is off", "RAY_memory_monitor_refresh_ms"),
        (facts(node(machine=machine(shared_memory=GIB // 16))), "(/dev/shm) has 0.1 GiB", "--shm-size"),
        (facts(node(machine=machine(disk=100 * GIB, disk_free=GIB))), "disk of Ray's files is full", "--temp-dir"),
        (facts(node(object_store_used=2 * GIB)), "object store is full", "--object-store-memory"),
        (facts(available={"CPU": 4.0}), "no node has memory left", "runtree ps"),
        (facts(here=machine(open_files=1024)), "may open 1,024 files", "ulimit -n"),
        (facts(supervisor=None, supervisor_problem="too old"), "did not tell what it is: too old", "runtree down"),
        (facts(supervisor=SUPERVISOR.model_copy(update={"problem": "disk full"})), "can't work: disk full", "Repair"),
        (
            facts(supervisor=SUPERVISOR.model_copy(update={"version": "9"})),
            "its supervisor runs runtree 9",
            "runtree down --namespace runtree",
        ),
        (
            facts(ray=None, supervisor=None, wished_address="10.9.9.9:6379", ray_problem="no Ray answers there"),
            "no Ray answers there",
            "RAY_ADDRESS",
        ),
        (facts(ray=None, supervisor=None, port_taken=True), "something listens at port 6379", "--port=6380"),
    ],
)
def test_each_problem_is_found_alone_and_comes_with_a_fix(seen: Facts, says: str, fix: str) -> None:
    (found,) = problems(seen)
    assert says in found.text
    assert fix in found.fix


def test_a_patch_of_python_is_no_problem() -> None:
    assert not problems(facts(node(machine=machine(python="3.11.9"))))


def test_no_token_is_told_only_of_a_ray_that_others_reach() -> None:
    def told(address: str) -> bool:
        ray = RayInfo(
            address=f"{address}:6379", token=False, nodes=(node(address=address),), available={"memory": 1e12}
        )
        return any("shows no token" in finding.text for finding in examine(facts(ray=ray)))

    assert told("10.0.0.1")
    assert not told("127.0.0.1")


def test_without_ray_it_says_what_to_do_and_starts_none(runtree: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ray.init` fails a test that is not marked; nothing of Ray is found because its files are looked for elsewhere."""
    monkeypatch.setattr("runtree.actors.connection._services.find_bootstrap_address", lambda _: None)
    monkeypatch.setattr("runtree.cli.doctor_facts.HEAD_PORT", 1)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-value-that-is-never-shown")
    done = runtree("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no Ray is running on this machine" in done.stdout
    assert "`ray start --head`" in done.stdout
    assert "+ OPENAI_API_KEY" in done.stdout
    assert done.stdout.endswith("\nno problems\n")
    told = runtree("doctor", "--json")
    assert Diagnosis.from_json(told.stdout).facts.keys["OPENAI_API_KEY"] is True
    assert "never-shown" not in done.stdout + told.stdout + done.stderr + told.stderr


def test_an_address_where_nothing_answers_is_a_problem(runtree: Command) -> None:
    done = runtree("doctor", "--address", "127.0.0.1:1", "--json")
    assert done.returncode == 1
    texts = [finding["text"] for finding in json.loads(done.stdout)["findings"] if finding["tone"] == "bad"]
    assert texts[0].startswith("address '127.0.0.1:1': no Ray answers there")


async def test_on_a_cluster_it_tells_nodes_and_supervisor(ray_cluster: None, runtree: Command) -> None:
    async with Runtime(namespace="examined", warm=1) as runtime:
        await runtime.warmed()
        done = await asyncio.to_thread(runtree, "doctor", "--namespace", "examined", "--json")
    seen = Diagnosis.from_json(done.stdout).facts
    assert seen.ray is not None
    assert seen.ray.token, "the session of the tests has one"
    (only,) = seen.ray.nodes
    assert only.head
    assert only.problem is None
    assert only.machine == seen.here.model_copy(
        update={
            name: getattr(only.machine, name) for name in ("memory_used", "disk_free", "open_files", "memory_monitor")
        }
    )
    assert only.object_store == 200 * 2**20
    assert only.object_store_used is not None
    assert seen.supervisor is not None
    assert [(driver.warm_idle, driver.held) for driver in seen.supervisor.drivers] == [(1, 0)]
    assert seen.supervisor.version == VERSION
    assert seen.supervisor.store is not None
    assert seen.supervisor.store.endswith("examined.db")
    assert not seen.supervisor.problem
