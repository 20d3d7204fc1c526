"""The application: its commands and what they share."""

from typing import Annotated

import typer

from . import bench, cancel, demo, doctor, down, models, ps, run, schema, top, wirecheck

app = typer.Typer(
    name="runtree",
    help="Run trees of agents on Ray.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command("run", no_args_is_help=True)(run.run)
app.command("ps")(ps.ps)
app.command("top")(top.top)
app.command("cancel", no_args_is_help=True)(cancel.cancel)
app.command("schema")(schema.schema)
app.command("demo")(demo.demo)
app.command("doctor")(doctor.doctor)
app.command("down")(down.down)
app.command("wirecheck", no_args_is_help=True)(wirecheck.wirecheck)
app.add_typer(models.app, name="models")
app.add_typer(bench.app, name="bench")


def _print_version(wanted: bool) -> None:
    if wanted:
        from ..messages.version import VERSION

        print(f"runtree {VERSION}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Run trees of agents on Ray."""
