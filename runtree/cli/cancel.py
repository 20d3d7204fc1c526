"""`runtree cancel`: end a run and all below it, whichever driver started it."""

from typing import TYPE_CHECKING, Annotated

import typer

from .options import Address, Grace, Json, Namespace

if TYPE_CHECKING:
    from ..actors.observer import Observer
    from ..messages.result import CancelReport

_FULL_LENGTH = 26


def cancel(
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", help="The run, or the end of its id if that is unique.")],
    reason: Annotated[str, typer.Option("--reason", help="Shown in the terminal items.")] = "cancelled by command",
    grace: Grace = 2.0,
    as_json: Json = False,
    namespace: Namespace = "runtree",
    address: Address = None,
) -> None:
    """Cancel a run and all below it, and say how each of them ended."""
    import asyncio

    from . import exits
    from .connection import observe
    from .output import error, write

    async def _cancel() -> "CancelReport":
        async with observe(namespace, address) as observer:
            return await observer.cancel(await _full_id(observer, run_id), reason=reason, grace=grace)

    report = asyncio.run(_cancel())
    if as_json:
        write(report.to_json())
    elif report.was_live:
        for line in report_lines(report):
            write(line)
    if not report.was_live:
        error(f"no live run {report.run_id} in namespace {namespace}. `runtree ps` lists the live ones")
    if not report.was_live or report.unreachable:
        raise typer.Exit(exits.FAILED)


async def _full_id(observer: "Observer", run_id: str) -> str:
    """Complete the end of an id, as the live tree shows it, to that of the one live run it fits."""
    if len(run_id) >= _FULL_LENGTH:
        return run_id
    fitting = [info.run_id for info in await observer.runs() if info.run_id.endswith(run_id.upper())]
    return fitting[0] if len(fitting) == 1 else run_id


def report_lines(report: "CancelReport") -> list[str]:
    """Return what a cancel did, a line for each way in which runs ended."""
    from .figures import count_text, seconds_text

    ways = (
        (report.cancelled, "ended by themselves"),
        (report.killed, "killed after their grace"),
        (report.unreachable, "not heard of: their end is not known"),
    )
    lines = [f"cancelled {report.run_id} in {seconds_text(report.elapsed)}"]
    for runs, what in ways:
        if runs:
            lines.append(f"  {count_text(len(runs), 'run')} {what}")
            lines.extend(f"    {run_id}" for run_id in runs)
    return lines
