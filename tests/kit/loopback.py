"""A loopback HTTP server in a process of its own that answers what a test tells it to, as badly as a test wants.

A test asks `Loopback.route` for an address of its own and says what each request to it is answered with: a list of steps. The server
notes what it was sent and what became of the connection; tests wait for these notes instead of sleeping. Both are done over HTTP below
`/_control`, so that nothing of the test's process is shared with the server.
"""

import asyncio
import base64
import itertools
import json
import socket
import ssl
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LIMIT = 10.0
"""Seconds any single wait may take."""

_PATIENCE = 30.0
"""Seconds the server waits to be released: on a busy machine what happens before that may take long."""

Step = dict[str, Any]


# What a test writes


def send(data: bytes | str) -> Step:
    """Sends bytes of the body in one write."""
    return {"do": "send", "data": _encode(data)}


def trickle(data: bytes | str) -> Step:
    """Sends bytes of the body one at a time, each in a write of its own."""
    return {"do": "trickle", "data": _encode(data)}


def wait(name: str) -> Step:
    """Pauses until `Route.release(name)`."""
    return {"do": "wait", "name": name}


def pause(seconds: float) -> Step:
    """Sends nothing for a while; for what is about time itself, everything else waits by name."""
    return {"do": "pause", "seconds": seconds}


def hang() -> Step:
    """Sends nothing more and keeps the connection open until the client closes it."""
    return {"do": "hang"}


def cut() -> Step:
    """Closes the connection in the middle of the body."""
    return {"do": "cut"}


def reset() -> Step:
    """Resets the connection in the middle of the body."""
    return {"do": "reset"}


@dataclass
class Answer:
    """One answer. With `framing="close"` the body ends with the connection and has no length."""

    steps: Sequence[Step] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})
    framing: str = "chunked"
    before: Sequence[Step] = ()
    """Steps before the first byte of the answer."""

    def _plan(self) -> dict[str, Any]:
        return {
            "steps": list(self.steps),
            "before": list(self.before),
            "status": self.status,
            "headers": self.headers,
            "framing": self.framing,
        }


def body(data: bytes | str, status: int = 200, content_type: str = "application/json", **headers: str) -> Answer:
    """An ordinary answer in one piece."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer([send(data)], status, {"content-type": content_type, **named})


def _encode(data: bytes | str) -> str:
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


class Route:
    """An address on the server with its own answers and notes."""

    def __init__(self, server: str, name: str) -> None:
        self.base_url = f"{server}/{name}/v1"
        self._control = f"{server}/_control/{name}"

    async def requests(self) -> list[dict[str, Any]]:
        """What was sent to this address: method, path, headers and JSON of each request."""
        found: list[dict[str, Any]] = await self._ask("GET", "requests")
        return found

    async def release(self, name: str) -> None:
        """Lets the `wait` of this name go on."""
        await self._ask("POST", f"release/{name}")

    async def until(self, note: str, count: int = 1) -> None:
        """Returns when the server has noted `request`, `sent`, `disconnected` or `done` so many times."""
        await self._ask("GET", f"until/{note}/{count}")

    async def _ask(self, method: str, path: str, content: Any = None) -> Any:
        import httpx  # not in the server's process, where it would only cost time

        # Without the certificates of the machine, which take longer to read than the answer.
        nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        async with httpx.AsyncClient(timeout=LIMIT + 5, trust_env=False, verify=nobody) as client:
            answer = await client.request(method, f"{self._control}/{path}", json=content)
        assert answer.status_code == 200, f"{path}: {answer.text}"
        return answer.json()


class Loopback:
    """The running server, as tests see it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._numbers = itertools.count()

    async def route(self, *answers: Answer) -> Route:
        """Returns an address whose first request gets the first answer, and so on; the last one is repeated."""
        route = Route(self.url, f"r{next(self._numbers)}")
        await route._ask("POST", "answers", [answer._plan() for answer in answers])
        return route


@contextmanager
def running() -> Iterator[Loopback]:
    """Starts the server; it ends with this process at the latest."""
    root = Path(__file__).resolve().parents[2]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.kit.loopback"], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        line = process.stdout.readline().decode().strip()
        assert line, "the loopback server did not start"
        yield Loopback(line)
    finally:
        process.stdin.close()
        process.wait(LIMIT)
        process.stdout.close()


# What runs in the server's process


class _GoneError(Exception):
    """The client has closed the connection."""


class _Place:
    """The state of one route."""

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []
        self.notes: dict[str, int] = {}
        self.released: set[str] = set()
        self.changed = asyncio.Condition()

    async def note(self, name: str) -> None:
        async with self.changed:
            self.notes[name] = self.notes.get(name, 0) + 1
            self.changed.notify_all()

    async def release(self, name: str) -> None:
        async with self.changed:
            self.released.add(name)
            self.changed.notify_all()


class _Server:
    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await _read_request(reader)) is not None:
                _, first, *rest = request["path"].split("/")
                if first == "_control":
                    await self._control(request, rest, writer)
                elif not await self._answer(self._places[first], request, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _control(self, request: dict[str, Any], path: list[str], writer: asyncio.StreamWriter) -> None:
        place = self._places.setdefault(path[0], _Place())
        result: Any = "ok"
        match path[1:]:
            case ["answers"]:
                place.answers = request["json"]
            case ["requests"]:
                result = place.requests
            case ["release", name]:
                await place.release(name)
            case ["until", name, count]:
                async with asyncio.timeout(LIMIT), place.changed:
                    await place.changed.wait_for(lambda: place.notes.get(name, 0) >= int(count))
        content = json.dumps(result).encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(content), content))
        await writer.drain()

    async def _answer(
        self, place: _Place, request: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answers one request and returns whether the connection may be used again."""
        plan = place.answers[min(len(place.requests), len(place.answers) - 1)]
        place.requests.append(request)
        await place.note("request")
        chunked: bool = plan["framing"] == "chunked"
        watch = asyncio.ensure_future(reader.read(1))
        try:
            for step in plan["before"]:
                await _play(step, place, writer, watch, chunked)
            writer.write(_head(plan, chunked))
            for step in plan["steps"]:
                await _play(step, place, writer, watch, chunked)
            # Before the end is sent: what comes after it is the next request, and not for the watch to read.
            await _end(watch)
            if chunked:
                writer.write(b"0\r\n\r\n")
            await writer.drain()
            await place.note("done")
            return chunked
        except (_GoneError, ConnectionError):
            await place.note("disconnected")
            return False
        except EOFError:
            await place.note("done")
            return False
        finally:
            await _end(watch)


async def _end(watch: "asyncio.Future[bytes]") -> None:
    watch.cancel()
    await asyncio.wait({watch})


async def _read_request(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines) if name}
    content = await reader.readexactly(int(headers.get("content-length", 0)))
    return {"method": method, "path": path, "headers": headers, "json": json.loads(content) if content else None}


def _head(plan: dict[str, Any], chunked: bool) -> bytes:
    headers = {**plan["headers"], **({"transfer-encoding": "chunked"} if chunked else {"connection": "close"})}
    lines = [f"HTTP/1.1 {plan['status']} Status", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def _play(
    step: Step, place: _Place, writer: asyncio.StreamWriter, watch: "asyncio.Future[bytes]", chunked: bool
) -> None:
    match step["do"]:
        case "send" | "trickle":
            async for piece in _pieces(step):
                if watch.done():
                    raise _GoneError
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
                await writer.drain()
            await place.note("sent")
        case "wait":
            async with place.changed:
                released = asyncio.ensure_future(place.changed.wait_for(lambda: step["name"] in place.released))
                waited: set[asyncio.Future[Any]] = {watch, released}
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED, timeout=_PATIENCE)
                if not released.done():
                    released.cancel()
                    await asyncio.wait({released})
                    raise _GoneError
        case "pause":
            await asyncio.sleep(step["seconds"])
        case "hang":
            await watch
            raise _GoneError
        case "cut":
            await writer.drain()
            raise EOFError
        case "reset":
            await writer.drain()
            held: socket.socket = writer.get_extra_info("socket")
            held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            raise EOFError


async def _pieces(step: Step) -> AsyncIterator[bytes]:
    data = base64.b64decode(step["data"])
    if step["do"] == "send":
        if data:  # an empty chunk would be the end of the body
            yield data
        return
    for index in range(len(data)):
        yield data[index : index + 1]
        await asyncio.sleep(0)


async def _main() -> None:
    server = await asyncio.start_server(_Server().serve, "127.0.0.1", 0, limit=2**24)
    # Without delay each write is a packet of its own, which is what a trickle is for; asyncio turns the delay off by itself.
    host, port = server.sockets[0].getsockname()
    print(f"http://{host}:{port}", flush=True)  # noqa: T201
    loop = asyncio.get_running_loop()
    async with server:
        # The other end of standard input is held by the tests: when it closes, they are gone.
        await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main())
