"""Agents and tools that do what a test on a cluster needs: wait, block, disobey, die, and tell when they have begun.

Actors import this module, so that everything in it travels by name. Tools find their gates in the run's `deps`.
"""

import asyncio
import os
import signal
import subprocess
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio

from runtree import Agent, ToolContext, tool
from runtree.messages.content import TextBlock
from runtree.messages.model import Completed, ModelEvent, ModelRequest, ModelResponse, Started, TextDelta
from runtree.messages.transcript import AssistantMessage
from runtree.providers.profile import ModelProfile
from runtree.providers.scripted import Hang, ScriptedModel, tool_call

from .eventually import eventually
from .gates import Gates


def entered(context: ToolContext) -> Gates:
    """Tells that the tool has begun, by a gate named after tool and run whose content is the process id."""
    gates: Gates = context.deps
    gates.open(f"{context.tool_name}-{context.run_id}", os.getpid())
    if not gates.is_open(context.tool_name):
        gates.open(context.tool_name, os.getpid())
    return gates


@tool
async def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@tool
async def hold(context: ToolContext) -> str:
    """Waits for the gate `go`."""
    await entered(context).passed("go", 60)
    return "held"


@tool
async def sleep_async(context: ToolContext) -> None:
    """Waits for ever and lets itself be cancelled."""
    entered(context)
    await anyio.sleep_forever()


@tool
def sleep_sync(context: ToolContext) -> str:
    """Sleeps in a thread."""
    entered(context)
    time.sleep(60)
    return "slept"


@tool
def spin_sync(context: ToolContext) -> str:
    """Burns a thread in a loop, and never looks at the flag."""
    entered(context)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        pass
    return "spun"


@tool
async def block_async(context: ToolContext) -> str:
    """Blocks the run's event loop."""
    entered(context)
    time.sleep(60)  # noqa: ASYNC251 - the fault under test
    return "blocked"


@tool
async def swallow(context: ToolContext) -> str:
    """Swallows every cancellation."""
    entered(context)
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass


@tool
async def swallow_with_process(context: ToolContext) -> str:
    """Starts a process, tells its id, and swallows every cancellation."""
    process = subprocess.Popen(["sleep", "600"])  # noqa: ASYNC220 - returns at once
    entered(context).open("process", process.pid)
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass


@tool
async def first_swallows(context: ToolContext) -> Any:
    """The first run that calls it swallows every cancellation, the others wait for the gate `go`."""
    gates = entered(context)
    try:
        (gates.folder / "swallower").touch(exist_ok=False)
    except FileExistsError:
        return await hold.function(context)
    gates.open("swallows", context.run_id)
    return await swallow.function(context)


@tool
async def litter(context: ToolContext, what: str) -> str:
    """Leaves its process other than it was."""
    gates = entered(context)
    if what == "environment":
        os.environ["RUNTREE_LITTER"] = "left"
    elif what == "folder":
        os.chdir(gates.folder)
    elif what == "child":
        gates.open("child", subprocess.Popen(["sleep", "600"]).pid)  # noqa: ASYNC220 - returns at once
    elif what == "thread":
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    return what


@tool
async def tell_node(context: ToolContext) -> str:
    """Tells which node it is on, by a gate that is named after its run."""
    from runtree.actors.remote import node_id

    gates: Gates = context.deps
    gates.open(f"node-{context.run_id}", node_id())
    return "told"


@tool
async def tell_id(context: ToolContext) -> str:
    """Emits the id of its run, once it may."""
    await entered(context).passed("go")
    context.emit("id", context.run_id)
    return context.run_id


@tool
async def linger(context: ToolContext, seconds: float) -> None:
    """Goes on for some seconds after it was told to stop."""
    entered(context)
    try:
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(seconds)


@tool
async def die(context: ToolContext) -> str:
    """Kills its own process."""
    entered(context)
    os.kill(os.getpid(), signal.SIGKILL)
    return "unreachable"


@tool
async def die_once(context: ToolContext) -> str:
    """Kills its own process, but not that of the next attempt."""
    entered(context)
    if context.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


@tool
async def die_once_with_process(context: ToolContext) -> str:
    """Starts a process that watches its input, and kills its own process in the first attempt."""
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)  # noqa: ASYNC220 - returns at once
    entered(context).open(f"process-{context.attempt}-{context.run_id}", process.pid)
    if context.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    process.kill()
    process.wait()
    return "alive"


@tool(idempotent=False)
async def die_at_pay(context: ToolContext) -> str:
    """Kills its own process, and must not be run again."""
    gates = entered(context)
    gates.open(f"paid-{context.attempt}", context.idempotency_key)
    os.kill(os.getpid(), signal.SIGKILL)
    return "unreachable"


@tool
async def die_when_two(context: ToolContext) -> str:
    """Kills its own process once two runs hold, but not that of the next attempt."""
    gates = entered(context)
    if context.attempt == 1:
        await eventually(lambda: len(gates.names("hold_first-")) == 2)
        gates.open("died")
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


@tool
async def hold_first(context: ToolContext) -> str:
    """Waits for ever, unless the tool that kills has done so."""
    if not context.deps.is_open("died"):
        entered(context)
        await anyio.sleep_forever()
    return "not held"


@tool
async def hold_open(context: ToolContext) -> None:
    """Waits for ever."""
    entered(context)
    await anyio.sleep_forever()


@tool
async def cancel_all(context: ToolContext) -> str:
    """Cancels the tree it is part of, and tells when the call has returned."""
    gates = entered(context)
    with anyio.CancelScope(shield=True):
        await context.cancel(context.root_run_id, reason="a tool said so")
        gates.open("latched")
    return "cancelled"


@tool
async def read_deps(context: ToolContext) -> str:
    """Shows what reached it through `deps`."""
    context.emit("deps", context.deps)
    return "shown"


class Pouring:
    """A model that streams numbered pieces and tells how many were taken, in a file beside the gates."""

    def __init__(self, pieces: int, counter: Path, mark: int) -> None:
        self.profile = ModelProfile(provider="pouring", model="pouring")
        self._pieces, self._counter, self._mark = pieces, counter, mark

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield Started(model="pouring")
        with self._counter.open("ab", buffering=0) as file:
            for number in range(self._pieces):
                file.write(b".")
                if number == self._mark:
                    Gates(self._counter.parent).open("poured")
                yield TextDelta(text=f"{number} ")
        message = AssistantMessage(content=(TextBlock(text="all"),), finish_reason="stop")
        yield Completed(response=ModelResponse(message=message))


def count_messages(request: ModelRequest) -> list[str]:
    """A scripted turn: how many messages the model was sent."""
    return [f"{len(request.messages)} messages"]


def leaf(name: str = "leaf", *pieces: Any, **options: Any) -> Agent:
    """An agent that says something; without pieces, something with its name in it."""
    return Agent(name, ScriptedModel([list(pieces or ("from ", name))], loop=True), **options)


def silent(name: str = "silent", **options: Any) -> Agent:
    """An agent whose model says a word and then nothing more."""
    return Agent(name, ScriptedModel([["a word", Hang()]], loop=True), **options)


def user(name: str, *tools: Any, arguments: dict[str, Any] | None = None, **options: Any) -> Agent:
    """An agent that calls its tools side by side, then says `done`."""
    calls = [tool_call(each.name, (arguments or {}).get(each.name, {})) for each in tools]
    return Agent(name, ScriptedModel([calls, ["done"]], loop=True), tools=tools, **options)


def lead(*children: Agent, name: str = "lead", times: int = 1, tools: Any = (), **options: Any) -> Agent:
    """An agent that calls its sub-agents and tools side by side, each sub-agent so many times, then says `done`."""
    calls = [tool_call(child.name, {"input": f"part {n}"}) for child in children for n in range(times)]
    calls += [tool_call(each.name, {}) for each in tools]
    return Agent(name, ScriptedModel([calls, ["done"]], loop=True), agents=children, tools=tools, **options)


def dying_inner(**options: Any) -> Agent:
    """An agent whose first process dies while the runs of its two sub-agents hold; options are those of the sub-agents."""
    below = [user(name, hold_first, **options) for name in ("one", "two")]
    calls = [*(tool_call(child.name, {"input": "x"}) for child in below), tool_call("die_when_two", {})]
    return Agent("inner", ScriptedModel([calls, ["done"]]), agents=below, tools=[die_when_two])
