"""Sending a request and recording what comes back, bounded in time and in bytes."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio
import httpx
import pydantic_core

from ..clients import client_for
from ..failures import from_transport
from ..http import CONNECT_TIMEOUT
from ..secrets import clean
from .recording import Recording

MAX_BYTES = 1024 * 1024
"""Bytes of an answer after which reading is given up."""
TIMEOUT = 60.0
"""Seconds for one request, if nobody says otherwise."""
MAX_TOKENS = 1024
"""Tokens of one answer, if nobody says otherwise."""


@dataclass(frozen=True)
class Target:
    """The endpoint to examine."""

    base_url: str
    """Address up to and without `/chat/completions`."""
    model: str
    """Name of the model, as the server knows it."""
    key: str | None = field(default=None, repr=False)
    """The key, if there is one."""
    key_name: str | None = None
    """The environment variable it came from, for the profile."""
    key_header: str = "authorization"
    """Header of the key, in lower case; `authorization` carries it as a bearer token, any other as it is."""
    timeout: float = TIMEOUT
    """Seconds for one request."""
    max_tokens: int = MAX_TOKENS
    """Upper bound of an answer with reasoning or tools."""
    extra_body: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Fields merged into every conversation request."""

    @property
    def host(self) -> str:
        """The server, for messages."""
        url = httpx.URL(self.base_url)
        return f"{url.host}:{url.port}" if url.port else url.host


async def ask(
    target: Target,
    path: str,
    body: Mapping[str, Any] | None,
    *,
    key: str | None,
    method: Literal["GET", "POST"] = "POST",
) -> Recording:
    """Send a request and return what came of it; nothing is raised for what the server or the network does.

    Args:
        target: The endpoint.
        path: What is asked below its address.
        body: The JSON to send.
        key: The key to send, which need not be the target's.
        method: How to ask.
    """
    url = httpx.URL(target.base_url + path)
    log = _Log(dict(body or {}), tuple(word for word in (key, target.key) if word))
    try:
        client = await client_for(url)
        with anyio.fail_after(target.timeout):
            async with client.stream(
                method,
                url,
                headers=_headers(key, target.key_header),
                content=pydantic_core.to_json(body) if body is not None else None,
                timeout=httpx.Timeout(target.timeout, connect=min(CONNECT_TIMEOUT, target.timeout)),
            ) as response:
                await log.read(response)
    except TimeoutError:
        return log.end(f"it was not done after {target.timeout:g} s", "time")
    except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError) as error:
        return log.end(clean(from_transport(error, target.host, secret=key).message, target.key))
    return log.end(None)


def _headers(key: str | None, name: str) -> dict[str, str]:
    headers = {"accept-encoding": "identity", "content-type": "application/json", "user-agent": "runtree-wirecheck"}
    if key:
        headers[name] = f"Bearer {key}" if name == "authorization" else key
    return headers


class _Log:
    """Takes down an exchange while it happens."""

    def __init__(self, request: dict[str, Any], secrets: tuple[str, ...]) -> None:
        self._request, self._secrets = request, secrets
        self._begin = time.monotonic()
        self._status: int | None = None
        self._headers: dict[str, str] = {}
        self._reads: list[tuple[float, bytes]] = []
        self._bound: Literal["time", "bytes"] | None = None

    async def read(self, response: httpx.Response) -> None:
        self._status = response.status_code
        self._headers = dict(response.headers.items())
        size = 0
        async for data in response.aiter_bytes():
            self._reads.append((time.monotonic() - self._begin, data))
            size += len(data)
            if size > MAX_BYTES:
                self._bound = "bytes"
                break

    def end(self, fault: str | None, bound: Literal["time"] | None = None) -> Recording:
        seconds = time.monotonic() - self._begin
        reads = self._reads
        body = b"".join(data for _, data in reads)
        for secret in self._secrets:
            # Servers repeat a key that they refuse. A key cut over two reads is found in the whole only.
            if secret.encode() in body:
                body = body.replace(secret.encode(), b"***")
                reads = [(reads[0][0], body)]
        headers = {name: self._without_secrets(value) for name, value in self._headers.items()}
        return Recording(self._request, self._status, headers, tuple(reads), seconds, fault, bound or self._bound)

    def _without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text
