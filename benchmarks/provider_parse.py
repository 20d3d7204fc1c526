"""What a streamed delta costs from socket to event, against a hand-written loop on the same bytes.

    python benchmarks/provider_parse.py [--deltas 20000] [--rounds 7]

A server in a process of its own sends the same answer to everybody, either each event as a chunk of HTTP of its own, as most servers do, or
many events in one. The contenders take turns; the figure is CPU time of this process for one delta, the best and the median of the rounds.
`bare lines` is httpx's line iterator and jiter: the least a client written by hand does, without any of the checks.
"""

import argparse
import asyncio
import json
import multiprocessing
import statistics
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection

import httpx

from runtree.messages.model import ModelRequest
from runtree.messages.transcript import UserMessage
from runtree.providers import OpenAIChat

try:
    from jiter import from_json
except ImportError:
    from pydantic_core import from_json

FRAMINGS = {"one event a chunk": 1, "64 events a chunk": 64}


def answer(deltas: int) -> list[bytes]:
    """Events of the size and shape that OpenAI sends."""
    head = {"id": "chatcmpl-CoDWxLsl1kVbpr74j0IN577ELqIIt", "object": "chat.completion.chunk", "created": 1766084447}
    head |= {"model": "gpt-4o-2024-08-06", "service_tier": "default", "system_fingerprint": "fp_deacdd5f6f"}

    def event(delta: dict[str, str], finish: str | None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        chunk = {**head, "choices": [choice], "usage": None, "obfuscation": "Csv6666l8Yy5oO"}
        return b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"

    events = [event({"content": f"w{number % 10000:04}"}, None) for number in range(deltas)]
    return [*events, event({}, "stop"), b"data: [DONE]\n\n"]


def serve(pipe: Connection, deltas: int) -> None:
    asyncio.run(_serve(pipe, deltas))


async def _serve(pipe: Connection, deltas: int) -> None:
    events, bodies = answer(deltas), []
    for size in FRAMINGS.values():
        chunks = [b"".join(events[at : at + size]) for at in range(0, len(events), size)]
        bodies.append(b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n")

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length or 0))
                which = int(head.split(b"/")[1])
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
                )
                writer.write(bodies[which])
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(reply, "127.0.0.1", 0)
    pipe.send(server.sockets[0].getsockname()[1])
    await asyncio.get_running_loop().run_in_executor(None, pipe.recv)
    server.close()


async def bare_lines(client: httpx.AsyncClient, url: str) -> int:
    count = 0
    async with client.stream("POST", f"{url}/chat/completions", json={}) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: ") and line != "data: [DONE]":
                count += bool(from_json(line[6:].encode())["choices"][0]["delta"])
    return count


async def only_httpx(client: httpx.AsyncClient, url: str) -> int:
    async with client.stream("POST", f"{url}/chat/completions", json={}) as response:
        async for _ in response.aiter_raw():
            pass
    return 0


async def runtree(_client: httpx.AsyncClient, url: str) -> int:
    count = 0
    request = ModelRequest(messages=(UserMessage.of("hi"),), timeout=600, idle_timeout=60)
    async for event in OpenAIChat("m", base_url=url).stream(request):
        count += event.kind == "text_delta"
    return count


CONTENDERS: dict[str, Callable[[httpx.AsyncClient, str], Awaitable[int]]] = {
    "bare lines": bare_lines,
    "OpenAIChat": runtree,
    "httpx, no parsing": only_httpx,
}


async def measure(port: int, deltas: int, rounds: int) -> None:
    print(f"{'framing':<20}{'contender':<20}{'best us':>9}{'median us':>11}{'ratio':>8}")
    async with httpx.AsyncClient(trust_env=False) as client:
        for which, framing in enumerate(FRAMINGS):
            times: dict[str, list[float]] = {name: [] for name in CONTENDERS}
            for _ in range(rounds):
                for name, contender in CONTENDERS.items():
                    start = time.process_time()
                    count = await contender(client, f"http://127.0.0.1:{port}/{which}")
                    times[name].append((time.process_time() - start) / deltas * 1e6)
                    assert count in (0, deltas)
            floor = min(times["bare lines"])
            for name, values in times.items():
                best, median = min(values), statistics.median(values)
                print(f"{framing:<20}{name:<20}{best:>9.1f}{median:>11.1f}{best / floor:>8.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deltas", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there, options.deltas), daemon=True)
    server.start()
    try:
        asyncio.run(measure(here.recv(), options.deltas, options.rounds))
    finally:
        here.send("end")
        server.join(5)


if __name__ == "__main__":
    main()
