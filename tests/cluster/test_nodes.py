"""Several nodes: one that dies with runs on it (Y08), and runs that are spread over them. They belong to a driver of their own."""

import json
import tempfile
from pathlib import Path

import pytest

from tests.kit.driver import driver, exit_code
from tests.kit.gates import Gates

pytestmark = [pytest.mark.cluster, pytest.mark.multinode, pytest.mark.long]


async def driven(script: str, folder: Path) -> Gates:
    """Runs a driver with nodes of its own to its end; returns the gates it was given."""
    gates = Gates(folder / "gates")
    gates.folder.mkdir()
    # Short: the paths of Ray's sockets are limited in length.
    with tempfile.TemporaryDirectory(prefix="rt") as temp:
        source = script.format(folder=str(gates.folder), temp=temp)
        with driver(source, folder, {}) as process:
            code = await exit_code(process, limit=140)
    assert code == 0, (folder / "stderr").read_text()[-3000:]
    return gates


_NODE_LOSS = """
    import asyncio, json
    from pathlib import Path

    import ray
    from ray.cluster_utils import Cluster

    from runtree import Runtime
    from tests.kit.agents import hold, lead, leaf, user
    from tests.kit.gates import Gates
    from tests.kit.stream_check import check_ledger, check_stream

    gates = Gates(Path({folder!r}))
    small = {{"object_store_memory": 80 * 2**20}}
    # By default a node that says nothing counts as dead after a quarter of a minute.
    checks = {{"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 3}}

    async def main():
        head = {{"num_cpus": 2, "include_dashboard": False, "_system_config": checks, "temp_dir": {temp!r}, **small}}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        ray.init(cluster.address, log_to_driver=False)
        async with Runtime(warm=1) as runtime:
            await runtime.warmed()  # here, and its queue too
            first = cluster.add_node(num_cpus=1, resources={{"side": 1}}, **small)
            tree = lead(user("far", hold, resources={{"side": 1}}), leaf("near"))
            run = await runtime.start(tree, "go", deps=gates)
            await gates.passed("hold")
            cluster.add_node(num_cpus=1, resources={{"side": 1}}, **small)
            cluster.remove_node(first, allow_graceful=False)
            items = []
            async for item in run:
                items.append(item)
                if item.kind == "attempt_discarded":
                    gates.open("go")  # not before: the processes of a dead node live on for a moment
            result = await run.outcome()
        check_stream(items)
        check_ledger(items, result)
        told = [item.run_id for item in items if item.kind == "attempt_discarded"]
        gates.open("runs", json.dumps([
            [record.agent, record.status, record.attempt, told.count(record.run_id)] for record in result.runs
        ]))
        ray.shutdown()
        cluster.shutdown()

    asyncio.run(main())
"""


@pytest.mark.timeout(150)  # three nodes are started, one after the other
async def test_y08_a_child_on_a_lost_node_is_started_again_on_another(tmp_path: Path) -> None:
    gates = await driven(_NODE_LOSS, tmp_path)
    assert sorted(json.loads(gates.content("runs"))) == [
        ["far", "completed", 2, 1],
        ["lead", "completed", 1, 0],
        ["near", "completed", 1, 0],
    ]


_SPREAD = """
    import asyncio, json
    from collections import Counter
    from pathlib import Path

    import ray
    from ray.cluster_utils import Cluster

    from runtree import Runtime
    from tests.kit.agents import lead, tell_node, user
    from tests.kit.gates import Gates

    gates = Gates(Path({folder!r}))
    small = {{"object_store_memory": 80 * 2**20}}

    async def places(runtime, **options):
        before = set(gates.names("node-"))
        run = await runtime.start(lead(user("worker", tell_node, **options), times=6), "go", deps=gates)
        await run.result()
        return Counter(gates.content(name) for name in set(gates.names("node-")) - before)

    async def main():
        head = {{"num_cpus": 2, "include_dashboard": False, "temp_dir": {temp!r}, **small}}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        cluster.add_node(num_cpus=2, **small)
        cluster.wait_for_nodes()
        ray.init(cluster.address, log_to_driver=False)
        async with Runtime(warm=0) as runtime:
            cold = await places(runtime, reuse=False)
        async with Runtime(warm=7) as runtime:
            await runtime.warmed()
            warm = await places(runtime)
        gates.open("places", json.dumps([sorted(cold.values()), sorted(warm.values())]))
        ray.shutdown()
        cluster.shutdown()

    asyncio.run(main())
"""


@pytest.mark.timeout(150)
async def test_n_a_fan_out_is_spread_over_the_nodes(tmp_path: Path) -> None:
    gates = await driven(_SPREAD, tmp_path)
    for counts in json.loads(gates.content("places")):
        assert sum(counts) == 6
        assert len(counts) == 2, f"all of {counts} are on one node"
