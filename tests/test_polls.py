"""Long-polls over two event loops: no order is lost or kept back, also when they come, wait, time out and are ended in any interleaving."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import pytest

from runtree.actors.polls import Polls
from runtree.actors.supervision.mailboxes import Mailboxes
from runtree.messages.control import CancelOrder, PollReply, RetireOrder
from runtree.messages.errors import RuntreeError, StoreError

_Result = TypeVar("_Result")
LIMIT = 20.0


class Home:
    """The state of a supervisor, as far as polls go, on a loop of its own as behind a concurrency group."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.commits = 0
        self.disk: RuntreeError | None = None
        self.polls: Polls
        self.mailboxes: Mailboxes
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    @contextmanager
    def running(self) -> "Iterator[Home]":
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._make(), self._loop).result(LIMIT)
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(LIMIT)
            self._loop.close()

    async def _make(self) -> None:
        self.mailboxes = Mailboxes(on_put=lambda process: self.polls.wake(process))
        self.polls = Polls(self.mailboxes.collect, self._committed, self.heard.append)

    async def _committed(self) -> None:
        self.commits += 1
        await asyncio.sleep(0)
        if self.disk is not None:
            raise self.disk

    async def do(self, work: Callable[[], _Result]) -> _Result:
        async def here() -> _Result:
            return work()

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(here(), self._loop))

    async def put(self, *processes: str) -> None:
        def put() -> None:
            for process in processes:
                self.mailboxes.put(process, order(process))

        await self.do(put)

    async def poll(self, process: str, seen: int = 0, seconds: float = LIMIT) -> PollReply:
        return PollReply.from_json(await self.polls.wait(process, seen, seconds))

    async def arrived(self, count: int) -> None:
        while len(self.heard) < count:  # noqa: ASYNC110 - told from another thread
            await asyncio.sleep(0.001)


def order(run_id: str) -> CancelOrder:
    return CancelOrder(run_id=run_id, attempt=1, reason="test", grace=1.0)


@pytest.fixture
def home() -> Iterator[Home]:
    with Home().running() as home:
        yield home


def start(work: Coroutine[Any, Any, _Result]) -> asyncio.Task[_Result]:
    return asyncio.get_running_loop().create_task(work)


async def test_s2_a_thousand_waiting_polls_are_answered_after_one_commit(home: Home) -> None:
    names = [f"p{number}" for number in range(1000)]
    polls = [start(home.poll(name)) for name in names]
    await home.arrived(1000)
    await home.put(*names)
    replies = await asyncio.gather(*polls)
    assert [reply.orders[0].run_id for reply in replies if isinstance(reply.orders[0], CancelOrder)] == names
    assert home.commits == 1
    assert not await home.do(lambda: [name for name in names if name in home.polls])


async def test_orders_that_wait_already_are_told_at_once_and_until_they_are_acknowledged(home: Home) -> None:
    await home.put("p")
    first = await home.poll("p")
    again = await home.poll("p")
    assert first == again
    assert len(first.orders) == 1
    waiting = start(home.poll("p", first.version))
    await home.arrived(3)
    await home.put("p")
    assert len((await waiting).orders) == 1


async def test_d9_a_newer_poll_ends_the_older_one(home: Home) -> None:
    older = start(home.poll("p"))
    await home.arrived(1)
    newer = start(home.poll("p"))
    assert (await older).superseded
    await home.put("p")
    reply = await newer
    assert len(reply.orders) == 1
    assert not reply.superseded


async def test_d9_a_poll_answers_empty_in_time_and_leaves_nothing_behind(home: Home) -> None:
    reply = await home.poll("p", 7, seconds=0.01)
    assert reply == PollReply(version=7)
    cancelled = start(home.poll("q"))
    await home.arrived(2)
    cancelled.cancel()
    await asyncio.wait({cancelled})
    assert not await home.do(lambda: "p" in home.polls or "q" in home.polls)
    await home.put("p", "q")
    assert len((await home.poll("p")).orders) == len((await home.poll("q")).orders) == 1


async def test_a_nudge_answers_empty_so_that_a_process_that_lives_asks_again(home: Home) -> None:
    waiting = start(home.poll("p", 7))
    await home.arrived(1)
    await home.do(lambda: home.polls.nudge("p"))
    assert await waiting == PollReply(version=7)
    await home.do(lambda: home.polls.nudge("p"))


async def test_s6_a_disk_that_fails_holds_back_all_orders_but_those_to_stop(home: Home) -> None:
    home.disk = StoreError("file", "it is full", "Make room")
    await home.put("p")
    assert len((await home.poll("p")).orders) == 1
    await home.do(lambda: home.mailboxes.put("q", RetireOrder(actor="a")))
    with pytest.raises(StoreError):
        await home.poll("q")
    home.disk = None
    assert len((await home.poll("q")).orders) == 1


async def test_no_order_is_lost_between_polls_that_come_and_go(home: Home) -> None:
    """Many processes poll again and again, with short waits, while orders come from the other loop."""
    processes, count = 8, 40

    async def listen(process: str) -> list[int]:
        seen, grace = 0, list[int]()
        while len(grace) < count:
            reply = await home.poll(process, seen, seconds=0.002 * (1 + len(grace) % 3))
            assert not reply.superseded
            seen = reply.version
            grace.extend(int(each.grace) for each in reply.orders if isinstance(each, CancelOrder))
        return grace

    def tell(number: int) -> None:
        for each in range(processes):
            home.mailboxes.put(f"p{each}", order("r").model_copy(update={"grace": float(number)}))

    listening = [start(listen(f"p{number}")) for number in range(processes)]
    for number in range(count):
        await home.do(partial(tell, number))
    assert await asyncio.gather(*listening) == [list(range(count))] * processes
