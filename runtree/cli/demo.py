"""`runtree demo`: a fan-out over real files, on a language model that runs on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from .options import Address, Grace, Json, Namespace

_INSTEAD = "or try --model scripted, or any model string such as --model openai:gpt-5-mini"


def demo(
    folder: Annotated[
        Path | None, typer.Option("--folder", help="Folder of text files. Default: six documents that come along.")
    ] = None,
    model: Annotated[
        str, typer.Option("--model", help="Model of the sub-agents: a model string, or scripted.")
    ] = "local:smollm2",
    as_json: Json = False,
    grace: Grace = 2.0,
    namespace: Namespace = "runtree",
    address: Address = None,
) -> None:
    """Summarize each file of a folder with a sub-agent of its own. Needs no key and no network.

    The lead's plan and the order of reading are fixed; the summaries are the model's words.
    """
    from ..demo import DOCUMENTS, assignment_of, list_files, make_lead
    from ..demo.agents import SCRIPTED
    from .session import Session

    place = DOCUMENTS if folder is None else folder.expanduser().resolve()
    names = list_files(place)
    if model != SCRIPTED:
        require_model(model)
    session = Session(
        agent=make_lead(model, len(names)),
        value=assignment_of(names),
        deps=str(place),
        namespace=namespace,
        address=address,
        grace=grace,
        as_json=as_json,
    )
    raise typer.Exit(session.run())


def require_model(model: str) -> None:
    """Check a model before anything is started.

    Raises:
        LocalModelError: It is a local one that can't run here; the message says what to install.
    """
    import importlib.util

    from ..messages.errors import LocalModelError

    prefix, _, name = model.partition(":")
    if prefix == "local":
        from ..providers.local import weights

        if importlib.util.find_spec("xllamacpp") is None:
            install = f'pip install "runtree[local]" && runtree models pull {name}'
            raise LocalModelError(f"model {model}", "its server is not installed", f"Install it: {install}; {_INSTEAD}")
        if weights.find(name) is None:
            raise LocalModelError(
                f"model {model}", "its weights are not here", f"Fetch them: runtree models pull {name}; {_INSTEAD}"
            )
