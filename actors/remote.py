"""The border to Ray: how actors are made, found, called and ended, and what their errors mean here.

Every error that Ray raises for a call is turned into one of ours in `call`; nothing else in the package catches Ray's exceptions.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import ray
from ray._common.constants import HEAD_NODE_RESOURCE_NAME
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    GetTimeoutError,
    NodeDiedError,
    ObjectStoreFullError,
    OutOfMemoryError,
    OwnerDiedError,
    RayActorError,
    RayError,
    RayTaskError,
    TaskCancelledError,
    WorkerCrashedError,
)
from ray.util import scheduling_strategies

from ..messages.errors import RuntimeUnavailableError, RuntreeError

Handle: TypeAlias = Any
"""A reference to an actor (`ray.actor.ActorHandle`, whose methods no checker can see); whoever holds one keeps the actor alive."""

_ray: Any = ray
_strategies: Any = scheduling_strategies
"""Ray's annotations are incomplete; what leaves this module is typed here."""

_Method = TypeVar("_Method", bound=Callable[..., Any])

MIB: Final = 1024 * 1024

CALL_TIMEOUT: Final = 30.0
"""Seconds for a call that is answered at once; a longer silence means that the other side hangs."""


_GONE: Final = (
    ActorDiedError,
    RayActorError,
    OwnerDiedError,
    TaskCancelledError,
    # What the calls of an actor get that Ray's memory monitor ended, and of one that went with its node.
    OutOfMemoryError,
    NodeDiedError,
    WorkerCrashedError,
)


class ActorGoneError(RuntimeUnavailableError):
    """The process of an actor is gone; what it was asked will never be answered."""


class NodeUnfitError(ActorGoneError):
    """The process could not even begin: its node lacks what it needs, and the next one would fare no better there."""


class UnreachableError(RuntimeUnavailableError):
    """An actor does not answer at the moment; the call may be repeated."""


async def call(handle: Handle, method: str, *args: Any, part: str, timeout: float | None = CALL_TIMEOUT) -> Any:
    """Call a method of an actor and wait for its answer.

    Args:
        handle: The actor.
        method: Name of the method.
        args: Its arguments.
        part: The actor's role, for errors.
        timeout: Seconds; `None` for a run, whose end is watched by other means.

    Raises:
        ActorGoneError: The actor is dead.
        UnreachableError: It does not answer in time.
        RuntimeUnavailableError: Ray failed.
        RuntreeError: What the method itself raised.
    """
    try:
        reference = getattr(handle, method).remote(*args)
    except RayError as error:
        raise translated(error, part) from None
    except Exception as error:  # noqa: BLE001 - Ray raises a bare Exception for a handle of a cluster that is gone
        raise ActorGoneError(part, _first_line(error), "Its Ray was shut down") from None
    try:
        async with asyncio.timeout(timeout):
            return await reference
    except TimeoutError:
        raise UnreachableError(
            part, f"no answer within {timeout:g} s", "Look at `ray status` and the node's load"
        ) from None
    except RayError as error:
        raise translated(error, part) from None


def translated(error: RayError, part: str) -> Exception:
    """Return what an exception of Ray means: the method's own error, a dead actor, or an unavailable part."""
    if isinstance(error, RayTaskError):
        cause: BaseException = vars(error)["cause"]
        if isinstance(cause, RuntreeError):
            return cause
        problem = f"it raised {type(cause).__name__}: {cause}"
        return RuntimeUnavailableError(part, problem, "Please report this as a bug")
    if isinstance(error, ActorUnavailableError | GetTimeoutError):
        return UnreachableError(part, "it is out of reach for the moment", "Try again")
    if "ModuleNotFoundError" in str(error) or "No module named" in str(error):
        return NodeUnfitError(
            part, _missing_module(error), "Install the same packages, runtree among them, on every node"
        )
    if isinstance(error, _GONE):
        return ActorGoneError(
            part, _first_line(error), "It was killed, ran out of memory, or its node or driver is gone"
        )
    return RuntimeUnavailableError(part, f"{type(error).__name__}: {_first_line(error)}", "Look at Ray's logs")


def _missing_module(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if "No module named" in line]
    return f"its node can't import what it needs: {lines[-1] if lines else 'a module is missing'}"


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__


@lru_cache(maxsize=256)
def _remote_class(cls: type, groups: tuple[tuple[str, int], ...], concurrency: int) -> Any:
    return _ray.remote(max_concurrency=concurrency, concurrency_groups=dict(groups))(cls)


def in_group(group: str) -> Callable[[_Method], _Method]:
    """Mark a method of an actor as one of a concurrency group."""
    mark: Callable[[_Method], _Method] = _ray.method(concurrency_group=group)
    return mark


def placed(node: str | None) -> Any:
    """Return how Ray is to place an actor: on a node if that has room, else spread over all."""
    if node is None:
        return "SPREAD"
    return _strategies.NodeAffinitySchedulingStrategy(node, soft=True, _spill_on_unavailable=True)


def put(data: bytes, part: str = "object store") -> Awaitable[bytes]:
    """Keep bytes in the object store for as long as the returned reference lives; `fetch` gives them back.

    Raises:
        RuntimeUnavailableError: The store is full, or Ray failed.
    """
    try:
        reference: Awaitable[bytes] = _ray.put(data)
    except ObjectStoreFullError:
        problem = f"the object store has no room for {len(data):,} bytes"
        fix = "Pass less, let other runs end, or start Ray with a larger object_store_memory"
        raise RuntimeUnavailableError(part, problem, fix) from None
    except RayError as error:
        raise translated(error, part) from None
    return reference


async def fetch(reference: Awaitable[bytes], part: str) -> bytes:
    """Return what was put.

    Raises:
        RuntimeUnavailableError: It is lost, or Ray failed.
    """
    try:
        return await reference
    except RayError as error:
        raise translated(error, part) from None


def node_id() -> str:
    """Return Ray's id of this process's node."""
    node: str = _ray.get_runtime_context().get_node_id()
    return node


def actor_id() -> str:
    """Return Ray's id of this actor, which stays the same when it is restarted."""
    actor: str = _ray.get_runtime_context().get_actor_id()
    return actor


def session_folder() -> Path:
    """Return where the Ray of this process keeps its files on this node; a new Ray has another one."""
    return Path(_ray.get_runtime_context().worker.node.get_session_dir_path())


async def on_head_node() -> dict[str, Any]:
    """Return the actor options that place an actor on the head node if that can be: it is there for as long as the cluster is."""
    nodes: list[dict[str, Any]] = await asyncio.to_thread(_ray.nodes)
    for node in nodes:
        if node["Alive"] and HEAD_NODE_RESOURCE_NAME in node["Resources"]:
            return {"scheduling_strategy": _strategies.NodeAffinitySchedulingStrategy(node["NodeID"], soft=True)}
    return {}


def shut_down() -> None:
    """Leave Ray, and end it if this process started it."""
    _ray.shutdown()


def create(cls: type, *args: Any, groups: Mapping[str, int], concurrency: int = 1000, **options: Any) -> Handle:
    """Start an actor.

    Args:
        cls: A plain class; Ray pickles it by reference, so every node must have the package.
        args: For its constructor.
        groups: Slots of its concurrency groups, by name.
        concurrency: Slots of its default group.
        options: Ray's actor options.
    """
    remote_class = _remote_class(cls, tuple(sorted(groups.items())), concurrency)
    handle: Handle = remote_class.options(**options).remote(*args)
    return handle


async def find(name: str, namespace: str, part: str) -> Handle:
    """Return the actor of a name.

    Raises:
        ActorGoneError: There is none.
    """
    try:
        handle: Handle = await asyncio.to_thread(_ray.get_actor, name, namespace)
    except ValueError:
        raise ActorGoneError(part, f"there is no actor {name!r} in namespace {namespace!r}", "It has ended") from None
    return handle


async def exists(name: str, namespace: str) -> bool:
    """Return whether an actor of this name lives."""
    try:
        await find(name, namespace, "actor")
    except ActorGoneError:
        return False
    return True


def kill(handle: Handle) -> None:
    """End an actor's process now; harmless for one that is gone."""
    _ray.kill(handle, no_restart=True)


async def kill_by_name(name: str, namespace: str) -> None:
    """End an actor's process now; harmless for one that is gone."""
    try:
        handle = await find(name, namespace, "actor")
    except ActorGoneError:
        return
    await asyncio.to_thread(kill, handle)
