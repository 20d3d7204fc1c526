"""What a streamed delta costs from socket to event, against a hand-written loop and the official SDKs on the same bytes.

    python benchmarks/provider_parse.py [--deltas 5000] [--rounds 9] [--protocol chat] [--kind text]

A server in a process of its own sends the same answer to everybody, either each event as a chunk of HTTP of its own, as most servers do, or
64 events in one. The contenders take turns; the figure is CPU time of this process for one delta, the best and the median of the rounds.
`httpx alone` reads the bytes and drops them. `bare loop` is httpx's line iterator and jiter: the least a client written by hand does,
without any of the checks. The SDKs of OpenAI and Anthropic are asked for their streams of plain events; they run beside it in every third
round where they are installed, and are no dependency of anything.
"""

import argparse
import asyncio
import contextlib
import gc
import importlib
import importlib.util
import itertools
import multiprocessing
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from typing import Any

import httpx
from parse_answers import ANSWERS

from runtree.messages.model import Completed, ModelRequest, ReasoningDelta, TextDelta, ToolCallDelta
from runtree.messages.transcript import UserMessage
from runtree.providers import AnthropicMessages, OpenAIChat, OpenAIResponses

try:
    from jiter import from_json
except ImportError:
    from pydantic_core import from_json

Contender = Callable[[str, str, str], Awaitable[int]]

EVENTS_IN_A_CHUNK = (1, 64)
MODELS = {"chat": OpenAIChat, "responses": OpenAIResponses, "anthropic": AnthropicMessages}
PATHS = {"chat": "/chat/completions", "responses": "/responses", "anthropic": "/v1/messages"}
KINDS = {"text": TextDelta, "reasoning": ReasoningDelta, "arguments": ToolCallDelta}
SDKS = {"chat": "openai", "responses": "openai", "anthropic": "anthropic"}
MARKS = {"chat": "choices", "responses": ".delta", "anthropic": "content_block_delta"}


def serve(pipe: Connection, deltas: int) -> None:
    asyncio.run(_serve(pipe, deltas))


async def _serve(pipe: Connection, deltas: int) -> None:
    bodies: dict[str, bytes] = {}
    for (protocol, kind), answer in ANSWERS.items():
        events = answer(deltas)
        for size in EVENTS_IN_A_CHUNK:
            chunks = [b"".join(events[at : at + size]) for at in range(0, len(events), size)]
            framed = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
            bodies[f"{protocol}-{kind}-{size}"] = framed

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length or 0))
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
                )
                writer.write(bodies[head.split(b"/")[1].decode()])
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(reply, "127.0.0.1", 0)
    pipe.send(server.sockets[0].getsockname()[1])
    await asyncio.get_running_loop().run_in_executor(None, pipe.recv)
    server.close()


def bare_loop(client: httpx.AsyncClient) -> Contender:
    fields = {"text": "content", "reasoning": "reasoning_content", "arguments": "tool_calls"}

    async def run(base_url: str, protocol: str, kind: str) -> int:
        count, field, mark = 0, fields[kind], MARKS[protocol]
        async with client.stream("POST", base_url + PATHS[protocol], json={}) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: ") and line != "data: [DONE]":
                    event = from_json(line[6:].encode())
                    if protocol == "chat":
                        count += bool(event["choices"][0]["delta"].get(field))
                    elif event["type"].endswith(mark):
                        count += bool(event["delta"])
        return count

    return run


def only_httpx(client: httpx.AsyncClient) -> Contender:
    async def run(base_url: str, protocol: str, _kind: str) -> int:
        async with client.stream("POST", base_url + PATHS[protocol], json={}) as response:
            async for _ in response.aiter_raw():
                pass
        return 0

    return run


async def runtree(base_url: str, protocol: str, kind: str) -> int:
    count, wanted, last = 0, KINDS[kind], None
    request = ModelRequest(messages=(UserMessage.of("hi"),), timeout=600, idle_timeout=60)
    async for event in MODELS[protocol]("m", base_url=base_url, api_key="none").stream(request):
        count += event.__class__ is wanted
        last = event
    assert isinstance(last, Completed), last
    return count


def sdk(name: str) -> Contender | None:
    if importlib.util.find_spec(name) is None:
        print(f"NOT MEASURED: {name} is not installed, so its protocols have no SDK beside them (pip install {name})")
        return None
    module: Any = importlib.import_module(name)
    clients: dict[str, Any] = {}
    client_class = module.AsyncOpenAI if name == "openai" else module.AsyncAnthropic
    messages = [{"role": "user", "content": "hi"}]

    async def run(base_url: str, protocol: str, kind: str) -> int:
        client = clients.get(base_url) or clients.setdefault(base_url, client_class(base_url=base_url, api_key="none"))
        count = 0
        if protocol == "chat":
            async for chunk in await client.chat.completions.create(model="m", messages=messages, stream=True):
                count += bool(chunk.choices[0].delta)
        elif protocol == "responses":
            async for event in await client.responses.create(model="m", input="hi", stream=True):
                count += event.type.endswith(MARKS[protocol])
        else:
            async for event in await client.messages.create(model="m", messages=messages, max_tokens=9, stream=True):
                count += event.type == MARKS[protocol]
        return count

    return run


async def measure(port: int, options: argparse.Namespace) -> None:
    load = os.getloadavg()[0]
    print(
        f"load average {load:.1f}, {options.deltas} deltas, {options.rounds} rounds; us of CPU for a delta: best (median)"
    )
    sdks = {name: sdk(name) for name in sorted({SDKS[protocol] for protocol in options.protocol})}
    columns = ["httpx alone", "bare loop", "runtree", "SDK", "runtree/bare", "runtree/SDK"]
    print(f"{'answer':<21}{'events/chunk':>12}" + "".join(f"{column:>16}" for column in columns))
    async with httpx.AsyncClient(trust_env=False) as client:
        for protocol, kind, size in itertools.product(options.protocol, options.kind, EVENTS_IN_A_CHUNK):
            contenders: dict[str, Contender | None] = {
                "httpx": only_httpx(client),
                "bare": bare_loop(client),
                "runtree": runtree,
            }
            contenders["SDK"] = sdks[SDKS[protocol]]
            running = {name: contender for name, contender in contenders.items() if contender is not None}
            times: dict[str, list[float]] = {name: [] for name in running}
            for turn in range(options.rounds + 1):
                for name, contender in running.items():
                    if name == "SDK" and turn % 3:
                        continue  # it takes ten times as long as all others together
                    gc.collect()
                    start = time.process_time()
                    count = await contender(f"http://127.0.0.1:{port}/{protocol}-{kind}-{size}", protocol, kind)
                    taken = (time.process_time() - start) / options.deltas * 1e6
                    assert name == "httpx" or abs(count - options.deltas) <= 2, f"{name} counted {count}"
                    if turn:  # the first one warms up
                        times[name].append(taken)
            report(f"{protocol} {kind}", size, times)


def report(answer: str, size: int, times: dict[str, list[float]]) -> None:
    best = {name: min(values) for name, values in times.items()}
    cells = [f"{best[name]:.1f} ({statistics.median(values):.1f})" for name, values in times.items()]
    ratios = [f"{best['runtree'] / best[name]:.2f}" if name in best else "-" for name in ("bare", "SDK")]
    if "SDK" not in times:
        cells.append("-")
    print(f"{answer:<21}{size:>12}" + "".join(f"{cell:>16}" for cell in [*cells, *ratios]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deltas", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=9, help="at least 3")
    parser.add_argument("--protocol", action="append", choices=MODELS)
    parser.add_argument("--kind", action="append", choices=KINDS)
    options = parser.parse_args()
    options.protocol, options.kind = options.protocol or list(MODELS), options.kind or list(KINDS)
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there, options.deltas), daemon=True)
    server.start()
    try:
        asyncio.run(measure(here.recv(), options))
    finally:
        here.send("end")
        server.join(5)


if __name__ == "__main__":
    main()
