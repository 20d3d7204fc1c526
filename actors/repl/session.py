"""A REPL session: cells of model-written Python, one after the other, with variables that last."""

import asyncio
import contextlib
import functools
import keyword
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Protocol, Self, runtime_checkable

import anyio

from ...messages.errors import (
    ConfigurationError,
    ReplCancelledError,
    ReplClosedError,
    ReplLimitError,
    ReplStoppedError,
    ReplWorkerError,
)
from ...messages.ids import new_run_id
from ...messages.repl import ReplPolicy, ReplResult, ReplVariable
from ..agent.cancel_flag import CancelFlag
from .cell import Cell, Stop
from .functions import RESERVED, Budgets, CellFunctions
from .host import HostCalls
from .marshal import Measured, Measuring, is_mapping, plain
from .probe import PROBE, Known, changed, known, least_bytes
from .worker import Ended, Worker, WorkerDiedError

_KEPT_BYTES: Final = 16 * 2**20
"""Variables of up to so many bytes are copied after every cell, so that they survive the loss of the process."""

_VALUE_BYTES: Final = 224
"""What the sandbox takes for a value, a key or an element of an input besides its text: 30 to 170, and half as much again while lists grow."""

_OTHER_STEPS: Final = 20_000
"""How often the cells of one process may turn to the host besides for calls: names that are not there, pauses, `show_vars`."""


@runtime_checkable
class Fetched(Protocol):
    """An input that is somewhere else until the session begins, such as in the object store of the node."""

    async def get(self) -> Any:
        """Return it."""
        ...


@dataclass(frozen=True)
class _Done:
    """What came of a cell in the worker's thread."""

    ended: Ended
    value: Any = None
    changed: tuple[str, ...] = ()


class ReplSession:
    """Evaluates cells in a sandboxed process of its own. Use it as an async context manager.

    A cell that is stopped leaves no trace: what comes after it finds the variables as they were before. That needs a copy of them,
    which is kept up to 16 MiB; beyond that, and for sessions with larger inputs, `variables_kept` of a result says that they were lost, and only
    the inputs are given again.

    Args:
        host: What cells reach: models, tools and agents. `PlainHost` for use without an agent.
        policy: Its bounds.
        inputs: Variables that the cells find, of any size; text, values that JSON can hold, or objects with `async get()` that return such.
        cancelled: Stops the cell that runs, and all after it, once it is set.
        session_id: Names the session in items.

    Raises:
        ConfigurationError: The name of an input can't be a variable, or belongs to a host function.
    """

    def __init__(
        self,
        host: HostCalls,
        *,
        policy: ReplPolicy | None = None,
        inputs: Mapping[str, Any] | None = None,
        cancelled: CancelFlag | None = None,
        session_id: str | None = None,
    ) -> None:
        self._host = host
        self.policy = policy or ReplPolicy()
        self._given = dict(inputs or {})
        for name in self._given:
            check_name(name)
        self._flag = cancelled or CancelFlag()
        self.session_id = session_id or new_run_id()
        self.cells = 0
        """Cells that were used up."""
        self._budgets = Budgets(self.policy)
        self._inputs: dict[str, Any] = {}
        self._input_bytes = 0
        self._input_memory = 0
        self._known: dict[str, Known] = {}
        self._state: bytes | None = None
        self._lost = False
        self._worker: Worker | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._running: Cell | None = None
        self._turn = anyio.Lock()

    async def __aenter__(self) -> Self:
        thread = ThreadPoolExecutor(1, thread_name_prefix="runtree repl")
        try:
            for name, value in self._given.items():
                found = await value.get() if isinstance(value, Fetched) and not is_mapping(value) else value
                measuring = Measuring(found)
                self._take(name, await self._in_thread(thread, measuring.measure, measuring.abandon))
        except BaseException:
            thread.shutdown(wait=False)
            raise
        self._thread = thread
        return self

    def _take(self, name: str, found: Measured) -> None:
        self._inputs[name] = found.value
        self._input_bytes += found.size
        # What is moved in is for a while there twice, in pieces and in one.
        self._input_memory += 3 * found.size + _VALUE_BYTES * found.values
        value: Any = found.value
        size = len(value) if isinstance(value, str | list | dict) else None  # pyright: ignore[reportUnknownArgumentType]
        self._known[name] = Known(ReplVariable(type=type(value).__name__, size=size), 0)  # pyright: ignore[reportUnknownArgumentType]

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def variables(self) -> Mapping[str, ReplVariable]:
        """The variables after the last cell, by name."""
        return {name: known.shown for name, known in self._known.items()}

    async def close(self) -> None:
        """End the session and its process; a cell that runs is stopped. A second time it does nothing."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if self._running is not None:
            self._running.stop(Stop("cancelled", "the session is closed"))
        with anyio.CancelScope(shield=True):
            async with self._turn:
                await self._in_thread(thread, self._let_go)
        thread.shutdown(wait=False)

    async def eval_cell(self, code: str) -> ReplResult:
        """Evaluate a cell; one at a time, others wait for their turn.

        What the code raises is part of the result. A cell that does not end by itself raises, and its variables are as before.

        Raises:
            ReplCancelledError: The flag is set. If it was before the cell, nothing has run and no cell is used up.
            ReplLimitError: A bound of the policy or of the surroundings.
            ReplWorkerError: The process died; the next cell gets a new one.
            ReplClosedError: The session is not open.
            ConfigurationError: `pydantic-monty` is not installed, or an input does not fit into the sandbox.
        """
        async with self._turn:
            thread = self._thread
            if thread is None:
                raise ReplClosedError("eval_cell")
            self._admit(code)
            self.cells += 1
            return await self._evaluate(thread, code)

    def _admit(self, code: str) -> None:
        policy, nothing = self.policy, ReplResult()
        if self._flag.is_cancelled():
            raise ReplCancelledError(self._flag.reason or "cancelled", nothing)
        if len(code) > policy.script_bytes or len(code.encode("utf-8", "replace")) > policy.script_bytes:
            raise ReplLimitError("script_bytes", str(policy.script_bytes), nothing)
        if self.cells >= policy.cells:
            raise ReplLimitError("cells", str(policy.cells), nothing)

    async def _evaluate(self, thread: ThreadPoolExecutor, code: str) -> ReplResult:
        calls = CellFunctions(self._host, self._budgets, self.session_id, self.cells, self._shown)
        cell = self._running = Cell(calls, self.policy)
        started = time.perf_counter()
        untie = self._flag.on_cancel(lambda: cell.stop(Stop("cancelled", self._flag.reason or "cancelled")))
        try:
            done = await self._in_thread(
                thread,
                functools.partial(self._work, cell, code),
                lambda: cell.stop(Stop("cancelled", "its task was cancelled")),
            )
        finally:
            untie()
            self._running = None
            with anyio.CancelScope(shield=True):
                await cell.drop_calls()
        stop = cell.stopped or _stop_of(done.ended, self.policy)
        result = ReplResult(
            stdout=cell.stdout,
            value=done.value if stop is None else None,
            error=done.ended.error if stop is None else None,
            variables_changed=done.changed if stop is None else (),
            calls=tuple(calls.records),
            answered=calls.answered and stop is None,
            final_answer=calls.final_answer if stop is None else None,
            elapsed=time.perf_counter() - started,
            variables_kept=not self._lost,
        )
        self._lost = False
        if stop is None:
            return result
        raise _error(stop, result)

    async def _in_thread(
        self, thread: ThreadPoolExecutor, work: Callable[[], Any], stop: Callable[[], None] | None = None
    ) -> Any:
        """Return what the work returns; a cancelled caller stops it and leaves when it has ended."""
        future = asyncio.get_running_loop().run_in_executor(thread, work)
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            if stop is not None:
                stop()
            # A cancelled scope would cancel the wait again in every round of the loop.
            with anyio.CancelScope(shield=True):
                while not future.done():
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.wait([future])
            with contextlib.suppress(Exception):
                future.result()
            raise
        return future.result()

    # In the worker's thread

    def _shown(self) -> dict[str, str]:
        return {name: str(known.shown) for name, known in self._known.items()}

    def _work(self, cell: Cell, code: str) -> _Done:
        try:
            return self._evaluate_in(self._ready_worker(cell), cell, code)
        except MemoryError:
            self._let_go()
            return _Done(Ended(limit="memory_bytes"))
        except WorkerDiedError as error:
            self._let_go()
            return _Done(Ended(died=str(error)))
        except BaseException:
            self._let_go()
            raise

    def _evaluate_in(self, worker: Worker, cell: Cell, code: str) -> _Done:
        ended = worker.evaluate(code, _STUBS, cell)
        value = plain(ended.value, self.policy.output_bytes)
        probed = worker.evaluate(PROBE, {}, cell) if ended.usable else ended
        if not probed.usable:
            cell.finish()
            self._let_go()
            return _Done(Ended(limit=probed.limit, died=probed.died))
        try:
            state, intact = self._copy(worker, probed), True
        except (
            WorkerDiedError
        ):  # the copy did not fit beside what it is of: the cell is over, and only what it left is lost
            state, intact = None, False
        if not cell.finish():
            self._let_go()
            return _Done(Ended(died="it was stopped"))
        before, self._known = self._known, known(probed, self._known)
        self._state, names = state, changed(before, self._known)
        if not intact:
            self._let_go()
        return _Done(Ended(error=ended.error), value, names)

    def _ready_worker(self, cell: Cell) -> Worker:
        if self._worker is not None:
            cell.attach(self._worker)
            return self._worker
        policy = self.policy
        calls = policy.model_calls + policy.tool_calls + policy.agent_calls + policy.emits
        memory = policy.memory_bytes + self._input_memory
        worker = self._worker = Worker(policy.cell_time, memory, suspensions=_OTHER_STEPS + 4 * calls)
        cell.attach(worker)
        if self._state is not None:
            worker.load(self._state)
            return worker
        for name, value in self._inputs.items():
            try:
                worker.put(name, value)
            except (MemoryError, TypeError) as error:
                raise ConfigurationError(
                    f"inputs, {name}",
                    f"can't be handed to the sandbox: {error}",
                    "Raise ReplPolicy(memory_bytes=...), or pass less of it",
                ) from error
        self._known = known(worker.evaluate(PROBE, {}, cell), {})
        return worker

    def _copy(self, worker: Worker, probed: Ended) -> bytes | None:
        """Return a copy of the variables, which for a while takes up memory in the sandbox; `None` if they are too large."""
        if self._input_bytes > _KEPT_BYTES or least_bytes(probed) > _KEPT_BYTES:
            return None
        state = worker.dump()
        return state if len(state) <= _KEPT_BYTES else None

    def _let_go(self) -> None:
        """End the process; variables of which there is no copy go with it."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()
        if self._state is None:
            self._lost = self._lost or bool(set(self._known) - set(self._inputs))
            self._known = {}


def _stub(name: str) -> Callable[..., Any]:
    def stub() -> None:
        raise AssertionError("host functions are answered through the worker's steps")

    stub.__name__ = stub.__qualname__ = name
    return stub


_STUBS: Final = {name: _stub(name) for name in sorted(RESERVED)}


def check_name(name: str) -> None:
    """Check the name of an input.

    Raises:
        ConfigurationError: It can't be a variable, or belongs to a host function.
    """
    if name in RESERVED:
        raise ConfigurationError(f"inputs, {name}", "is the name of a host function", "Choose another name")
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
        raise ConfigurationError(
            f"inputs, {name!r}", "is not a name for a variable", "Use letters, digits and _, and begin with a letter"
        )


def _stop_of(ended: Ended, policy: ReplPolicy) -> Stop | None:
    if ended.limit is not None:
        return Stop("limit", ended.limit, f"{getattr(policy, ended.limit, 'no more')}")
    return None if ended.died is None else Stop("worker", ended.died)


def _error(stop: Stop, result: ReplResult) -> ReplStoppedError:
    if stop.kind == "limit":
        return ReplLimitError(stop.problem, stop.allowed, result)
    return (ReplCancelledError if stop.kind == "cancelled" else ReplWorkerError)(stop.problem, result)
