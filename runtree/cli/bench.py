"""`runtree bench`: what the runtime does on the machine, or the cluster, at hand."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Address, Json

if TYPE_CHECKING:
    from ..bench.figures import Figure, Tell

app = typer.Typer(
    help="Measure streaming, fan-out, cancel and budgets on your own cluster; needs no key and no network.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

Output = Annotated[Path | None, typer.Option("--output", "-o", help="File for the figures as JSON.", dir_okay=False)]
Rounds = Annotated[int, typer.Option("--rounds", min=1, help="How often it is measured; medians are told.")]
Packed = Annotated[int, typer.Option("--runs-per-actor", min=1, help="Light runs that share a process.")]
Listen = Annotated[
    str,
    typer.Option("--listen", help="Address of the scripted model server; other machines of a cluster must reach it."),
]


@app.command("stream")
def stream(
    items: Annotated[int, typer.Option("--items", min=1000, help="Deltas of a run.")] = 100_000,
    baseline_items: Annotated[int, typer.Option("--baseline-items", min=10, help="Texts through Ray's queue.")] = 1_000,
    spread: Annotated[bool, typer.Option("--spread", help="Also with a queue actor for each parent.")] = False,
    output: Output = None,
    as_json: Json = False,
    address: Address = None,
) -> None:
    """Measure items a second from a run to its driver, against ray.util.queue.Queue used item by item."""
    settings = {"items": items, "baseline_items": baseline_items, "spread": spread}

    async def measure(tell: "Tell") -> "list[Figure]":
        from ..bench.stream import stream

        return await stream(address, tell, items=items, baseline_items=baseline_items, spread=spread)

    _measure("stream", settings, measure, output, as_json=as_json)


@app.command("fanout")
def fanout(
    children: Annotated[int, typer.Option("--children", min=1, help="Sub-agents of one lead.")] = 16,
    deltas: Annotated[int, typer.Option("--deltas", min=1, help="Deltas of each.")] = 500,
    rounds: Rounds = 3,
    runs_per_actor: Packed = 1,
    listen: Listen = "127.0.0.1",
    output: Output = None,
    as_json: Json = False,
    address: Address = None,
) -> None:
    """Measure a lead and its sub-agents, every delta at the driver, against bare asyncio and httpx reading the same streams."""
    settings = {"children": children, "deltas": deltas, "rounds": rounds, "runs_per_actor": runs_per_actor}

    async def measure(tell: "Tell") -> "list[Figure]":
        from ..bench.fanout import fanout

        return await fanout(address, tell, listen=listen, **settings)

    _measure("fanout", settings, measure, output, as_json=as_json)


@app.command("cancel")
def cancel(
    groups: Annotated[int, typer.Option("--groups", min=1, help="Groups of each of three kinds.")] = 2,
    leaves: Annotated[int, typer.Option("--leaves", min=1, help="Hanging leaves of a group.")] = 2,
    blocking: Annotated[
        int,
        typer.Option(
            "--blocking", min=1, help="The same where they hang in a sync tool, each in a process of its own."
        ),
    ] = 2,
    rounds: Rounds = 3,
    runs_per_actor: Packed = 1,
    listen: Listen = "127.0.0.1",
    output: Output = None,
    as_json: Json = False,
    address: Address = None,
) -> None:
    """Measure the cancel of a tree four deep, whose leaves hang in HTTP, in an async tool and in a sync tool that sleeps.

    A tree of 256 runs: --groups 7 --leaves 15 --blocking 3.
    """
    settings = {
        "groups": groups,
        "leaves": leaves,
        "blocking": blocking,
        "rounds": rounds,
        "runs_per_actor": runs_per_actor,
    }

    async def measure(tell: "Tell") -> "list[Figure]":
        from ..bench.cancel import cancel

        return await cancel(address, tell, listen=listen, **settings)

    _measure("cancel", settings, measure, output, as_json=as_json)


@app.command("budget")
def budget(
    children: Annotated[int, typer.Option("--children", min=2, help="Parallel sub-agents under one limit.")] = 8,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="How long decisions are counted.")] = 5.0,
    listen: Listen = "127.0.0.1",
    output: Output = None,
    as_json: Json = False,
    address: Address = None,
) -> None:
    """Check that parallel sub-agents stay below one limit, and measure how fast the supervisor decides.

    Exit codes: 0 nobody got above a limit, 1 somebody did.
    """
    settings = {"children": children, "seconds": seconds}

    async def measure(tell: "Tell") -> "list[Figure]":
        from ..bench.budget import budget

        return await budget(address, tell, children=children, seconds=seconds, listen=listen)

    _measure("budget", settings, measure, output, as_json=as_json)


def _measure(
    name: str,
    settings: dict[str, Any],
    measure: "Callable[[Tell], Awaitable[list[Figure]]]",
    output: Path | None,
    *,
    as_json: bool,
) -> None:
    import asyncio

    from ..bench.figures import measurement, table
    from . import exits
    from .output import notice, own_stdout, write
    from .wirecheck_view import progress

    async def _run() -> "list[Figure]":
        with progress("measuring") as tell:
            return await measure(tell)

    check_output(output)
    with own_stdout():
        found = measurement(name, settings, asyncio.run(_run()))
        if as_json:
            write(found.to_json())
        else:
            for line in table(found):
                write(line)
        if output is not None:
            output.write_text(found.model_dump_json(indent=2) + "\n")
            notice(f"written to {output}")
    if not all(figure.kept for figure in found.figures):
        raise typer.Exit(exits.FAILED)


def check_output(output: Path | None) -> None:
    """Refuse a file that can't be written before a minute is spent.

    Raises:
        ConfigurationError: Its folder is not there.
    """
    from ..messages.errors import ConfigurationError

    if output is not None and not output.resolve().parent.is_dir():
        raise ConfigurationError(f"--output {output}", "its folder does not exist", "Make the folder, or name another")
