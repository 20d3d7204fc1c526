"""`runtree wirecheck`: what an endpoint really does, and the profile for it."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .options import Json

if TYPE_CHECKING:
    from ..providers.wirecheck.report import Report
    from ..providers.wirecheck.wire import Target


def wirecheck(
    base_url: Annotated[
        str,
        typer.Argument(
            metavar="BASE_URL", help="Address without the path of the protocol, such as http://localhost:8080/v1."
        ),
    ],
    model: Annotated[str, typer.Option("--model", help="Name of the model, as the server knows it.")],
    protocol: Annotated[
        Literal["chat", "responses", "anthropic"], typer.Option("--protocol", help="What the server speaks.")
    ] = "chat",
    api_key_env: Annotated[
        str | None, typer.Option("--api-key-env", metavar="NAME", help="Environment variable that has the key.")
    ] = None,
    key_header: Annotated[
        str, typer.Option("--key-header", metavar="NAME", help="Header of the key, such as api-key.")
    ] = "authorization",
    extra_body: Annotated[
        str | None,
        typer.Option("--extra-body", metavar="JSON", help="Fields for every request, such as those that let it think."),
    ] = None,
    timeout: Annotated[float, typer.Option("--timeout", min=1.0, help="Seconds for one request.")] = 60.0,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=32, help="Bound of an answer with reasoning.")] = 1024,
    as_json: Json = False,
) -> None:
    """Hold a conversation with an endpoint and print what it does.

    Some twenty small requests: streaming, tools, reasoning and errors. Then the built-in profile that fits best, and a profile to paste.

    Exit codes: 0 it holds the conversation, 1 it does not, 2 usage.
    """
    import asyncio

    from . import exits
    from .output import error, write
    from .wirecheck_view import lines_of, show

    target = make_target(base_url, model, api_key_env, key_header, extra_body, timeout, max_tokens, protocol)
    report = asyncio.run(_check(target, protocol))
    if as_json:
        write(report.to_json())
    else:
        show(lines_of(report))
    for problem in report.problems:
        error(problem)
    raise typer.Exit(exits.FAILED if report.problems else exits.COMPLETED)


def make_target(
    base_url: str,
    model: str,
    api_key_env: str | None,
    key_header: str,
    extra_body: str | None,
    timeout: float,
    max_tokens: int,
    protocol: str,
) -> "Target":
    """Return the endpoint that the command line names.

    Raises:
        ConfigurationError: The address, the key or the extra fields can't be used.
    """
    import os

    from ..messages.errors import ConfigurationError
    from ..providers.http_model import checked_address
    from ..providers.wirecheck.wire import Target

    path = {"chat": "/chat/completions", "responses": "/responses", "anthropic": "/v1/messages"}[protocol]
    key = None
    if api_key_env is not None:
        key = os.environ.get(api_key_env, "").strip()
        if not key:
            raise ConfigurationError("--api-key-env", f"{api_key_env} is not set", "Export it with the key")
        if not key.isascii() or not key.isprintable():
            raise ConfigurationError(
                "--api-key-env",
                f"the value of {api_key_env} has characters that no HTTP header can carry",
                "Copy it anew",
            )
    return Target(
        base_url=checked_address(base_url, path),
        model=model,
        key=key,
        key_name=api_key_env,
        key_header=key_header.lower(),
        timeout=timeout,
        max_tokens=max_tokens,
        extra_body=_fields(extra_body),
    )


def _fields(text: str | None) -> dict[str, Any]:
    import json

    from ..messages.errors import ConfigurationError

    if text is None:
        return {}
    try:
        value: Any = json.loads(text)
    except ValueError as problem:
        raise ConfigurationError(
            "--extra-body", f"it is no JSON: {problem}", """Write it like '{"top_k": 1}'"""
        ) from problem
    if not isinstance(value, dict):
        raise ConfigurationError("--extra-body", "it is no JSON object", """Write it like '{"top_k": 1}'""")
    return value  # pyright: ignore[reportUnknownVariableType]  # keys of JSON are text


async def _check(target: "Target", protocol: Literal["chat", "responses", "anthropic"]) -> "Report":
    from ..providers.wirecheck.conversation import hold
    from ..providers.wirecheck.report import report_of
    from ..providers.wirecheck.talk import talk
    from ..providers.wirecheck.talk_report import talk_report
    from .wirecheck_view import progress

    with progress() as tell:
        if protocol == "chat":
            return report_of(await hold(target, lambda probe: tell(probe.title)))
        return talk_report(target, protocol, await talk(target, protocol, tell))
