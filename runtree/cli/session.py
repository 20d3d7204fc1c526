"""One run from the command line: started, shown, cancelled by Ctrl-C, and turned into an exit code."""

import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..messages.limits import Limits
from ..messages.result import RunResult
from . import exits
from .connection import NAMESPACE, open_runtime
from .figures import totals_text
from .interrupts import Interrupts
from .output import error, notice, output_text, own_stdout, stdout, write
from .view import View, ViewKind, make_view, view_kind

if TYPE_CHECKING:
    from ..actors.agent.agent import Agent
    from ..actors.handle import RunHandle

_EXITS: Final = {"completed": exits.COMPLETED, "cancelled": exits.CANCELLED}


@dataclass(frozen=True, slots=True)
class Session:
    """What the command line said of a run."""

    agent: "Agent"
    value: Any
    deps: Any = None
    variables: Mapping[str, Any] | None = None
    limits: Limits | None = None
    namespace: str = NAMESPACE
    address: str | None = None
    grace: float = 2.0
    as_json: bool = False

    def run(self) -> int:
        """Run it to its end and return the exit code.

        Raises:
            ConfigurationError: The agent or its input can't work.
            RuntreeError: The run could not be started.
        """
        from ..actors.agent import AgentSet

        AgentSet.of(self.agent)  # before Ray is started, which takes seconds
        with own_stdout():
            return asyncio.run(self._run())

    async def _run(self) -> int:
        kind = view_kind(self.as_json)
        with Interrupts() as interrupts:
            async with open_runtime(self.namespace, self.address) as runtime:
                begin = time.monotonic()
                handle = await runtime.start(
                    self.agent, self.value, limits=self.limits, deps=self.deps, variables=self.variables
                )
                notice(f"run {handle.run_id}")
                try:
                    async with make_view(kind) as view:
                        await self._follow(handle, view, interrupts)
                    result = await handle.outcome()
                    _conclude(result, time.monotonic() - begin, kind)
                except BrokenPipeError:
                    # Who read the output is gone; what is still written must not raise again.
                    os.dup2(os.open(os.devnull, os.O_WRONLY), stdout().fileno())
                    await handle.cancel(reason="nobody reads the output", grace=self.grace)
                    return exits.FAILED
        return _EXITS.get(result.status, exits.FAILED)

    async def _follow(self, handle: "RunHandle", view: View, interrupts: Interrupts) -> None:
        reading = asyncio.create_task(_show_all(handle, view))
        asked = asyncio.create_task(interrupts.asked.wait())
        try:
            await asyncio.wait({reading, asked}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                notice("cancelling; Ctrl-C again leaves at once")
                await handle.cancel(reason="interrupted", grace=self.grace)
            await reading
        finally:
            reading.cancel()
            asked.cancel()


async def _show_all(handle: "RunHandle", view: View) -> None:
    async for item in handle:
        view.show(item)


def _conclude(result: RunResult, seconds: float, kind: ViewKind) -> None:
    if result.status == "cancelled":
        notice(f"cancelled: {result.error.message if result.error else 'no reason given'}")
    elif result.error is not None:
        error(result.error.message)
    totals = totals_text(max(len(result.runs), 1), result.total_usage, result.total_cost, seconds)
    if kind == "json":
        notice(totals)
        return
    if result.status == "completed":
        write()
        _write_output(output_text(result.output), kind)
    write()
    write(totals)


def _write_output(text: str, kind: ViewKind) -> None:
    if kind != "live":
        write(text)
        return
    from rich.console import Console
    from rich.text import Text

    Console(file=stdout()).print(Text(text))  # breaks lines between words
