"""`runtree ps`: the runs of a namespace."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Address, Json, Namespace

if TYPE_CHECKING:
    from rich.table import Table

    from ..messages.result import RunInfo


def ps(
    every: Annotated[bool, typer.Option("--all", "-a", help="Also runs that have ended.")] = False,
    as_json: Json = False,
    namespace: Namespace = "runtree",
    address: Address = None,
) -> None:
    """List the live runs, parents before their children, whichever driver started them."""
    import asyncio
    import sys
    import time

    from .connection import observe
    from .output import notice, write

    async def _runs() -> "tuple[RunInfo, ...]":
        async with observe(namespace, address) as observer:
            return await observer.runs(all=every)

    runs = asyncio.run(_runs())
    if as_json:
        for info in runs:
            write(info.to_json())
    elif not runs:
        notice(f"no runs in namespace {namespace}" + ("" if every else " are live; --all lists those that have ended"))
    else:
        from rich.console import Console

        width = None if sys.stdout.isatty() else 200
        Console(width=width, highlight=False).print(table_of(runs, time.time()))


def table_of(runs: "Sequence[RunInfo]", now: float) -> "Table":
    """Return the runs as a table."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from .figures import money_text, printable, seconds_text, tokens_text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("RUN", "AGENT", "STATE"):
        table.add_column(title, no_wrap=True)
    for title in ("TOKENS", "COST", "TIME"):
        table.add_column(title, no_wrap=True, justify="right")
    table.add_column("STARTED", no_wrap=True)
    table.add_column("DRIVER", no_wrap=True, overflow="ellipsis")
    for info in in_tree_order(runs):
        started = datetime.fromtimestamp(info.started, UTC).astimezone().strftime("%m-%d %H:%M:%S")
        table.add_row(
            info.run_id,
            Padding(Text(printable(info.agent)), (0, 0, 0, 2 * info.depth)),  # leading blanks of a cell are dropped
            "cancelling" if info.cancelling and info.ended is None else info.status,
            tokens_text(info.total_usage),
            money_text(info.total_cost),
            seconds_text(max((info.ended or now) - info.started, 0.0)),
            started,
            Text(printable(info.driver)),
        )
    return table


def in_tree_order(runs: "Sequence[RunInfo]") -> "list[RunInfo]":
    """Return parents before their children; a run whose parent is not listed counts as a root."""
    known = {info.run_id for info in runs}
    children: dict[str | None, list[RunInfo]] = {}
    for info in sorted(runs, key=lambda info: info.run_id):
        parent = info.parent_run_id if info.parent_run_id in known else None
        children.setdefault(parent, []).append(info)
    ordered: list[RunInfo] = []
    pending = list(reversed(children.get(None, [])))
    while pending:
        info = pending.pop()
        ordered.append(info)
        pending.extend(reversed(children.get(info.run_id, [])))
    return ordered
