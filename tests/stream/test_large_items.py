"""Items above 1 MiB (D5): their lines only refer to them, so that no buffer holds more than its bound."""

import asyncio

from runtree.actors.stream.emitter import Emitter
from runtree.actors.stream.lanes import Bounds
from runtree.actors.stream.reader import FrameReader
from runtree.messages.codec import MAX_LINE_BYTES, Frame
from runtree.messages.items import Custom, ItemsDropped, ModelDelta, RunCompleted, ToolCallArgsDelta
from tests.kit.lanes import ROOT, Queue, stamp

LARGE = "x" * (MAX_LINE_BYTES + 1)


async def emitted(queue: Queue) -> list[bytes]:
    """Emit small and large items of both kinds into a narrow lane; return its frames."""
    queue.open("lane", ROOT, Bounds(items=100, bytes=10_000))
    emitter = Emitter(stamp(ROOT), queue, "lane")
    emitter.emit_delta("model_delta", text="small")
    emitter.emit(Custom, name="large", data=LARGE)
    emitter.emit_delta("tool_call_args_delta", call_id="c", tool_name="t", delta=LARGE)
    emitter.emit_delta("model_delta", text="after")
    emitter.emit(RunCompleted, output=LARGE)
    async with asyncio.timeout(10):
        await emitter.flush()
    assert queue.lanes.buffer("lane").bytes < 10_000
    return [frame.to_bytes() for frame in queue.lanes.buffer("lane").take(1000, 1_000_000)]


async def test_d5_large_items_arrive_whole_and_in_order_through_a_narrow_lane() -> None:
    queue = Queue("queue")
    frames = await emitted(queue)
    assert sum(map(len, frames)) < 10_000
    items = list(FrameReader().read(frames, queue.large))
    assert [item.seq for item in items] == [0, 1, 2, 3, 4]
    first, custom, arguments, after, end = items
    assert isinstance(first, ModelDelta)
    assert first.text == "small"
    assert isinstance(custom, Custom)
    assert custom.data == LARGE
    assert isinstance(arguments, ToolCallArgsDelta)
    assert arguments.delta == LARGE
    assert isinstance(after, ModelDelta)
    assert after.text == "after"
    assert isinstance(end, RunCompleted)
    assert end.output == LARGE


async def test_d5_frames_name_their_references_and_a_lost_one_is_a_marked_gap() -> None:
    queue = Queue("queue")
    frames = await emitted(queue)
    references = [reference for frame in frames for reference in Frame.from_bytes(frame).references()]
    assert sorted(references) == sorted(queue.large)
    items = list(FrameReader().read(frames, {}))
    assert [(item.seq, item.lost) for item in items if isinstance(item, ItemsDropped)] == [(1, True), (2, True)]
    end = items[-1]
    assert isinstance(end, RunCompleted), "an end always arrives"
    assert (end.seq, end.output, end.usage.precision) == (4, None, "unknown")


async def test_text_that_looks_like_a_reference_is_text() -> None:
    queue = Queue("queue")
    queue.open("lane", ROOT, Bounds())
    emitter = Emitter(stamp(ROOT), queue, "lane")
    emitter.emit_delta("model_delta", text='{"ref": "queue|lane|x"}')
    emitter.emit(Custom, name="ref", data={"ref": "queue|lane|x", "size": 3})
    async with asyncio.timeout(10):
        await emitter.flush()
    frames = [frame.to_bytes() for frame in queue.lanes.buffer("lane").take(1000, 1_000_000)]
    assert [reference for frame in frames for reference in Frame.from_bytes(frame).references()] == []
    text, custom = FrameReader().read(frames)
    assert isinstance(text, ModelDelta)
    assert text.text == '{"ref": "queue|lane|x"}'
    assert isinstance(custom, Custom)
    assert custom.data == {"ref": "queue|lane|x", "size": 3}
