"""Connections: when they are closed, and when they are used again."""

import asyncio
import gc
import weakref
from contextlib import aclosing

import anyio
import httpx

from runtree.messages.model import TextDelta
from runtree.providers.clients import ANSWERS_AT_ONCE, _clients, client_for, close_clients, lend
from tests.kit.loopback import Answer, Loopback, hang, send

from .answers import chunk, stream
from .test_openai_chat import HELLO, REQUEST, ask, model_at, text_of


async def test_cancelling_closes_the_socket(loopback: Loopback) -> None:
    route = await loopback.route(Answer([send(stream(chunk({"content": "a"}), done=False)), hang()]))
    seen = asyncio.Event()

    async def read() -> None:
        async for event in model_at(route).stream(REQUEST):
            if isinstance(event, TextDelta):
                seen.set()

    task = asyncio.create_task(read())
    await asyncio.wait_for(seen.wait(), 10)
    task.cancel()
    await asyncio.wait({task}, timeout=10)
    assert task.cancelled()
    await route.until("disconnected")


async def test_cancelling_before_the_head_closes_the_socket(loopback: Loopback) -> None:
    route = await loopback.route(Answer(before=[hang()]))
    task = asyncio.create_task(ask(model_at(route)))
    await route.until("request")
    task.cancel()
    await asyncio.wait({task}, timeout=10)
    await route.until("disconnected")


async def test_closing_the_iterator_closes_the_socket(loopback: Loopback) -> None:
    route = await loopback.route(Answer([send(stream(chunk({"content": "a"}), done=False)), hang()]))
    async with aclosing(model_at(route).stream(REQUEST)) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                break
    await route.until("disconnected")


async def test_server_that_says_done_and_stays(loopback: Loopback) -> None:
    route = await loopback.route(Answer([send(HELLO), hang()]))
    assert await text_of(model_at(route)) == "Grüße 🌲"
    await route.until("disconnected")


async def test_connections_are_used_again(loopback: Loopback) -> None:
    route = await loopback.route(Answer([send(HELLO)]))
    model = model_at(route)
    client = await client_for(httpx.URL(route.base_url))
    for _ in range(3):
        await text_of(model)
    pool = client._transport._pool  # type: ignore[attr-defined]
    assert len(pool.connections) == 1


async def test_one_object_serves_concurrent_calls(loopback: Loopback) -> None:
    route = await loopback.route(Answer([send(HELLO)]))
    model = model_at(route)
    texts: list[str] = []

    async def one() -> None:
        texts.append(await text_of(model))

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(one)
    assert texts == ["Grüße 🌲"] * 20


async def test_many_answers_at_once_are_spread_over_clients_with_few_connections() -> None:
    url = httpx.URL("http://127.0.0.1:9")
    lent = [await lend(url) for _ in range(ANSWERS_AT_ONCE * 3)]
    clients = {id(each.client): each for each in lent}
    assert [each.answers for each in clients.values()] == [ANSWERS_AT_ONCE] * 3
    for each in lent:
        each.give_back()
    assert (await lend(url)).client is await client_for(url) is lent[0].client
    last = lent[-1]
    last.used -= 3600
    await lend(url)
    assert last.client.is_closed
    assert not lent[ANSWERS_AT_ONCE].client.is_closed
    await close_clients()
    assert all(each.client.is_closed for each in clients.values())


def test_clients_are_closed_with_their_loop() -> None:
    made: list[httpx.AsyncClient] = []

    async def use() -> None:
        url = httpx.URL("http://127.0.0.1:9")
        made.append(await client_for(url))
        assert await client_for(url) is made[0]
        await close_clients()
        assert made[0].is_closed
        made.append(await client_for(url))

    asyncio.run(use())
    assert made[1].is_closed
    gc.collect()
    assert not [loop for loop in _clients if loop.is_closed()]


async def test_nothing_is_left_of_an_abandoned_call(loopback: Loopback) -> None:
    route = await loopback.route(Answer([send(HELLO), hang()]))
    events = model_at(route).stream(REQUEST)
    await anext(events)
    gone = weakref.ref(events)
    del events
    gc.collect()
    assert gone() is None
    await route.until("disconnected")
