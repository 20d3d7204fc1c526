"""The end of runs that can't write it themselves (D4): what is missing is written once, in order, and what comes later is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtree.actors.stream.lanes import Bounds
from runtree.actors.stream.tracking import Ending
from runtree.messages import (
    Item,
    ModelDelta,
    RunCompleted,
    RunFailed,
    RunStarted,
    Stamp,
    ToolCallCompleted,
    ToolCallStarted,
)
from runtree.messages.codec import Frame

from ..kit.lanes import ROOT, Queue, Reader, by_run, check_dense, check_ends, stamp

pytestmark = pytest.mark.anyio
LANE = "driver:root"
LOST = Ending(cancelled=False, reason="its process is gone")
ROOT_STAMP = stamp(ROOT)


class Script:
    """Says items of runs by hand, at their right numbers."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.numbers: dict[tuple[str, int], int] = {}

    def say(self, owner: Stamp, lane: str, item_type: type[Item], **fields: Any) -> Frame:
        key = (owner.run_id, owner.attempt)
        seq = self.numbers.get(key, -1) + 1
        self.numbers[key] = seq
        frame = Frame.of_items([item_type(**dict(owner), seq=seq, time=1.0, **fields)])
        reply = self.queue.lanes.push(lane, [frame.to_bytes()])
        assert reply.accepted == 1
        return frame


def opened() -> tuple[Queue, Script, Reader]:
    queue = Queue("q")
    queue.open(LANE, ROOT, Bounds())
    return queue, Script(queue), Reader(queue.lanes.buffer(LANE))


def kinds(items: list[Any]) -> list[str]:
    return [f"{item.run_id}:{item.kind}" for item in items]


def test_d4_open_calls_and_descendants_are_closed_depth_first() -> None:
    queue, script, reader = opened()
    queue.open(ROOT, ROOT, Bounds(), (queue, LANE))
    child = stamp("child", ROOT_STAMP)
    grandchild = stamp("grandchild", child)
    queue.open("child", ROOT, Bounds(), (queue, ROOT))
    script.say(ROOT_STAMP, LANE, RunStarted, agent="a")
    script.say(ROOT_STAMP, ROOT, ToolCallStarted, call_id="c1", tool_name="child")
    script.say(ROOT_STAMP, ROOT, ToolCallStarted, call_id="c2", tool_name="search")
    script.say(ROOT_STAMP, ROOT, ToolCallCompleted, call_id="c2", tool_name="search", outcome="ok")
    script.say(child, ROOT, RunStarted, agent="b", call_id="c1")
    script.say(child, "child", ToolCallStarted, call_id="d1", tool_name="grandchild")
    script.say(grandchild, "child", RunStarted, agent="c", call_id="d1")
    before = len(reader.drain())
    queue.close(ROOT_STAMP, LANE, LOST)
    closing = reader.drain()[before:]
    assert kinds(closing) == [
        "grandchild:run_cancelled",
        "child:tool_call_completed",
        "child:run_cancelled",
        "root:tool_call_completed",
        "root:run_failed",
    ]
    assert [item.outcome for item in closing if isinstance(item, ToolCallCompleted)] == ["cancelled", "lost"]
    assert [item.call_id for item in closing if isinstance(item, ToolCallCompleted)] == ["d1", "c1"]
    assert closing[-1].error.code == "lost"
    assert closing[-1].usage.precision == "unknown"
    check_dense(reader.items, lossless=True)
    check_ends(reader.items)


def test_d4_close_is_idempotent_and_fences() -> None:
    queue, script, reader = opened()
    script.say(ROOT_STAMP, LANE, RunStarted, agent="a")
    queue.close(ROOT_STAMP, LANE, LOST)
    queue.close(ROOT_STAMP, LANE, LOST)
    queue.close(ROOT_STAMP, LANE, Ending(cancelled=True, reason="late"))
    late = Frame.of_items([ModelDelta(**dict(ROOT_STAMP), seq=1, text="late")])
    assert queue.lanes.push(LANE, [late.to_bytes()]).fenced
    assert kinds(reader.drain()) == ["root:run_started", "root:run_failed"]


def test_d4_cancelled_ending() -> None:
    queue, script, reader = opened()
    script.say(ROOT_STAMP, LANE, ToolCallStarted, call_id="c1", tool_name="t")
    queue.close(ROOT_STAMP, LANE, Ending(cancelled=True, reason="user", forced=True))
    completed, end = reader.drain()[1:]
    assert (completed.outcome, completed.message) == ("cancelled", "user")
    assert (end.kind, end.reason, end.forced) == ("run_cancelled", "user", True)


def test_d4_a_run_that_never_said_anything_gets_its_end() -> None:
    queue, _, reader = opened()
    queue.close(ROOT_STAMP, LANE, LOST, known_only=True)
    assert not reader.drain()
    queue.close(ROOT_STAMP, LANE, LOST)
    (end,) = reader.drain()
    assert (end.kind, end.seq) == ("run_failed", 0)
    assert queue.lanes.push(LANE, [Frame.of_items([RunStarted(**dict(ROOT_STAMP), agent="a")]).to_bytes()]).fenced
    assert not reader.take()


def test_d4_a_run_that_ended_by_itself_keeps_its_end() -> None:
    queue, script, reader = opened()
    script.say(ROOT_STAMP, LANE, RunCompleted)
    queue.close(ROOT_STAMP, LANE, LOST)
    assert kinds(reader.drain()) == ["root:run_completed"]


def test_d4_the_end_a_run_told_is_known_to_its_lane() -> None:
    queue, script, _ = opened()
    assert queue.lanes.end_of(ROOT_STAMP, LANE) is None
    script.say(ROOT_STAMP, LANE, RunStarted, agent="a")
    assert queue.lanes.end_of(ROOT_STAMP, LANE) is None
    script.say(ROOT_STAMP, LANE, RunCompleted, output="done")
    told = queue.lanes.end_of(ROOT_STAMP, LANE)
    assert told is not None
    (end,) = Frame.from_bytes(told).items()
    assert isinstance(end, RunCompleted)
    assert end.output == "done"
    assert queue.lanes.end_of(stamp(ROOT, attempt=2), LANE) is None
    assert queue.lanes.end_of(ROOT_STAMP, "elsewhere") is None


def test_d4_a_late_push_of_an_attempt_that_is_over_is_refused() -> None:
    queue, script, reader = opened()
    second = stamp(ROOT, attempt=2)
    first_frame = script.say(ROOT_STAMP, LANE, RunStarted, agent="a")
    script.say(second, LANE, RunStarted, agent="a")
    late = Frame.of_items([ModelDelta(**dict(ROOT_STAMP), seq=1, text="late")])
    assert queue.lanes.push(LANE, [late.to_bytes()]).fenced
    assert queue.lanes.push(LANE, [first_frame.to_bytes()]).fenced
    queue.close(ROOT_STAMP, LANE, LOST)
    script.say(second, LANE, RunCompleted)
    assert [(item.kind, item.attempt) for item in reader.drain()] == [
        ("run_started", 1),
        ("run_started", 2),
        ("run_completed", 2),
    ]


def test_x11_what_a_lost_run_left_behind_goes_on_until_it_is_closed() -> None:
    queue, script, reader = opened()
    queue.open(ROOT, ROOT, Bounds(), (queue, LANE))
    queue.open("inner", ROOT, Bounds(), (queue, ROOT))
    inner = stamp("inner", ROOT_STAMP)
    leaf, other = stamp("leaf", inner), stamp("other", inner)
    script.say(ROOT_STAMP, LANE, ToolCallStarted, call_id="c1", tool_name="inner")
    script.say(inner, ROOT, ToolCallStarted, call_id="d1", tool_name="leaf")
    script.say(leaf, "inner", RunStarted, agent="leaf")
    script.say(leaf, "inner", RunCompleted)
    script.say(other, "inner", RunStarted, agent="other")
    queue.close(inner, ROOT, LOST)
    stray = stamp("stray", inner)
    for run in (leaf, other, inner, stray):
        late = Frame.of_items([ModelDelta(**dict(run), seq=9 if run is not stray else 0, text="late")])
        assert queue.lanes.push("inner", [late.to_bytes()]).fenced or run is leaf
    script.say(ROOT_STAMP, ROOT, ToolCallCompleted, call_id="c1", tool_name="inner", outcome="lost")
    script.say(ROOT_STAMP, ROOT, RunCompleted)
    assert kinds(reader.drain())[3:] == [
        "leaf:run_completed",
        "other:run_started",
        "other:run_cancelled",
        "inner:tool_call_completed",
        "inner:run_failed",
        "root:tool_call_completed",
        "root:run_completed",
    ]
    check_ends(reader.items)


def test_a_dropped_tree_leaves_nothing() -> None:
    queue, script, _ = opened()
    queue.open("far", ROOT, Bounds())
    orphan = stamp("orphan", stamp("elsewhere", ROOT_STAMP))
    script.say(orphan, "far", RunStarted, agent="a")
    queue.lanes.drop(ROOT)
    queue.close(stamp("elsewhere", ROOT_STAMP), LANE, LOST)
    queue.close(ROOT_STAMP, LANE, LOST)
    assert queue.lanes.push(LANE, [Frame.of_items([RunStarted(**dict(ROOT_STAMP), agent="a")]).to_bytes()]).fenced
    assert not len(queue.lanes)


@st.composite
def scripts(draw: st.DrawFn) -> list[tuple[Stamp, str, type[Item], dict[str, Any]]]:
    """What the runs of a tree say, interleaved at random; each run has children below calls."""
    stamps = [ROOT_STAMP]
    for number in range(draw(st.integers(0, 6))):
        stamps.append(stamp(f"run{number}", stamps[draw(st.integers(0, len(stamps) - 1))]))
    children = {own.run_id: [below for below in stamps if below.parent_run_id == own.run_id] for own in stamps}
    lanes = {own.run_id: own.parent_run_id or LANE for own in stamps}
    steps: list[tuple[Stamp, str, type[Item], dict[str, Any]]] = []

    def tell(own: Stamp) -> list[tuple[Stamp, str, type[Item], dict[str, Any]]]:
        lane = own.run_id if children[own.run_id] else lanes[own.run_id]
        said: list[Any] = [(own, lanes[own.run_id], RunStarted, {"agent": "a"})]
        for child in children[own.run_id]:
            call = {"call_id": f"call-{child.run_id}", "tool_name": "sub"}
            said.append((own, lane, ToolCallStarted, call))
            below = tell(child)
            # The parent talks on while the child works.
            at = draw(st.integers(0, len(below)))
            said += [*below[:at], (own, lane, ModelDelta, {"text": "…"}), *below[at:]]
            said.append((own, lane, ToolCallCompleted, {**call, "outcome": "ok", "child_run_id": child.run_id}))
        said.append((own, lane, RunCompleted, {}))
        return said

    steps += tell(ROOT_STAMP)
    return steps


@given(scripts(), st.data())
def test_d4_whatever_is_lost_whenever_everything_ends_once(
    steps: list[tuple[Stamp, str, type[Item], dict[str, Any]]], data: st.DataObject
) -> None:
    """Cut the script anywhere, close any run of it, let what is above go on, close the rest."""
    queue, script, reader = opened()
    stamps = {own.run_id: own for own, *_ in steps}
    for own in stamps.values():
        queue.open(own.run_id, ROOT, Bounds(), (queue, own.parent_run_id or LANE))
    cut = data.draw(st.integers(0, len(steps)))
    for own, lane, item_type, fields in steps[:cut]:
        script.say(own, lane, item_type, **fields)
    lost = stamps[data.draw(st.sampled_from(sorted(stamps)))]
    queue.close(lost, lost.parent_run_id or LANE, LOST)
    for own, lane, item_type, fields in steps[cut:]:
        script.say(own, lane, item_type, **fields)
    queue.close(ROOT_STAMP, LANE, LOST)
    check_dense(reader.drain(), lossless=True)
    check_ends(reader.items)
    spoke = {run.split("/")[0] for run in by_run(reader.items)}
    assert ROOT in spoke


async def test_d4_close_over_two_queues() -> None:
    """As the caller of a lost run does it: the queues below first, each settled, then the home queue."""
    queues: dict[str, Queue] = {}
    home, far = Queue("home", queues), Queue("far", queues)
    home.open(LANE, ROOT, Bounds())
    reader = Reader(home.lanes.buffer(LANE))
    inner = stamp("inner", ROOT_STAMP)
    leaf = stamp("leaf", inner)
    at_home, away = Script(home), Script(far)
    away.numbers = at_home.numbers
    far.open("inner", ROOT, Bounds(), (home, LANE))
    at_home.say(ROOT_STAMP, LANE, ToolCallStarted, call_id="c1", tool_name="inner")
    at_home.say(inner, LANE, RunStarted, agent="b")
    away.say(inner, "inner", ToolCallStarted, call_id="d1", tool_name="leaf")
    away.say(leaf, "inner", RunStarted, agent="c")
    far.close(inner, "inner", LOST, known_only=True)
    await far.settled("inner")
    home.close(inner, LANE, LOST)
    at_home.say(ROOT_STAMP, LANE, ToolCallCompleted, call_id="c1", tool_name="inner", outcome="lost")
    at_home.say(ROOT_STAMP, LANE, RunFailed, error=LOST.error or {"code": "lost", "message": "gone"})
    assert kinds(reader.drain())[4:] == [
        "leaf:run_cancelled",
        "inner:tool_call_completed",
        "inner:run_failed",
        "root:tool_call_completed",
        "root:run_failed",
    ]
    check_dense(reader.items, lossless=True)
    check_ends(reader.items)
    await far.aclose()


async def test_d4_close_over_two_queues_when_the_far_one_saw_nothing_of_the_run() -> None:
    queues: dict[str, Queue] = {}
    home, far = Queue("home", queues), Queue("far", queues)
    home.open(LANE, ROOT, Bounds())
    reader = Reader(home.lanes.buffer(LANE))
    inner = stamp("inner", ROOT_STAMP)
    leaf = stamp("leaf", inner)
    far.open("inner", ROOT, Bounds(), (home, LANE))
    Script(home).say(inner, LANE, RunStarted, agent="b")
    Script(far).say(leaf, "inner", RunStarted, agent="c")
    far.close(inner, "inner", LOST, known_only=True)
    await far.settled("inner")
    home.close(inner, LANE, LOST)
    assert kinds(reader.drain()) == ["inner:run_started", "leaf:run_started", "leaf:run_cancelled", "inner:run_failed"]
    check_dense(reader.items, lossless=True)
    await far.aclose()


async def test_d4_lanes_of_a_lost_tree_are_closed_one_after_the_other_and_lose_nothing() -> None:
    """Closing one lane must not refuse what another lane, in another queue, still has to send through the same way."""
    queues: dict[str, Queue] = {}
    home, far = Queue("home", queues), Queue("far", queues)
    home.open(LANE, ROOT, Bounds())
    reader = Reader(home.lanes.buffer(LANE))
    first, second = stamp("first", ROOT_STAMP), stamp("second", ROOT_STAMP)
    leaf = stamp("leaf", second)
    far.open(ROOT, ROOT, Bounds(), (home, LANE))
    far.open("first", ROOT, Bounds(), (far, ROOT))
    home.open("second", ROOT, Bounds(), (far, ROOT))
    at_home, away = Script(home), Script(far)
    away.numbers = at_home.numbers
    away.say(ROOT_STAMP, ROOT, RunStarted, agent="a")
    away.say(first, ROOT, RunStarted, agent="b")
    away.say(second, ROOT, RunStarted, agent="b")
    at_home.say(leaf, "second", RunStarted, agent="c")
    for queue, lane in ((far, "first"), (home, "second"), (far, ROOT)):
        queue.close(ROOT_STAMP, lane, LOST, known_only=True)
        await queue.settled(lane)
    home.close(ROOT_STAMP, LANE, LOST)
    assert kinds(await reader.until_end_of(ROOT))[3:] == [
        "first:run_cancelled",
        "leaf:run_started",
        "leaf:run_cancelled",
        "second:run_cancelled",
        "root:run_failed",
    ]
    check_dense(reader.items, lossless=True)
    check_ends(reader.items)
    await home.aclose()
    await far.aclose()
