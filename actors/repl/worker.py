"""The sandbox process behind a session: the one place that knows `pydantic-monty`.

Its synchronous interface is driven in a thread of the session's own: a call from a cell to the host costs a seventh of what it costs through the
asynchronous one, conversions of large values stay off the event loop, and a stop is a SIGKILL, which no code in the sandbox can put off.
"""

import contextlib
import importlib
import importlib.metadata
import os
import threading
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from ...messages.errors import ConfigurationError
from ...messages.repl import CellError
from .handing import handed
from .marshal import clean_text, plain

_psutil: Any = importlib.import_module("psutil")

_GRACE: Final = 1.0
"""Seconds after the end of its time in which a sandbox may stop itself before it is killed."""


class WorkerDiedError(Exception):
    """The process can't be used: it did not start, or it died between two evaluations."""


class Pending:
    """The answer to a call that goes on beside the cell."""


PENDING: Final = Pending()


@dataclass(frozen=True)
class Raised:
    """An exception for the cell."""

    type: str
    message: str


class Surroundings(Protocol):
    """What a running cell reaches. Every method is called in the worker's thread."""

    def write(self, text: str) -> None:
        """Take what the cell prints."""
        ...

    def call(
        self, number: int, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> "Any | Raised | Pending":
        """Answer a call of a host function."""
        ...

    def sleep(self, number: int, seconds: float) -> Pending:
        """Begin a pause, which ends like a call."""
        ...

    def wait(self, numbers: list[int]) -> "Mapping[int, Any | Raised]":
        """Return what has become of pending calls, of one at least; empty if the cell is stopped."""
        ...


@dataclass(frozen=True)
class Ended:
    """How an evaluation ended."""

    value: Any = None
    error: CellError | None = None
    """What the code raised."""
    limit: str | None = None
    """The sandbox's own bound that stopped it: `cell_time` or `memory_bytes`."""
    died: str | None = None
    """Why there is no process any more."""

    @property
    def usable(self) -> bool:
        """Whether the process can go on with another cell: one that a bound has stopped in the middle can't."""
        return self.limit is None and self.died is None


class Worker:
    """One sandbox process. Every method but `kill` blocks, and belongs to one thread at a time."""

    def __init__(self, cell_time: float, memory_bytes: int, suspensions: int) -> None:
        """Start the process.

        Args:
            cell_time: Seconds that one evaluation computes.
            memory_bytes: What it may hold.
            suspensions: How often it may turn to its host: what ends a loop that is always asking.

        Raises:
            ConfigurationError: `pydantic-monty` is not installed, or not as a whole.
            WorkerDiedError: The process does not start.
        """
        self._monty = monty = _import()
        self._lock = threading.Lock()
        self._killed = False
        limits = {"max_feed_duration_secs": cell_time, "max_memory": memory_bytes, "max_suspensions": suspensions}
        with contextlib.ExitStack() as opened:
            try:
                self._pool = opened.enter_context(
                    monty.Monty(
                        binary_path=_binary(), min_processes=0, max_processes=1, feed_duration_limit_grace=_GRACE
                    )
                )
                self._session = opened.enter_context(self._pool.checkout(limits=limits))
                self.pid: int = self._session.worker_pid
                self._process = _psutil.Process(self.pid)
            except FileNotFoundError as error:
                raise ConfigurationError("REPL sessions", str(error), "pip install 'runtree[repl]'") from error
            except Exception as error:
                raise WorkerDiedError(f"it did not start: {error}") from error
            opened.pop_all()

    def kill(self) -> None:
        """End the process at once; from any thread. What runs in it ends as `died`."""
        with self._lock:
            if not self._killed:
                self._killed = True
                with contextlib.suppress(_psutil.NoSuchProcess):
                    self._process.kill()

    def close(self) -> None:
        """End the process and leave nothing of it."""
        self.kill()
        for each in (self._session, self._pool):
            with contextlib.suppress(Exception):  # it is dead, which is what was wanted
                each.__exit__(None, None, None)

    def dump(self) -> bytes:
        """Return a copy of all variables and functions.

        Raises:
            WorkerDiedError: There is no process any more.
        """
        with self._living():
            state: bytes = self._session.dump()
            return state

    def load(self, state: bytes) -> None:
        """Take over what `dump` returned.

        Raises:
            WorkerDiedError: There is no process any more.
        """
        with self._living():
            self._session.load_session(state)

    @contextlib.contextmanager
    def _living(self) -> Generator[None]:
        try:
            yield
        except (self._monty.MontyError, RuntimeError) as error:
            raise WorkerDiedError(str(error)) from error

    def put(self, name: str, value: Any) -> None:
        """Set a variable, piece by piece.

        Raises:
            MemoryError: It does not fit.
            TypeError: The sandbox has nothing like it.
            WorkerDiedError: There is no process any more.
        """
        try:
            for piece in handed(name, value):
                self._session.feed_run(piece.code, inputs=dict(piece.inputs))
        except self._monty.MontyConversionError as error:
            raise TypeError(str(error)) from error
        except self._monty.MontyRuntimeError as error:
            found: type[Exception] = MemoryError if isinstance(error.exception(), MemoryError) else WorkerDiedError
            raise found(str(error)) from error
        except (self._monty.MontyError, RuntimeError) as error:
            raise WorkerDiedError(str(error)) from error

    def evaluate(self, code: str, functions: Mapping[str, Callable[..., Any]], around: Surroundings) -> Ended:
        """Evaluate a cell to its end, whatever it is.

        Args:
            code: The cell.
            functions: Names that are bound to host functions, whatever the cells before made of them. They are never called here.
            around: What the calls reach.
        """
        monty = self._monty
        step: Any = None
        try:
            step = self._session.feed_start(code, inputs=dict(functions), print_callback=_writer(around))
            while not isinstance(step, monty.MontyComplete):
                if self._killed:
                    return Ended(died="it was killed")
                step = self._answer(step, functions, around)
            return Ended(value=step.output)
        except monty.MontyCrashedError as error:
            if error.timed_out:
                return Ended(limit="cell_time")
            return Ended(died=str(error))
        except (monty.MontyRuntimeError, monty.MontySyntaxError) as error:
            return self._raised(error)
        except monty.MontyError as error:
            if step is not None:
                return Ended(died=f"{type(error).__name__}: {error}")  # it still waits for the answer that was refused
            return Ended(error=CellError(type=type(error).__name__, message=str(error), traceback=str(error)))
        except Exception as error:  # noqa: BLE001
            # A value that can't be brought out, or a protocol that is out of step: nothing is known of the process then.
            return Ended(died=f"{type(error).__name__}: {error}")

    def _answer(self, step: Any, functions: Mapping[str, Any], around: Surroundings) -> Any:
        monty = self._monty
        if isinstance(step, monty.FunctionSnapshot):
            if step.is_os_function:
                return self._answer_system(step, around)
            name = step.function_name
            if name not in functions or step.object_id is not None:
                return step.resume({"exc_type": "NameError", "message": f"name {name!r} is not defined"})
            answer = around.call(step.call_id, name, step.args, step.kwargs)
            if self._killed:
                return step  # a stop is not an answer that the code could catch
            return step.resume({"future": ...} if answer is PENDING else _settled(answer))
        if isinstance(step, monty.NameLookupSnapshot):
            return step.resume()
        if not step.pending_call_ids:
            return step.resume({})  # it waits for a call of an earlier cell, and is told that nothing will come
        settled = around.wait(list(step.pending_call_ids))
        if not settled:
            return step
        return step.resume({number: _settled(answer) for number, answer in settled.items()})

    def _answer_system(self, step: Any, around: Surroundings) -> Any:
        """Let the cell pause; everything else that leaves the sandbox is refused there."""
        name = step.function_name
        if name not in ("system.sleep", "system.async_sleep"):
            return step.resume_not_handled()
        around.sleep(step.call_id, float(step.args[0]))
        if name == "system.async_sleep":
            return step.resume({"future": ...})
        return step.resume({"return_value": None}) if around.wait([step.call_id]) else step

    def _raised(self, error: Any) -> Ended:
        inner = error.exception()
        name, _, message = error.display("type-msg").partition(": ")
        # The sandbox's own bounds; the code of a cell that raises the same stops only itself.
        if isinstance(inner, TimeoutError) and "time limit exceeded" in message:
            return Ended(limit="cell_time")
        if isinstance(inner, MemoryError) and "memory limit" in message:
            return Ended(limit="memory_bytes")
        if isinstance(inner, RuntimeError) and "suspension limit" in message:
            return Ended(limit="suspensions")
        return Ended(error=CellError(type=name, message=message, traceback=error.display("traceback")))


def _writer(around: Surroundings) -> Callable[[str, str], None]:
    def write(_stream: str, text: str) -> None:
        around.write(text)

    return write


def _settled(answer: Any) -> dict[str, Any]:
    if isinstance(answer, Raised):
        return {"exc_type": answer.type, "message": clean_text(answer.message)[0]}
    return {"return_value": plain(answer)}


def _import() -> Any:
    try:
        return importlib.import_module("pydantic_monty")
    except ImportError as error:
        raise ConfigurationError(
            "REPL sessions", "pydantic-monty is not installed", "pip install 'runtree[repl]'"
        ) from error


def _binary() -> str | None:
    """Return where the sandbox's program is; `None` leaves the search to the library.

    The library looks beside this Python. An environment that borrows the packages of another one, as Ray's do, has no programs of its own.
    """
    if os.environ.get("MONTY_BIN"):
        return None
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.distribution("pydantic-monty-runtime").files or ():
            if file.stem == "monty" and file.parent.name in ("bin", "Scripts"):
                path = Path(str(file.locate())).resolve()
                return str(path) if path.is_file() else None
    return None
