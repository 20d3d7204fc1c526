"""The time limit of one request: it ends the wait for the model and nothing that its reader does."""

import asyncio
from collections.abc import AsyncIterator

import anyio
import pytest

from runtree.actors.agent.time_limit import OutOfTimeError, within


async def words(*said: str, forever: bool = False) -> AsyncIterator[str]:
    for word in said:
        yield word
    if forever:
        await anyio.sleep_forever()


async def read(stream: AsyncIterator[str], seen: list[str]) -> None:
    async for word in stream:
        seen.append(word)  # noqa: PERF401  # what came before an error counts


async def test_a_stream_that_ends_in_time_is_as_it_was() -> None:
    assert [word async for word in within(words("a", "b"), 60)] == ["a", "b"]


async def test_p18_a_wait_for_the_next_event_is_ended() -> None:
    seen: list[str] = []
    with anyio.fail_after(10), pytest.raises(OutOfTimeError):
        await read(within(words("a", forever=True), 0.01), seen)
    assert seen == ["a"]
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0, "no cancel is left behind"


async def test_a_reader_is_not_interrupted() -> None:
    """The time runs out while the reader is busy: it finishes what it does, and learns of it when it asks for more."""
    for stream in (within(words("a", "b"), 0.001), within(words("a", forever=True), 0.001)):
        await anext(stream)
        over = asyncio.Event()
        asyncio.get_running_loop().call_later(0.02, over.set)
        await over.wait()
        with anyio.fail_after(10), pytest.raises(OutOfTimeError):
            await anext(stream)


async def test_a_cancel_from_elsewhere_stays_one() -> None:
    entered = asyncio.Event()

    async def wait() -> None:
        async for _ in within(words("a", forever=True), 60):
            entered.set()

    task = asyncio.create_task(wait())
    await entered.wait()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()


async def test_a_cancel_at_the_same_moment_stays_one() -> None:
    caught: list[BaseException] = []

    async def stubborn() -> AsyncIterator[str]:
        yield "a"
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            # The time is up; before that is known outside, the task is cancelled as well.
            current = asyncio.current_task()
            assert current is not None
            current.cancel()
            raise

    async def wait() -> None:
        try:
            async for _ in within(stubborn(), 0.01):
                pass
        except BaseException as error:
            caught.append(error)
            raise

    task = asyncio.create_task(wait())
    await asyncio.wait({task})
    assert task.cancelled()
    assert [type(error) for error in caught] == [asyncio.CancelledError]


async def test_a_model_that_swallows_the_end_of_its_time_is_ended_all_the_same() -> None:
    async def deaf() -> AsyncIterator[str]:
        yield "a"
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            yield "late"

    seen: list[str] = []
    with anyio.fail_after(10), pytest.raises(OutOfTimeError):
        await read(within(deaf(), 0.01), seen)
    assert seen == ["a"]


async def test_a_cancelled_scope_around_it_ends_it() -> None:
    with anyio.move_on_after(0.01) as scope:
        async for _ in within(words("a", forever=True), 60):
            pass
    assert scope.cancelled_caught


async def test_a_reader_may_wait_in_tasks_of_its_own() -> None:
    """As `asyncio.wait_for` does: the time's end strikes the task that waits, not the one that waited first."""
    stream = within(words("a", forever=True), 0.02)

    async def following() -> str:
        return await anext(stream)

    with anyio.fail_after(10):
        assert await asyncio.create_task(following()) == "a"
        with pytest.raises(OutOfTimeError):
            await asyncio.create_task(following())


async def test_p18_what_a_model_raises_at_the_end_of_its_time_is_not_the_cause() -> None:
    async def sore() -> AsyncIterator[str]:
        yield "a"
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            raise ValueError("sore") from None

    seen: list[str] = []
    with anyio.fail_after(10), pytest.raises(OutOfTimeError):
        await read(within(sore(), 0.01), seen)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
