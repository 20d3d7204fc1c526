"""The HTTP clients of this process: for each event loop and server several, each with few connections.

A connection pool of httpcore looks at all of its connections whenever a request begins and ends, and at all of them for each that is idle. A process
with hundreds of answers under way spends nearly all of its time on that, unless the connections are spread over small pools.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator
from functools import cache
from typing import Final

import httpx

ANSWERS_AT_ONCE: Final = 8
"""Answers that one client has under way: what a pool's looks cost grows with their square."""

_IDLE_SECONDS: Final = 60.0
"""How long a client waits for its next answer; the first one of a server always does."""

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=30.0)

_Keeper = AsyncGenerator[httpx.AsyncClient, None]


class Lent:
    """A client for one answer; to be given back when that is over."""

    def __init__(self, client: httpx.AsyncClient, keeper: _Keeper) -> None:
        self.client = client
        self.keeper = keeper
        self.answers = 0
        self.used = time.monotonic()

    def give_back(self) -> None:
        """Let others have its place."""
        self.answers -= 1
        self.used = time.monotonic()


_clients: dict[asyncio.AbstractEventLoop, dict[str, list[Lent]]] = {}


async def lend(url: httpx.URL) -> Lent:
    """Return a client of this event loop for one answer of a server.

    It is closed when the loop ends in the ordinary way: the client is kept by an asynchronous generator, and loops close those last.
    """
    clients = _clients_of(url)
    # The first with room: the later ones have nothing to do when there is less to do, and are closed.
    found = next((each for each in clients if each.answers < ANSWERS_AT_ONCE), None)
    if found is None:
        client = _make_client(url)
        found = Lent(client, _keep(client))
        clients.append(found)
        found.answers += 1
        await anext(found.keeper)
        return found
    found.answers += 1
    if clients[-1] is not found:
        await _close_idle(clients)
    return found


async def client_for(url: httpx.URL) -> httpx.AsyncClient:
    """Return this event loop's first client for a server, for whoever asks now and then."""
    clients = _clients_of(url)
    if not clients:
        (await lend(url)).give_back()
    return clients[0].client


async def close_clients() -> None:
    """Close the clients of this event loop; the next call makes new ones."""
    for clients in _clients.pop(asyncio.get_running_loop(), {}).values():
        for each in clients:
            await each.keeper.aclose()


def _clients_of(url: httpx.URL) -> list[Lent]:
    loop = asyncio.get_running_loop()
    if loop not in _clients:
        _forget_dead_loops()
    server = f"{url.scheme}://{url.netloc.decode('ascii')}"
    return _clients.setdefault(loop, {}).setdefault(server, [])


async def _close_idle(clients: list[Lent]) -> None:
    last = clients[-1]
    if not last.answers and time.monotonic() - last.used > _IDLE_SECONDS:
        await last.keeper.aclose()


async def _keep(client: httpx.AsyncClient) -> _Keeper:
    try:
        yield client
    finally:
        _take_out(client)
        await client.aclose()


def _take_out(client: httpx.AsyncClient) -> None:
    loop = asyncio.get_running_loop()
    servers = _clients.get(loop, {})
    for server, clients in list(servers.items()):
        clients[:] = [each for each in clients if each.client is not client]
        if not clients:
            del servers[server]
    if not servers:
        _clients.pop(loop, None)


def _forget_dead_loops() -> None:
    for loop in [loop for loop in _clients if loop.is_closed()]:
        del _clients[loop]


def _make_client(url: httpx.URL) -> httpx.AsyncClient:
    local = url.host in _LOOPBACK
    return httpx.AsyncClient(
        limits=_LIMITS,
        verify=certificates() if url.scheme == "https" or not local else _no_certificates(),
        trust_env=not local,
        follow_redirects=False,
    )


@cache
def certificates() -> ssl.SSLContext:
    """Return the certificates that are trusted. Reading them takes tens of milliseconds: once a process, not once a client."""
    return httpx.create_ssl_context()


@cache
def _no_certificates() -> ssl.SSLContext:
    # For plain HTTP on this machine: trusts nobody, costs nothing.
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
