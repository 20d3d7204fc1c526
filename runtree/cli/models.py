"""`runtree models`: weights of models that run on this machine."""

from typing import Annotated

import typer

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
    from .output import notice, write

    write(str(weights.pull(name, on_progress=notice)))
