"""`runtree top` on a namespace that is made up: a program for tests of the terminal."""

import asyncio
import sys

from rich.console import Console

from runtree.cli.top import watch
from runtree.cli.top_board import Board
from runtree.messages.errors import RuntimeUnavailableError
from runtree.messages.overview import NamespaceView
from runtree.messages.result import CancelReport
from tests.cli.infos import info, view


class MadeUp:
    """A namespace with one tree, whose supervisor is away at the second look, for as long as the first of its runs was not cancelled."""

    def __init__(self, *, ray: bool) -> None:
        self.looks = 0
        self.gone: set[str] = set()
        self.ray = ray

    async def view(self, *, ended: bool = False, most: int = 1000) -> NamespaceView | None:
        """Return the tree."""
        self.looks += 1
        if not self.ray and self.looks > 1:
            return None
        if self.looks == 2:
            raise RuntimeUnavailableError("supervisor", "it is out of reach for the moment", "Try again")
        runs = [info("root", tokens=60), *(info(f"child{number}", "root", model="gpt") for number in range(3))]
        runs = [
            run.model_copy(update={"ended": 95.0, "status": "cancelled"}) if run.run_id in self.gone else run
            for run in runs
        ]
        return view(*(run for run in runs if ended or run.ended is None), time=100.0 + self.looks * 0.05)

    async def cancel(self, run_id: str, reason: str = "user", grace: float = 2.0) -> CancelReport:
        """Note what is cancelled."""
        self.gone |= {run_id} if run_id != "root" else {"root", "child0", "child1", "child2"}
        return CancelReport(run_id=run_id, was_live=True, cancelled=(run_id,), elapsed=grace)

    async def ray_answers(self) -> bool:
        """Return whether Ray is there."""
        return self.ray


if __name__ == "__main__":
    board = Board("made up")
    console = Console(highlight=False)
    watched = MadeUp(ray="gone" not in sys.argv)
    problem = asyncio.run(watch(watched, board, console, 0.05, 0.5, sys.stdin.fileno()))
    sys.stdout.write(f"{problem or 'left'}\n")
