"""A chat completions endpoint that costs next to nothing.

    python -m runtree.bench.model_server [--host 127.0.0.1] [--port 0]

The model's name says what comes back: `burst-N` sends N deltas at once, `hang-N` sends N deltas and then stays open without a word,
`calls-worker:3,other:1` calls the tool `worker` three times and `other` once and, when it sees results, answers `done`; `lead-N` is short for
`calls-worker:N`. `GET /stats` tells how many streams hang and when the last one was closed (seconds of the machine's monotonic clock).

Every request has to show the token in the environment variable RUNTREE_BENCH_TOKEN as its key. Prints its port as the first line, and ends with
its stdin, so that it never outlives who started it.
"""

import argparse
import asyncio
import hmac
import json
import os
import re
import sys
import time
from typing import Any

HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
    b"connection: keep-alive\r\ntransfer-encoding: chunked\r\n\r\n"
)
_MODEL = re.compile(rb'"model"\s*:\s*"([^"]+)"')
_KEY = re.compile(rb"\r\nauthorization: *bearer +(\S+)", re.IGNORECASE)
_MOST = re.compile(rb'"max_(?:completion_)?tokens"\s*:\s*(\d+)')
_LENGTH = re.compile(rb"content-length:\s*(\d+)", re.IGNORECASE)


def _event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    chunk = {
        "id": "chatcmpl-benchmark-0123456789abcdef",
        "object": "chat.completion.chunk",
        "created": 1_800_000_000,
        "model": "benchmark",
        "system_fingerprint": "fp_0123456789",
        "choices": [choice],
        "usage": None,
    }
    return b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"


def _last(count: int) -> bytes:
    usage = {"prompt_tokens": 20, "completion_tokens": count, "total_tokens": 20 + count}
    return b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\ndata: [DONE]\n\n"


def _call(index: int, tool: str) -> dict[str, Any]:
    function = {"name": tool, "arguments": '{"input":"go"}'}
    return {"index": index, "id": f"call_{index}", "type": "function", "function": function}


def answer(model: str, *, after_tools: bool, most: int | None = None) -> tuple[bytes, bool]:
    """Return the events of an answer of at most so many deltas, and whether it hangs afterwards."""
    kind, _, rest = model.partition("-")
    if kind in ("lead", "calls"):
        count = 0
        if after_tools:
            events = [_event({"content": "done"}), _event({}, "stop")]
        else:
            calls = _tools(f"worker:{rest}" if kind == "lead" else rest)
            events = [_event({"tool_calls": [_call(*each)]}) for each in enumerate(calls)] + [_event({}, "tool_calls")]
    else:
        asked = int(rest or 0)
        count = asked if most is None else min(asked, most)
        end = _event({}, "stop" if count == asked else "length")
        events = [_event({"content": "word "})] * count + ([] if kind == "hang" else [end])
    hangs = kind == "hang"
    return b"".join(events) + (b"" if hangs else _last(count)), hangs


def _tools(text: str) -> list[str]:
    """Return the names of the tools to call: `a:2,b:1` is a, a, b."""
    pairs = (part.rpartition(":") for part in text.split(","))
    return [name for name, _, number in pairs for _ in range(int(number))]


class Connection(asyncio.Protocol):
    """One connection; requests may follow each other."""

    hanging = 0
    last_closed = 0.0
    token = b""

    def __init__(self) -> None:
        self.buffer = b""
        self.hangs = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the close of a hanging stream."""
        if self.hangs:
            Connection.hanging -= 1
            Connection.last_closed = time.monotonic()

    def data_received(self, data: bytes) -> None:
        """Answer every complete request."""
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end]
            length = _LENGTH.search(head)
            stop = end + 4 + (int(length[1]) if length else 0)
            if len(self.buffer) < stop:
                return
            body, self.buffer = self.buffer[end + 4 : stop], self.buffer[stop:]
            self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        key = _KEY.search(head)
        if key is None or not hmac.compare_digest(key[1], Connection.token):
            self.transport.write(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n")
            return
        if head.startswith(b"GET /stats"):
            stats = {"hanging": Connection.hanging, "last_closed": Connection.last_closed, "now": time.monotonic()}
            text = json.dumps(stats).encode()
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(text) + text)
            return
        model, most = _MODEL.search(body), _MOST.search(body)
        events, self.hangs = answer(
            model[1].decode() if model else "",
            after_tools=b'"role":"tool"' in body,
            most=int(most[1]) if most else None,
        )
        self.transport.write(HEAD + b"%x\r\n" % len(events) + events + b"\r\n" + (b"" if self.hangs else b"0\r\n\r\n"))
        if self.hangs:
            Connection.hanging += 1


async def serve(host: str, port: int) -> None:
    """Serve until stdin ends."""
    server = await asyncio.get_running_loop().create_server(Connection, host, port, backlog=4096)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.buffer.read)


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description="A chat completions endpoint for benchmarks.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    arguments = parser.parse_args()
    Connection.token = os.environ["RUNTREE_BENCH_TOKEN"].encode()
    asyncio.run(serve(arguments.host, arguments.port))


if __name__ == "__main__":
    main()
