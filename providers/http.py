"""HTTP for all providers: the conversation that turns an answer into events.

Model objects hold no client, so that they pickle; they name a server and `clients` has the connections.
"""

import asyncio
import os
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, cast

import anyio
import httpx

from ..messages.failure import Failure
from ..messages.model import Failed, ModelEvent
from ..messages.usage import NO_USAGE
from .clients import lend
from .failures import from_answer, from_transport

CONNECT_TIMEOUT = 10.0
"""Seconds until a connection has to stand."""

_ERROR_BODY_BYTES = 64 * 1024
_DRAIN_SECONDS = 0.25
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol, httpx.LocalProtocolError)


class Decoder(Protocol):
    """What a provider's answer is read by: bytes in, events out, no I/O."""

    @property
    def ended(self) -> bool:
        """Whether nothing more needs to be read."""
        ...

    def feed(self, read: bytes) -> list[ModelEvent]:
        """Take one read."""
        ...

    def finish(self) -> list[ModelEvent]:
        """Take the end of the answer; the last event is terminal, unless it was given before."""
        ...

    def fail(self, failure: Failure) -> Failed:
        """Return the terminal event of a call that failed outside of its answer."""
        ...


@dataclass(frozen=True)
class Exchange:
    """One request, and how long to wait for what."""

    url: httpx.URL
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    timeout: float | None = None
    """Seconds for all of it."""
    idle_timeout: float | None = None
    """Seconds without a byte."""
    connect_timeout: float = CONNECT_TIMEOUT
    secret: str | None = field(default=None, repr=False)
    """The key among the headers, to be kept out of messages."""

    @property
    def host(self) -> str:
        """The server, for messages."""
        return f"{self.url.host}:{self.url.port}" if self.url.port else self.url.host


async def converse(exchange: Exchange, decoder: Decoder) -> AsyncGenerator[ModelEvent, None]:
    """Send a request and yield the events of its answer; the last one is terminal.

    Closing the generator closes the connection. Nothing is raised for what the server or the network does.
    """
    deadline = _Deadline(exchange.timeout)
    failure: Failure | None = None
    free = False
    response: httpx.Response | None = None
    lent = await lend(exchange.url)
    try:
        response = await _send(exchange, lent.client, deadline)
        if response.status_code >= 300:
            failure = await _refused(exchange, response, deadline)
            free = response.status_code < 500
        else:
            deadline.guard(response)
            reads = _reads(response)
            async for read in reads:
                for event in decoder.feed(read):
                    yield event
                if decoder.ended:
                    break
            if not deadline.passed:
                await _drain(reads)
    except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError) as error:
        failure = _broken(error, exchange)
        free = isinstance(error, _NEVER_SENT)
    finally:
        deadline.cancel()
        try:
            if response is not None:
                await response.aclose()
        finally:
            lent.give_back()
    if deadline.passed and not decoder.ended:
        failure = _too_slow(exchange)
    if failure is not None and not decoder.ended:
        failed = decoder.fail(failure)
        # What no model has seen costs nothing, and must not make the account of the whole tree uncertain.
        yield failed.model_copy(update={"usage": NO_USAGE}) if free else failed
        return
    for event in decoder.finish():
        yield event


class _Deadline:
    """The total time of a call.

    A time limit around each read would cost more than the read. Instead the socket is shut down when the time is over, which ends
    the read that waits, or the next one.
    """

    def __init__(self, seconds: float | None) -> None:
        self._at = None if seconds is None else time.monotonic() + seconds
        self._timer: asyncio.TimerHandle | None = None
        self.passed = False

    @property
    def left(self) -> float | None:
        """Seconds that are left."""
        return None if self._at is None else max(self._at - time.monotonic(), 0.0)

    def guard(self, response: httpx.Response) -> None:
        """Watch over the rest of an answer that has begun."""
        if self.left is not None:
            self._timer = asyncio.get_running_loop().call_later(self.left, self._pass, response)

    def cancel(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()

    def _pass(self, response: httpx.Response) -> None:
        self.passed = True
        stream = response.extensions.get("network_stream")
        held = stream.get_extra_info("socket") if stream is not None else None
        if held is None or held.fileno() < 0:
            return
        # A descriptor of our own: event loops hand out stand-ins that refuse to be shut down.
        with socket.socket(fileno=os.dup(held.fileno())) as own:
            try:
                own.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is closed already


async def _send(exchange: Exchange, client: httpx.AsyncClient, deadline: _Deadline) -> httpx.Response:
    timeout = httpx.Timeout(exchange.idle_timeout, connect=exchange.connect_timeout, pool=None)
    request = client.build_request(
        "POST", exchange.url, headers=dict(exchange.headers), content=exchange.body, timeout=timeout
    )
    try:
        with anyio.fail_after(deadline.left):
            return await client.send(request, stream=True)
    except TimeoutError:
        deadline.passed = True
        raise


def _reads(response: httpx.Response) -> AsyncIterator[bytes]:
    if "content-encoding" in response.headers:
        return response.aiter_bytes()
    # The transport's own stream: `aiter_raw` is one more asynchronous step around each read of it.
    return aiter(cast(httpx.AsyncByteStream, response.stream))


async def _drain(reads: AsyncIterator[bytes]) -> None:
    """Read to the end of an answer that has said its last word, so that the connection can be used again."""
    with anyio.move_on_after(_DRAIN_SECONDS):
        async for _ in reads:
            pass


async def _refused(exchange: Exchange, response: httpx.Response, deadline: _Deadline) -> Failure:
    body = b""
    try:
        with anyio.fail_after(deadline.left):
            async for read in response.aiter_bytes():
                body += read
                if len(body) > _ERROR_BODY_BYTES:
                    break
    except (httpx.HTTPError, OSError):
        pass  # the status says enough
    if 300 <= response.status_code < 400:
        message = f"{exchange.host} sends elsewhere (HTTP {response.status_code}). Put the final address into base_url"
        return Failure(code="invalid_request", message=message, status=response.status_code)
    return from_answer(response.status_code, response.headers, body, secret=exchange.secret)


def _broken(error: Exception, exchange: Exchange) -> Failure:
    if isinstance(error, TimeoutError):
        return _too_slow(exchange)
    if isinstance(error, httpx.ReadTimeout):
        message = f"{exchange.host} sent no byte for {exchange.idle_timeout:g} s"
        return Failure(code="timeout", message=message, retryable=True, limit="stream_idle_timeout")
    return from_transport(error, exchange.host, secret=exchange.secret)


def _too_slow(exchange: Exchange) -> Failure:
    message = f"{exchange.host} was not done after {exchange.timeout:g} s"
    return Failure(code="timeout", message=message, retryable=True, limit="model_call_timeout")
