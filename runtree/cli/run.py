"""`runtree run`: start an agent and follow its tree."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Address, Grace, Json, Namespace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..actors.agent.agent import Agent
    from ..messages.limits import Limits

_LIMITS = "Limits of the whole tree"


def _limit(flag: str, text: str) -> Any:
    return typer.Option(flag, help=text, rich_help_panel=_LIMITS)


def run(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The agent: package.module:name or file.py:name.")],
    value: Annotated[str, typer.Argument(metavar="INPUT", help="What to tell it; - reads stdin.")],
    model: Annotated[str | None, typer.Option("--model", help="Model to use instead of the agent's own.")] = None,
    variable: Annotated[
        list[str] | None,
        typer.Option(
            "--variable", metavar="NAME=FILE", help="Text file that its cells find as a variable; repeatable."
        ),
    ] = None,
    as_json: Json = False,
    grace: Grace = 2.0,
    namespace: Namespace = "runtree",
    address: Address = None,
    max_cost: Annotated[str | None, _limit("--max-cost", "USD, such as 2.50.")] = None,
    max_tokens: Annotated[int | None, _limit("--max-tokens", "Input and output tokens.")] = None,
    max_model_calls: Annotated[int | None, _limit("--max-model-calls", "Model calls.")] = None,
    max_tool_calls: Annotated[int | None, _limit("--max-tool-calls", "Tool calls, sub-agents included.")] = None,
    max_runs: Annotated[int | None, _limit("--max-runs", "Runs, the root included.")] = None,
    max_depth: Annotated[int | None, _limit("--max-depth", "Depth of the deepest run; the root has 0.")] = None,
    max_parallel: Annotated[int | None, _limit("--max-parallel", "Runs at work at once.")] = None,
    deadline: Annotated[float | None, _limit("--deadline", "Seconds for the tree.")] = None,
    model_call_timeout: Annotated[float | None, _limit("--model-call-timeout", "Seconds for a model call.")] = None,
    tool_timeout: Annotated[float | None, _limit("--tool-timeout", "Seconds for a tool call.")] = None,
    stream_idle_timeout: Annotated[
        float | None, _limit("--stream-idle-timeout", "Seconds a model may be silent.")
    ] = None,
) -> None:
    """Run an agent and show its tree: live on a terminal, as lines elsewhere, as JSON with --json.

    Exit codes: 0 completed, 1 failed, 2 usage, 130 cancelled.
    """
    from .session import Session
    from .target import load_agent

    limits = make_limits(
        max_cost=max_cost,
        max_tokens=max_tokens,
        max_model_calls=max_model_calls,
        max_tool_calls=max_tool_calls,
        max_runs=max_runs,
        max_depth=max_depth,
        max_parallel=max_parallel,
        deadline=deadline,
        model_call_timeout=model_call_timeout,
        tool_timeout=tool_timeout,
        stream_idle_timeout=stream_idle_timeout,
    )
    agent = load_agent(target)
    if model is not None:
        agent = _with_model(agent, model)
    value = sys.stdin.read() if value == "-" else value
    session = Session(
        agent=agent,
        value=read_input(agent, value),
        limits=limits,
        variables=read_variables(variable or ()),
        namespace=namespace,
        address=address,
        grace=grace,
        as_json=as_json,
    )
    raise typer.Exit(session.run())


def make_limits(**given: Any) -> "Limits":
    """Return the limits that were given.

    Raises:
        ConfigurationError: One of them is no sensible value.
    """
    from pydantic import ValidationError

    from ..messages.errors import ConfigurationError
    from ..messages.limits import Limits

    try:
        return Limits(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as problem:
        first = problem.errors()[0]
        flag = "--" + str(first["loc"][0]).replace("_", "-")
        raise ConfigurationError(
            flag, f"{first['input']!r} is refused: {first['msg']}", "Leave it out for no limit"
        ) from problem


def read_input(agent: "Agent", text: str) -> Any:
    """Return INPUT as the agent's `input_type`: text as it is, anything else from JSON.

    Raises:
        ConfigurationError: The text is not such a value.
    """
    from pydantic import TypeAdapter, ValidationError

    from ..messages.errors import ConfigurationError

    if agent.input_type is str:
        return text
    try:
        return TypeAdapter[Any](agent.input_type).validate_json(text)
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(map(str, first["loc"])) or "it"
        raise ConfigurationError(
            "INPUT",
            f"{where}: {first['msg']}",
            f"Agent {agent.name!r} takes JSON of {getattr(agent.input_type, '__name__', agent.input_type)}",
        ) from problem


def read_variables(given: "Iterable[str]") -> dict[str, str]:
    """Return the texts of the files that were named, each by its variable.

    Raises:
        ConfigurationError: One of them is not NAME=FILE, or its file can't be read as UTF-8 text.
    """
    from ..messages.errors import ConfigurationError

    texts: dict[str, str] = {}
    for each in given:
        name, separator, path = each.partition("=")
        if not separator or not path:
            raise ConfigurationError(
                "--variable", f"{each!r} names no file", "Write NAME=FILE, such as context=book.txt"
            )
        try:
            texts[name] = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            raise ConfigurationError(
                f"--variable {name}", f"{path} can't be read: {problem}", "Name a file of UTF-8 text"
            ) from problem
    return texts


def _with_model(agent: "Agent", model: str) -> "Agent":
    import dataclasses

    return dataclasses.replace(agent, model=model)
