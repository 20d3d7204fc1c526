"""Attempts of a run in the stream (S7, D3, D4, Y13): the lost one is closed and discarded, the next one is let in, and nothing old comes back."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtree.actors.stream.lanes import Bounds
from runtree.actors.stream.text import VisibleText
from runtree.actors.stream.tracking import Ending
from runtree.messages import (
    AttemptDiscarded,
    Item,
    ModelDelta,
    RunCompleted,
    RunStarted,
    Stamp,
    ToolCallCompleted,
    ToolCallStarted,
)
from runtree.messages.codec import Frame

from ..kit.lanes import ROOT, Queue, Reader, Wire, check_dense, check_ends, soon, stamp
from ..kit.stream_check import check_stream
from .test_close import LANE, LOST, ROOT_STAMP, Script, kinds, opened, scripts
from .test_spread import Spread

pytestmark = pytest.mark.anyio
SECOND = stamp(ROOT, attempt=2)


def again(*below: str) -> Ending:
    return Ending(cancelled=False, reason="its process is gone", again=True, below=below)


def pushed(queue: Queue, lane: str, owner: Stamp, seq: int, item_type: type[Item] = ModelDelta, **fields: Any) -> bool:
    """Whether an item of a run is taken."""
    frame = Frame.of_items([item_type(**dict(owner), seq=seq, time=1.0, **fields)])
    return not queue.lanes.push(lane, [frame.to_bytes()]).fenced


def test_s7_open_calls_are_closed_as_lost_and_the_attempt_is_discarded() -> None:
    queue, script, reader = opened()
    script.say(ROOT_STAMP, LANE, RunStarted, agent="a")
    script.say(ROOT_STAMP, LANE, ToolCallStarted, call_id="c1", tool_name="search")
    for _ in range(2):
        queue.close(ROOT_STAMP, LANE, again())
    completed, discarded = reader.drain()[2:]
    assert (completed.kind, completed.outcome, completed.call_id) == ("tool_call_completed", "lost", "c1")
    assert isinstance(discarded, AttemptDiscarded)
    assert (discarded.scope, discarded.discarded_attempt, discarded.attempt) == ("run", 1, 1)
    assert (discarded.first_seq, discarded.last_seq, discarded.seq) == (0, 2, 3)
    assert discarded.reason == "its process is gone"
    script.say(SECOND, LANE, RunStarted, agent="a")
    script.say(SECOND, LANE, ToolCallStarted, call_id="c1", tool_name="search")
    script.say(SECOND, LANE, ToolCallCompleted, call_id="c1", tool_name="search", outcome="ok")
    script.say(SECOND, LANE, RunCompleted)
    check_stream(reader.drain())
    check_ends(reader.items)


def test_s7_an_attempt_that_never_said_anything_is_discarded_too() -> None:
    queue, script, reader = opened()
    queue.close(ROOT_STAMP, LANE, again())
    (discarded,) = reader.drain()
    assert (discarded.seq, discarded.first_seq, discarded.last_seq) == (0, 0, -1)
    assert not pushed(queue, LANE, ROOT_STAMP, 0, RunStarted, agent="a")
    script.say(SECOND, LANE, RunStarted, agent="a")
    queue.close(SECOND, LANE, LOST)
    check_stream(reader.drain())


def test_y13_late_pushes_of_a_lost_attempt_are_refused_before_and_after_the_next_begins() -> None:
    queue, script, reader = opened()
    first = script.say(ROOT_STAMP, LANE, RunStarted, agent="a")
    queue.close(ROOT_STAMP, LANE, again())
    for seq in (1, 2, 3):
        assert not pushed(queue, LANE, ROOT_STAMP, seq)
    script.say(SECOND, LANE, RunStarted, agent="a")
    for seq in (1, 2, 3):
        assert not pushed(queue, LANE, ROOT_STAMP, seq)
    assert queue.lanes.push(LANE, [first.to_bytes()]).fenced
    queue.close(ROOT_STAMP, LANE, LOST)
    queue.close(ROOT_STAMP, LANE, again())
    script.say(SECOND, LANE, RunCompleted)
    assert [(item.kind, item.attempt) for item in reader.drain()] == [
        ("run_started", 1),
        ("attempt_discarded", 1),
        ("run_started", 2),
        ("run_completed", 2),
    ]


def test_x11_the_sub_tree_of_a_lost_attempt_ends_and_stays_silent() -> None:
    queue, script, reader = opened()
    queue.open(ROOT, ROOT, Bounds(), (queue, LANE))
    queue.open("inner", ROOT, Bounds(), (queue, ROOT))
    inner = stamp("inner", ROOT_STAMP)
    seen, silent = stamp("seen", inner), stamp("silent", inner)
    script.say(ROOT_STAMP, LANE, RunStarted, agent="a")
    script.say(ROOT_STAMP, ROOT, ToolCallStarted, call_id="c1", tool_name="inner")
    script.say(inner, ROOT, RunStarted, agent="b", call_id="c1")
    script.say(inner, "inner", ToolCallStarted, call_id="d1", tool_name="seen")
    script.say(seen, "inner", RunStarted, agent="c", call_id="d1")
    queue.close(inner, ROOT, again("seen", "silent"))
    second = inner.model_copy(update={"attempt": 2})
    fresh = stamp("fresh", inner)
    script.say(second, ROOT, RunStarted, agent="b", call_id="c1")
    script.say(second, "inner", ToolCallStarted, call_id="d1", tool_name="fresh")
    for old, seq in ((seen, 1), (silent, 0), (inner, 2)):
        assert not pushed(queue, "inner", old, seq)
    script.say(fresh, "inner", RunStarted, agent="c", call_id="d1")
    script.say(fresh, "inner", RunCompleted)
    script.say(second, "inner", ToolCallCompleted, call_id="d1", tool_name="fresh", outcome="ok", child_run_id="fresh")
    script.say(second, "inner", RunCompleted)
    script.say(ROOT_STAMP, ROOT, ToolCallCompleted, call_id="c1", tool_name="inner", outcome="ok")
    script.say(ROOT_STAMP, ROOT, RunCompleted)
    items = reader.drain()
    assert kinds(items)[5:8] == ["seen:run_cancelled", "inner:tool_call_completed", "inner:attempt_discarded"]
    check_stream(items)


async def test_s7_a_new_child_may_speak_in_a_queue_where_its_parent_has_not_yet_begun_again() -> None:
    """The own lane of the lost run is in another queue: the next attempt's children go there before its own items do."""
    queues: dict[str, Queue] = {}
    home, far = Queue("home", queues), Queue("far", queues)
    home.open(LANE, ROOT, Bounds())
    far.open(ROOT, ROOT, Bounds(), (home, LANE))
    reader = Reader(home.lanes.buffer(LANE))
    at_home, away = Script(home), Script(far)
    away.numbers = at_home.numbers
    at_home.say(ROOT_STAMP, LANE, RunStarted, agent="a")
    away.say(ROOT_STAMP, ROOT, ToolCallStarted, call_id="c1", tool_name="old")
    away.say(stamp("old", ROOT_STAMP), ROOT, RunStarted, agent="b", call_id="c1")
    for queue, lane in ((far, ROOT), (home, LANE)):
        queue.close(ROOT_STAMP, lane, again("old"), known_only=lane == ROOT)
        await queue.settled(lane)
    at_home.say(SECOND, LANE, RunStarted, agent="a")
    assert not pushed(far, ROOT, stamp("old", ROOT_STAMP), 1)
    away.say(stamp("new", ROOT_STAMP), ROOT, RunStarted, agent="b")
    away.say(stamp("new", ROOT_STAMP), ROOT, RunCompleted)
    away.say(SECOND, ROOT, RunCompleted)
    items = await soon(reader.until_end_of(ROOT))
    assert [item.kind for item in items].count("attempt_discarded") == 1, "once, though two queues closed the attempt"
    check_stream(items)
    await far.aclose()


def test_s7_an_attempt_is_sealed_before_it_is_judged() -> None:
    queue, script, _ = opened()
    script.say(ROOT_STAMP, LANE, ToolCallStarted, call_id="c1", tool_name="pay")
    script.say(ROOT_STAMP, LANE, ToolCallStarted, call_id="c2", tool_name="look")
    script.say(ROOT_STAMP, LANE, ToolCallCompleted, call_id="c2", tool_name="look", outcome="ok")
    assert queue.lanes.standing(ROOT_STAMP, LANE, seal=False).open_calls == {"c1": "pay"}
    assert pushed(queue, LANE, ROOT_STAMP, 3)
    assert queue.lanes.standing(ROOT_STAMP, LANE, seal=True).open_calls == {"c1": "pay"}
    assert not pushed(queue, LANE, ROOT_STAMP, 4, ToolCallStarted, call_id="c3", tool_name="pay")
    assert queue.lanes.end_of(ROOT_STAMP, LANE) is None
    assert queue.lanes.standing(SECOND, LANE, seal=False).open_calls == {}
    assert queue.lanes.standing(ROOT_STAMP, "elsewhere", seal=True).open_calls == {}


def test_s7_an_attempt_that_has_said_nothing_can_be_sealed() -> None:
    queue, script, reader = opened()
    assert queue.lanes.standing(ROOT_STAMP, LANE, seal=True).open_calls == {}
    assert not pushed(queue, LANE, ROOT_STAMP, 0, RunStarted, agent="a")
    queue.close(ROOT_STAMP, LANE, again())
    script.say(SECOND, LANE, RunStarted, agent="a")
    assert [item.kind for item in reader.drain()] == ["attempt_discarded", "run_started"]


def test_s7_calls_that_completed_in_another_queue_are_told() -> None:
    queue, script, _ = opened()
    script.say(ROOT_STAMP, LANE, ToolCallCompleted, call_id="c1", tool_name="pay", outcome="ok")
    assert queue.lanes.standing(ROOT_STAMP, LANE, seal=True).completed == {"c1"}


def test_l7_text_of_a_lost_attempt_is_taken_back_in_words() -> None:
    text = VisibleText(ROOT)

    def discard(scope: Any, first: int, last: int) -> str:
        fields = {"scope": scope, "discarded_attempt": 1, "first_seq": first, "last_seq": last, "reason": "gone"}
        return text.of(AttemptDiscarded(**dict(ROOT_STAMP), seq=last + 1, **fields))

    assert discard("run", 0, 2) == "", "nothing was shown"
    assert text.of(ModelDelta(**dict(ROOT_STAMP), seq=3, text="half")) == "half"
    assert discard("model_call", 1, 2) == ""
    assert "all text above" in discard("run", 0, 9)
    assert discard("model_call", 1, 5) == "", "the next attempt has shown nothing yet"


Step = tuple[Stamp, str, type[Item], dict[str, Any]]


def without_end(steps: list[Step]) -> list[Stamp]:
    """The runs that have begun and not ended."""
    ended = {own.run_id for own, _, item_type, _ in steps if item_type is RunCompleted}
    return [own for run_id, own in sorted({own.run_id: own for own, *_ in steps}.items()) if run_id not in ended]


def ids_below(steps: list[Step], top: Stamp) -> set[str]:
    """The ids of a run and all below it."""
    ids = {top.run_id}
    for own, *_ in steps:  # parents speak first
        if own.parent_run_id in ids:
            ids.add(own.run_id)
    return ids


def said_again(steps: list[Step], ids: set[str], top: Stamp) -> list[Step]:
    """What the next attempt of a run says: the same, with new runs below it."""

    def renamed(run_id: Any) -> Any:
        return f"{run_id}'" if run_id in ids and run_id != top.run_id else run_id

    def next_of(own: Stamp) -> Stamp:
        if own.run_id == top.run_id:
            return own.model_copy(update={"attempt": top.attempt + 1})
        return own.model_copy(
            update={"run_id": renamed(own.run_id), "parent_run_id": renamed(own.parent_run_id), "attempt": 1}
        )

    return [
        (next_of(own), renamed(lane), item_type, {**fields, **child(fields, renamed)})
        for own, lane, item_type, fields in steps
        if own.run_id in ids
    ]


def child(fields: dict[str, Any], renamed: Any) -> dict[str, Any]:
    return {"child_run_id": renamed(fields["child_run_id"])} if "child_run_id" in fields else {}


class Retried(Spread):
    """A tree whose runs lose their processes and are started again."""

    def __init__(self, steps: list[Step], deal: list[int], wire: Wire) -> None:
        super().__init__(steps, deal, wire)
        self._deal = deal

    async def say(self, own: Stamp, lane: str, item_type: Any, fields: dict[str, Any]) -> None:
        self.stamps[own.run_id] = own
        self.home.setdefault(own.run_id, f"q{self._deal[len(self.home) % len(self._deal)]}")
        self.open(lane)
        await self.push(own, lane, item_type, fields)
        if item_type is RunCompleted and lane == own.run_id:
            await self.queue(lane).settled(lane)

    async def push(self, own: Stamp, lane: str, item_type: Any, fields: dict[str, Any]) -> None:
        """Number an item and push it, unless its lane was never made."""
        key = f"{own.run_id}/{own.attempt}"
        seq = self.numbers[key] = self.numbers.get(key, -1) + 1
        frame = Frame.of_items([item_type(**dict(own), seq=seq, time=1.0, **fields)])
        if lane in self.opened:
            await self.queue(lane).push(lane, [frame.to_bytes()])

    async def discard(self, top: Stamp, ids: set[str]) -> None:
        """As the caller of a lost run does it: the lanes of its sub-tree, deepest first, then the lane it was called for."""
        ending = again(*sorted(ids - {top.run_id}))
        for run_id in sorted(ids & self.opened, key=lambda run_id: -self.stamps[run_id].depth):
            self.queue(run_id).close(top, run_id, ending, known_only=True)
            await self.queue(run_id).settled(run_id)
        lane = self.parent_lane(top)
        self.queue(lane).close(top, lane, ending)


@settings(max_examples=80)
@given(scripts(), st.lists(st.integers(0, 2), min_size=1, max_size=4), st.integers(0, 99), st.data())
def test_s7_whatever_is_lost_whenever_it_is_said_again_and_ends_once(
    steps: list[Step], deal: list[int], seed: int, data: st.DataObject
) -> None:
    """Cut the script anywhere, lose any run that is at work, say it again, several times; what the old ones still say comes at any time."""

    async def main() -> None:
        tree = Retried(steps, deal, Wire(seed, delay=3, repeats=0.2))
        said, rest, late = list[Step](), list(steps), list[Step]()

        async def go_on(count: int) -> None:
            for step in rest[:count]:
                await tree.say(*step)
                if data.draw(st.booleans()) and late:
                    await tree.push(*late.pop(0))
            said.extend(rest[:count])
            del rest[:count]

        for _ in range(data.draw(st.integers(1, 3))):
            await go_on(data.draw(st.integers(1, max(1, len(rest) - 1))))
            top = data.draw(st.sampled_from(without_end(said)))
            ids = ids_below([*said, *rest], top)
            whole = [step for step in [*said, *rest] if step[0].run_id in ids]
            late += [step for step in rest if step[0].run_id in ids]
            await tree.discard(top, ids)
            said[:] = [step for step in said if step[0].run_id not in ids]
            rest[:] = [*said_again(whole, ids, top), *(step for step in rest if step[0].run_id not in ids)]
        await go_on(len(rest))
        items = await soon(tree.reader.until_end_of(ROOT))
        check_dense(items, lossless=True)
        check_ends(items)
        check_stream(items)
        for queue in tree.queues.values():
            await queue.aclose()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
