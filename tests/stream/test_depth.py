"""How full a queue is, as its metrics tell it."""

from typing import Any

from runtree.actors.stream.lanes import Bounds, Lanes
from runtree.messages import Item, ModelDelta, RunStarted
from runtree.messages.codec import Frame
from runtree.messages.control import LaneAddress

from ..kit.lanes import ROOT, stamp


def frame(seq: int, item_type: type[Item], **fields: Any) -> Frame:
    return Frame.of_items([item_type(**dict(stamp(ROOT)), seq=seq, time=0.0, **fields)])


def test_the_depth_counts_each_buffer_once_and_remembers_what_was_dropped() -> None:
    lanes = Lanes("q")
    lanes.open("driver:root", ROOT, Bounds(items=2, flow="drop_oldest"))
    lanes.open(ROOT, ROOT, Bounds(), LaneAddress(queue="q", lane="driver:root"))
    assert lanes.depth() == (0, 0, 0)
    frames = [frame(0, RunStarted, agent="a", model="m"), *(frame(seq, ModelDelta, text="x") for seq in range(1, 5))]
    lanes.push("driver:root", [each.to_bytes() for each in frames])
    full = lanes.depth()
    assert full.items == sum(each.count for each in lanes.buffer(ROOT).take(100, 10**9))
    assert full.bytes > 0
    assert full.dropped >= 2
    lanes.drop(ROOT)
    assert lanes.depth() == (0, 0, full.dropped)
