"""A StreamQueue actor under producers that wait, die and repeat themselves."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
import ray

from runtree.actors import stream_queue
from runtree.actors.lane_client import LaneClient
from runtree.actors.remote import create, kill
from runtree.actors.stream.lanes import Bounds, Opening
from runtree.actors.stream.reader import FrameReader
from runtree.actors.stream.tracking import Ending
from runtree.actors.stream_queue import GROUPS, StreamQueue
from runtree.messages.codec import Frame, encode_item
from runtree.messages.errors import InternalError
from runtree.messages.items import Item, ModelDelta, RunStarted, Stamp
from tests.kit import ray_state
from tests.kit.eventually import eventually

PRODUCERS = 1_100


class ImpatientQueue(StreamQueue):
    """A queue whose waiting calls answer empty soon, and which tells how many there are."""

    async def start(self, lanes: Sequence[Opening] = ()) -> None:
        stream_queue.__dict__["POLL_SECONDS"] = (3.0, 4.0)
        await super().start(lanes)

    @ray.method(concurrency_group="control")
    async def waiting(self) -> int:
        return len(self._producers)


@pytest.fixture
async def queue(cluster: None) -> AsyncIterator[Any]:
    name = f"queue:test:{uuid.uuid4()}"
    handle = create(ImpatientQueue, name, "tests", groups=GROUPS, name=name, namespace="tests", num_cpus=0)
    await handle.start.remote()
    yield handle
    kill(handle)


def stamp(run_id: str, parent: str | None = None) -> Stamp:
    return Stamp(run_id=run_id, parent_run_id=parent, root_run_id="root", depth=0 if parent is None else 1)


def frame(who: Stamp, first: int, *items: Item) -> bytes:
    lines, marks = [], []
    for index, item in enumerate(items):
        line, mark = encode_item(item.model_copy(update={"seq": first + index}))
        lines.append(line)
        if mark is not None:
            marks.append(replace(mark, index=index))
    return Frame.of(who, first, first + len(items) - 1, lines, marks).to_bytes()


def delta(who: Stamp, text: str = "x") -> ModelDelta:
    return ModelDelta(**dict(who), text=text)


async def take(queue: Any, lane: str = "driver:root") -> list[Any]:
    return list(FrameReader().read(await queue.get.remote(lane, 10_000, 10**7)))


async def test_y10_full_lane_serves_everybody_else(queue: Any) -> None:
    """1,100 producers wait behind one full lane, half of them go away; control calls, reads and closes are served."""
    await queue.open.remote("driver:root", "root", Bounds(items=4, bytes=10**6, flow="block"), None)
    root = stamp("root")
    reply = await queue.push.remote("driver:root", [frame(root, 0, *[delta(root)] * 4)])
    assert (reply.accepted, reply.items) == (1, 0)
    children = [stamp(f"child{n}", "root") for n in range(PRODUCERS)]
    pushed = await asyncio.gather(
        *(queue.push.remote("driver:root", [frame(each, 0, delta(each))]) for each in children)
    )
    assert {each.accepted for each in pushed} == {0}
    waits = [queue.wait_for_credit.remote("driver:root", each.run_id) for each in children]

    async def all_wait() -> bool:
        return bool(await queue.waiting.remote() == PRODUCERS)

    await eventually(all_wait)
    for ref in waits[::2]:
        ray.cancel(ref)
    assert await queue.lanes.remote() == 1
    await queue.close.remote(stamp("child1", "root"), "driver:root", Ending(cancelled=True, reason="test"), False)
    fenced = await queue.push.remote("driver:root", [frame(children[1], 0, delta(children[1]))])
    assert fenced.fenced
    items = await take(queue)
    assert [item.kind for item in items] == ["model_delta"] * 4 + ["run_cancelled"]
    done = await asyncio.gather(*waits, return_exceptions=True)
    assert any(getattr(each, "items", 0) for each in done), "room was made, and nobody was told"

    async def none_waits() -> bool:
        return bool(await queue.waiting.remote() == 0)

    await eventually(none_waits)


async def test_d9_a_newer_wait_ends_the_older_one(queue: Any) -> None:
    await queue.open.remote("driver:root", "root", Bounds(items=1, bytes=10**6, flow="block"), None)
    root = stamp("root")
    await queue.push.remote("driver:root", [frame(root, 0, delta(root))])
    older = queue.wait_for_credit.remote("driver:root", "root")

    async def waits() -> bool:
        return bool(await queue.waiting.remote() == 1)

    await eventually(waits)
    newer = queue.wait_for_credit.remote("driver:root", "root")
    assert (await older).items == 0
    await take(queue)
    assert (await newer).items == 1


async def test_y13_duplicate_and_early_pushes_change_nothing(queue: Any) -> None:
    await queue.open.remote("driver:root", "root", Bounds(), None)
    root = stamp("root")
    first = frame(root, 0, RunStarted(**dict(root), agent="a"), delta(root, "0"))
    second = frame(root, 2, delta(root, "1"), delta(root, "2"))
    third = frame(root, 4, delta(root, "3"))
    replies = [
        await queue.push.remote("driver:root", [each]) for each in (first, first, third, second, second, third, first)
    ]
    assert [reply.accepted for reply in replies] == [1, 1, 0, 1, 1, 1, 1]
    assert [item.seq for item in await take(queue)] == [0, 1, 2, 3, 4]


async def test_y01_what_is_no_delta_always_finds_room(queue: Any) -> None:
    await queue.open.remote("driver:root", "root", Bounds(items=1, bytes=10, flow="block"), None)
    root = stamp("root")
    await queue.push.remote("driver:root", [frame(root, 0, delta(root))])
    reply = await queue.push.remote("driver:root", [frame(root, 1, RunStarted(**dict(root), agent="a"))])
    assert reply.accepted == 1
    await queue.close.remote(root, "driver:root", Ending(cancelled=False, reason="gone"), False)
    assert [item.kind for item in await take(queue)] == ["model_delta", "run_started", "run_failed"]


async def test_d9_calls_for_a_dropped_tree_are_answered(queue: Any) -> None:
    await queue.open.remote("driver:root", "root", Bounds(items=1), None)
    root = stamp("root")
    await queue.push.remote("driver:root", [frame(root, 0, delta(root))])
    waiting = queue.wait_for_credit.remote("driver:root", "root")
    reading = queue.get.remote("driver:root", 10, 1000)
    await reading
    reading = queue.get.remote("driver:root", 10, 1000)
    await queue.drop.remote("root")
    assert await reading == []
    await waiting
    assert (await queue.push.remote("driver:root", [frame(root, 1, delta(root))])).fenced
    assert (await queue.wait_for_credit.remote("driver:root", "root")).fenced
    assert await queue.lanes.remote() == 0
    assert await queue.settled.remote("driver:root")


async def test_lane_client_finds_its_queue_by_name(queue: Any) -> None:
    names = sorted(ray_state.named_actors("queue:test"))
    client = LaneClient(names[-1], "tests")
    await client.open("driver:root", "root", Bounds(), None)
    root = stamp("root")
    assert (await client.push("driver:root", [frame(root, 0, delta(root))])).accepted == 1
    await client.settled("driver:root")


def test_d9_state_is_touched_from_one_loop_only() -> None:
    """Without Ray: a call that arrives on another loop than the one the state lives on is refused, not served by luck."""
    actor = StreamQueue("queue", "tests")
    with asyncio.Runner() as home, asyncio.Runner() as foreign:
        home.run(actor.start())
        home.run(actor.open("driver:root", "root", Bounds(), None))
        with pytest.raises(InternalError, match="foreign event loop"):
            foreign.run(actor.push("driver:root", []))
        with pytest.raises(InternalError, match="foreign event loop"):
            foreign.run(actor.open("driver:other", "other", Bounds(), None))
