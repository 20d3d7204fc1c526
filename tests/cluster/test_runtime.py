"""A Runtime and its neighbours: namespaces, versions, what it refuses, and what is left when it is gone."""

import threading
from typing import Any

import anyio
import pytest
import ray
from ray.exceptions import RayTaskError

from runtree import (
    Agent,
    AgentDefinitionError,
    ConfigurationError,
    LimitExceededError,
    Limits,
    MissingSecretError,
    NotPicklableError,
    RunFailedError,
    Runtime,
    RuntimeClosedError,
    UnknownModelError,
    VersionMismatchError,
    tool,
)
from runtree.actors import open_runtime as open_runtime_module
from runtree.actors.observer import Observer
from runtree.messages.errors import AddressError
from runtree.messages.version import VERSION, WIRE_VERSION
from runtree.providers.chat.model import OpenAIChat
from runtree.providers.scripted import ScriptedModel
from tests.kit import ray_state
from tests.kit.agents import block_async, die, hold, lead, leaf, silent, user
from tests.kit.eventually import eventually
from tests.kit.gates import Gates


async def test_y03_ended_runs_leave_no_actor(runtime: Runtime, gates: Gates) -> None:
    await runtime.warmed()
    actors, processes = ray_state.named_actors(), ray_state.actor_processes()
    await runtime.run(lead(leaf("warm"), leaf("cold", reuse=False), times=2), "go")
    await eventually(lambda: ray_state.named_actors() <= actors)
    await eventually(lambda: ray_state.actor_processes() <= processes)


async def test_y03_closed_runtime_leaves_no_actor(runtime: Runtime, gates: Gates) -> None:
    """Also when it is left in the middle of runs, of which one does not want to end, and of starting its pool."""
    await runtime.warmed()
    actors = ray_state.named_actors()
    async with Runtime(warm=2, queue_actors=2) as other:
        run = await other.start(lead(user("blocked", block_async), silent(reuse=False)), "go", deps=gates)
        await gates.passed("block_async")
    assert run.status == "cancelled"
    await eventually(lambda: ray_state.named_actors() <= actors)
    assert not [info for info in await runtime.runs() if info.root_run_id == run.run_id]


async def test_y03_block_left_by_an_exception_cancels(runtime: Runtime, gates: Gates) -> None:
    run_ids = []

    async def drive() -> None:
        async with Runtime(warm=0) as other:
            run = await other.start(user("holder", hold), "go", deps=gates)
            run_ids.append(run.run_id)
            await gates.passed("hold")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await drive()
    assert {info.run_id: info.status for info in await runtime.runs(all=True)}[run_ids[0]] == "cancelled"


async def test_y03_block_left_by_a_cancel_cancels(
    runtime: Runtime, gates: Gates, capsys: pytest.CaptureFixture[str]
) -> None:
    run_ids = []

    async def drive() -> None:
        async with Runtime(warm=0) as other:
            run = await other.start(user("holder", hold), "go", deps=gates)
            run_ids.append(run.run_id)
            await run.result()

    async with anyio.create_task_group() as group:
        group.start_soon(drive)
        await gates.passed("hold")
        group.cancel_scope.cancel()
    assert {info.run_id: info.status for info in await runtime.runs(all=True)}[run_ids[0]] == "cancelled"
    assert f"cancelled {run_ids[0]}" in capsys.readouterr().err


async def test_s11_lost_and_worn_out_warm_actors_are_replaced(runtime: Runtime, gates: Gates) -> None:
    await runtime.warmed()
    before = ray_state.named_actors("run:warm:")
    with pytest.raises(RunFailedError):
        await runtime.run(user("victim", die), "go", deps=gates)
    await runtime.warmed()
    await eventually(lambda: len(ray_state.named_actors("run:warm:")) == len(before))
    assert ray_state.named_actors("run:warm:") != before


async def test_y06_one_namespace_one_supervisor(runtime: Runtime, narrow: Runtime, gates: Gates) -> None:
    async with Runtime(namespace="elsewhere", warm=0) as stranger:
        run = await runtime.start(user("holder", hold), "go", deps=gates)
        await gates.passed("hold")
        assert run.run_id in {info.run_id for info in await narrow.runs()}
        assert await stranger.runs(all=True) == ()
        assert not (await stranger.cancel(run.run_id)).was_live
        gates.open("go")
        assert (await run.result()).output == "done"
        namespaces = ray_state.namespaces_of("supervisor")
        assert len(set(namespaces)) == len(namespaces)
        kept = ray_state.session_folder() / "runtree" / "elsewhere.db"
        assert kept.exists()
        async with Observer(namespace="elsewhere") as observer:
            assert await observer.down()
            assert not await observer.down()
        assert not kept.exists()


async def test_y05_supervisor_of_another_version(runtime: Runtime) -> None:
    supervisor: Any = ray.get_actor("supervisor", "runtree")
    for versions in ((WIRE_VERSION, "0.0.0"), (WIRE_VERSION + 1, VERSION)):
        with pytest.raises(RayTaskError, match="runtree down") as caught:
            await supervisor.start.remote(*versions)
        assert isinstance(caught.value.cause, VersionMismatchError)


async def test_y05_node_of_another_version(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver claims to be another version than the actors, which is what a node with another one installed looks like."""
    monkeypatch.setattr(open_runtime_module, "VERSION", "0.0.0")
    with pytest.raises(RunFailedError, match=r"0\.0\.0") as caught:
        await runtime.run(leaf(), "go")
    assert caught.value.failure().code == "version_mismatch"


async def test_y04_ray_client_is_refused() -> None:
    with pytest.raises(AddressError, match="ray job submit"):
        await Runtime("ray://localhost:10001").__aenter__()


async def test_y02_nobody_has_the_resource(cluster: None) -> None:
    async with Runtime(warm=0, schedule_timeout=3.0) as runtime:
        with pytest.raises(RunFailedError, match="unobtainium=1"):
            await runtime.run(leaf(resources={"unobtainium": 1}), "go")
        await eventually(lambda: not ray_state.named_actors("run:leaf"))


def unpicklable() -> Agent:
    lock = threading.Lock()

    @tool
    def guarded() -> str:
        """Uses a lock."""
        with lock:
            return "x"

    return user("guarded", guarded)


REFUSED: list[tuple[str, Any, dict[str, Any], type[Exception], str]] = [
    ("model", lambda: Agent("a", "nobody:x"), {}, UnknownModelError, "nobody"),
    ("tool", unpicklable, {}, NotPicklableError, "guarded"),
    ("deps", leaf, {"deps": threading.Lock()}, NotPicklableError, "deps"),
    ("key", lambda: Agent("a", "openai-chat:gpt-5"), {}, MissingSecretError, "OPENAI_API_KEY"),
    ("sub-agent", lambda: Agent("a", ScriptedModel([]), agents=["nobody"]), {}, AgentDefinitionError, "nobody"),
    ("messages", leaf, {"messages": [object()]}, ConfigurationError, "messages"),
    ("tags", leaf, {"tags": {"a": object()}}, ConfigurationError, "tags"),
]


@pytest.mark.parametrize(
    "make, options, error, names", [each[1:] for each in REFUSED], ids=[each[0] for each in REFUSED]
)
async def test_start_refuses_what_can_not_work(
    runtime: Runtime, make: Any, options: dict[str, Any], error: type[Exception], names: str
) -> None:
    with pytest.raises(error, match=names):
        await runtime.start(make(), "go", **options)
    assert await runtime.runs() == ()


async def test_key_given_to_the_runtime(cluster: None, runtime: Runtime) -> None:
    async with Runtime(warm=0, secrets={"OPENAI_API_KEY": "sk-given"}) as keyed:
        run = await keyed.start(Agent("a", OpenAIChat("m", base_url="http://127.0.0.1:9/v1")), "go")
        assert (await run.outcome()).status == "failed"


async def test_closed_runtime_says_so() -> None:
    with pytest.raises(RuntimeClosedError, match="async with"):
        await Runtime().start(leaf(), "go")


@pytest.mark.parametrize(
    "options",
    [
        {"warm": -1},
        {"buffer_items": 0},
        {"buffer_bytes": 0},
        {"queue_actors": 0},
        {"overflow": "explode"},
        {"journal": "sqlite:///x"},
    ],
)
def test_wrong_options_name_themselves(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        Runtime(**options)


async def test_limits_of_the_root_itself(runtime: Runtime) -> None:
    with pytest.raises((LimitExceededError, RunFailedError), match="deadline"):
        await runtime.run(silent(), "go", limits=Limits(deadline=0.3))
    assert await runtime.runs() == ()


async def test_y12_warm_actors_are_not_lent_to_another_driver(runtime: Runtime, gates: Gates) -> None:
    await runtime.warmed()
    async with Runtime(warm=0) as other:
        run = await other.start(user("holder", hold), "go", deps=gates)
        await gates.passed("hold")
        assert ray_state.named_actors("run:holder:"), "it runs on an actor of its own"
        gates.open("go")
        assert (await run.result()).output == "done"
