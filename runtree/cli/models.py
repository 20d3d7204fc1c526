"""`runtree models`: weights of models that run on this machine."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.progress import Progress

app = typer.Typer(
    help="Weights of models that run on this machine.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


@app.command("list")
def list_models() -> None:
    """List the models that can run here, and where their weights are."""
    from ..providers.local import weights
    from .output import write

    for name in sorted(weights.KNOWN):
        path = weights.find(name)
        write(f"{name}  {path if path else f'not here: runtree models pull {name}'}")


@app.command("pull", no_args_is_help=True)
def pull(name: Annotated[str, typer.Argument(metavar="NAME", help="The model, such as smollm2.")]) -> None:
    """Fetch the weights of a model into the cache of this machine."""
    from ..providers.local import weights
    from .output import write

    def show(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total or None)

    with _progress() as bar:
        task = bar.add_task(f"{name}", total=None)
        path = weights.pull(name, show)
    write(str(path))


def _progress() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
