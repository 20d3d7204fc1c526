"""Options that several commands have."""

from typing import Annotated

import typer

Namespace = Annotated[str, typer.Option("--namespace", help="Ray namespace; runs of another one are not seen.")]
Address = Annotated[
    str | None,
    typer.Option(
        "--address", help="Ray cluster to join: host:port, or auto. Default: RAY_ADDRESS, else a running one."
    ),
]
Grace = Annotated[float, typer.Option("--grace", min=0.0, help="Seconds a cancelled run has before it is killed.")]
Json = Annotated[bool, typer.Option("--json", help="Write JSON and nothing else to stdout.")]
