"""`runtree top`: what runs in a namespace, drawn again and again, with keys to stop it."""

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING, Annotated, Final, Protocol

import typer

from .options import Address, Grace, Namespace

if TYPE_CHECKING:
    from rich.console import Console

    from ..messages.overview import NamespaceView
    from ..messages.result import CancelReport
    from .top_board import Board

_REASON: Final = "cancelled in runtree top"
_DRAW_SECONDS: Final = 1.0
"""The longest time between two frames: ages grow by themselves."""

_MOST_RUNS: Final = 1000


def top(
    interval: Annotated[
        float, typer.Option("--interval", "-i", min=0.2, help="Seconds between two looks at the supervisor.")
    ] = 1.0,
    ended: Annotated[bool, typer.Option("--ended", "-e", help="Also runs that have ended.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Print what runs now and leave.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what runs now as one JSON object and leave.")] = False,
    grace: Grace = 2.0,
    namespace: Namespace = "runtree",
    address: Address = None,
) -> None:
    """Watch the runs of a namespace as trees, whichever driver started them.

    Tokens, cost and tokens a second are those of a run and all below it; AGE is the time since it was last heard of.

    Keys: arrows or j k move, c cancels the run and all below it, C its whole tree, e shows ended runs, q leaves.

    Without a terminal it prints once what runs.
    """
    import sys

    from . import exits
    from .connection import observe
    from .output import error, own_stdout, stdout, write

    async def _top() -> str:
        from rich.console import Console

        from .top_board import Board

        board = Board(namespace, ended=ended)
        async with observe(namespace, address) as observer:
            if as_json or once or not (sys.stdin.isatty() and stdout().isatty()):
                view = await observer.view(ended=ended, most=_MOST_RUNS)
                _print(board, view, as_json=as_json)
                return ""
            console = Console(file=stdout(), highlight=False)
            return await watch(observer, board, console, interval, grace, sys.stdin.fileno())

    with own_stdout():
        problem = asyncio.run(_top())
    if problem:
        error(problem)
        write()
        raise typer.Exit(exits.FAILED)


class Watched(Protocol):
    """What is watched: an `Observer`."""

    async def view(self, *, ended: bool = False, most: int = 1000) -> "NamespaceView | None":
        """Return what runs; `None` without a supervisor."""
        ...

    async def cancel(self, run_id: str, reason: str = "user", grace: float = 2.0) -> "CancelReport":
        """Cancel a run and all below it."""
        ...

    async def ray_answers(self) -> bool:
        """Return whether there is a Ray any more."""
        ...


def _print(board: "Board", view: "NamespaceView | None", *, as_json: bool) -> None:
    import json

    from rich.console import Console

    from .output import notice, stdout, write
    from .top_screen import table, title

    if as_json:
        write(json.dumps(None) if view is None else view.to_json())
        return
    board.take(view)
    if board.problem:
        notice(board.problem)
        return
    console = Console(file=stdout(), highlight=False, width=None if stdout().isatty() else 200)
    console.print(title(board))
    if board.lines:
        console.print(table(board.lines))


async def watch(
    observer: Watched, board: "Board", console: "Console", interval: float, grace: float, keyboard: int
) -> str:
    """Show the board until the user leaves; returns why it had to end before that, else nothing.

    Args:
        observer: What is watched.
        board: What is shown.
        console: Where.
        interval: Seconds between two looks.
        grace: Seconds that cancelled runs have.
        keyboard: File descriptor of the terminal that sends keys.
    """
    from rich.live import Live

    from .keys import Keys
    from .top_screen import frame

    watching = _Watching(observer, board, interval, grace)
    loop = asyncio.get_running_loop()
    with contextlib.suppress(ValueError, RuntimeError):  # not in the main thread: then it is drawn anew within a second
        loop.add_signal_handler(signal.SIGWINCH, watching.changed.set)
    looking = asyncio.create_task(watching.look_for_ever())
    try:
        with (
            Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False) as live,
            Keys(keyboard, watching.press),
        ):
            while not watching.over:
                live.update(frame(board, *console.size), refresh=True)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(watching.changed.wait(), _DRAW_SECONDS)
                watching.changed.clear()
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
        for task in (looking, *watching.cancels):
            task.cancel()
        await asyncio.wait({looking, *watching.cancels})
    return watching.problem


class _Watching:
    """The looks and cancels behind the screen."""

    def __init__(self, observer: Watched, board: "Board", interval: float, grace: float) -> None:
        self._observer = observer
        self._board = board
        self._interval, self._grace = interval, grace
        self.changed = asyncio.Event()
        self._look_now = asyncio.Event()
        self.cancels: set[asyncio.Task[None]] = set()
        self.over = False
        self.problem = ""

    def press(self, key: str) -> None:
        """Take in a key."""
        wish = self._board.press(key)
        self.changed.set()
        if wish is None:
            return
        if wish.kind == "quit":
            self.over = True
        elif wish.kind == "look":
            self._look_now.set()
        else:
            task = asyncio.create_task(self._cancel(wish.run_id))
            self.cancels.add(task)
            task.add_done_callback(self.cancels.discard)

    async def look_for_ever(self) -> None:
        """Look every now and then, and at once when a key asks for it."""
        while True:
            await self._look()
            self.changed.set()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._look_now.wait(), self._interval)
            self._look_now.clear()

    async def _look(self) -> None:
        from ..messages.errors import RuntreeError

        try:
            view = await self._observer.view(ended=self._board.ended, most=_MOST_RUNS)
        except RuntreeError as error:
            self._board.fail(str(error))
            view = None
        else:
            self._board.take(view)
        if view is None and not await self._observer.ray_answers():
            # Left alone, Ray would end this process after a minute, and leave the terminal as it is.
            self.problem = "the Ray that was watched is gone"
            self.over = True

    async def _cancel(self, run_id: str) -> None:
        from ..messages.errors import RuntreeError
        from .cancel import report_lines

        try:
            report = await self._observer.cancel(run_id, reason=_REASON, grace=self._grace)
        except RuntreeError as error:
            self._board.note = str(error)
        else:
            lines = report_lines(report)
            ways = [line.strip() for line in lines[1:] if not line.startswith("    ")]
            self._board.note = " · ".join([lines[0], *ways]) if report.was_live else f"{run_id} has ended already"
        self._look_now.set()
        self.changed.set()
