"""Sessions for tests: a scripted model, a few functions, and everything that was told."""

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from runtree.actors.repl.plain import PlainHost
from runtree.actors.repl.session import ReplSession
from runtree.messages import Custom, Item, ReplCall, ReplPolicy, ReplResult, ReplStoppedError
from runtree.providers import ScriptedModel

_psutil: Any = importlib.import_module("psutil")

SPIN = "while True: pass"


class Bench:
    """A host, its items, and a call that hangs until it is told otherwise."""

    def __init__(self, *answers: str) -> None:
        self.items: list[Item] = []
        self.hung = asyncio.Event()
        self.released = asyncio.Event()
        self.dropped = asyncio.Event()
        self.watch: Callable[[Item], object] = lambda _: None
        self.model = ScriptedModel([[answer] for answer in answers or ("yes",)], loop=True)
        self.host = PlainHost(self.model, [self.hang, add, fail, echo], self.note)

    def note(self, item: Item) -> None:
        self.items.append(item)
        self.watch(item)

    async def hang(self) -> str:
        """Hang until released."""
        self.hung.set()
        try:
            await self.released.wait()
        except asyncio.CancelledError:
            self.dropped.set()
            raise
        return "released"

    @property
    def calls(self) -> list[ReplCall]:
        return [item for item in self.items if isinstance(item, ReplCall)]

    @property
    def customs(self) -> list[Custom]:
        return [item for item in self.items if isinstance(item, Custom)]

    def session(self, policy: ReplPolicy | None = None, **options: Any) -> ReplSession:
        return ReplSession(self.host, policy=policy, **options)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


async def echo(value: Any) -> Any:
    """Return what came."""
    return value


async def stopped(work: Awaitable[Any]) -> ReplStoppedError:
    """Return the error with which a cell was stopped."""
    try:
        found = await work
    except ReplStoppedError as error:
        return error
    raise AssertionError(f"the cell ended by itself: {found}")


async def values(session: ReplSession, *codes: str) -> list[Any]:
    return [(await good(session, code)).value for code in codes]


async def good(session: ReplSession, code: str) -> ReplResult:
    """Return the result of a cell that raises nothing."""
    result = await session.eval_cell(code)
    assert result.error is None, result.error.traceback
    return result


def sandboxes() -> list[int]:
    """Return the ids of the sandbox processes of this process, dead ones that nobody has taken note of included."""
    return [child.pid for child in _psutil.Process().children(recursive=True) if child.name().startswith("monty")]


async def spinning(bench: Bench, session: ReplSession, code: str = SPIN) -> "asyncio.Task[ReplResult]":
    """Return a cell that certainly runs: it has told so."""
    started = asyncio.Event()
    bench.watch = lambda _: started.set()
    task = asyncio.ensure_future(session.eval_cell(f"emit('on')\n{code}"))
    await started.wait()
    return task


def only(items: Sequence[Any]) -> Any:
    (found,) = items
    return found
