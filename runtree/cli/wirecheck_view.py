"""A check of an endpoint as people read it."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from itertools import groupby
from textwrap import wrap
from typing import TYPE_CHECKING, Literal

from .figures import count_text, printable, seconds_text
from .output import stdout, write

if TYPE_CHECKING:
    from ..providers.wirecheck.fit import Fit
    from ..providers.wirecheck.report import Report

Style = Literal["title", "good", "plain", "bad", "code"]
Line = tuple[Style, str]

_PROTOCOLS = {"chat": "chat completions", "responses": "responses", "anthropic": "Anthropic messages"}
SIGNS: dict[str, str] = {"good": "+", "plain": " ", "bad": "!"}
"""What stands before a finding, by its tone."""

_COLOURS: dict[Style, str] = {"title": "bold", "good": "green", "plain": "default", "bad": "red", "code": "cyan"}


@contextmanager
def progress(doing: str = "asking") -> Generator[Callable[[str], None]]:
    """Show on a terminal what is being done; elsewhere nothing."""
    import sys

    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{doing} …") as status:
        yield lambda title: status.update(f"{doing}: {title} …")


def show(lines: Sequence[Line]) -> None:
    """Write lines to stdout, in colour on a terminal."""
    if not stdout().isatty():
        for _, text in lines:
            write(text)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stdout(), highlight=False)
    for style, text in lines:
        # What is to be pasted must not be broken into shorter lines.
        pieces = [text] if style == "code" else wrap(text, console.width, subsequent_indent=" " * 6)
        console.print(Text("\n".join(pieces), style=_COLOURS[style]), soft_wrap=True)


def lines_of(report: "Report") -> list[Line]:
    """Return a report as lines."""
    lines: list[Line] = [("title", f"{report.base_url}  {printable(report.model)}  {_PROTOCOLS[report.protocol]}")]
    for topic, findings in groupby(report.findings, key=lambda finding: finding.topic):
        lines.extend([("plain", ""), ("title", topic)])
        lines.extend((finding.tone, f"  {SIGNS[finding.tone]} {printable(finding.text)}") for finding in findings)
    if report.fit is not None:
        lines += _fit_lines(report.fit)
    if report.paste is not None:
        lines.extend([("plain", ""), ("title", "to paste")])
        lines.extend(("code", f"    {line}" if line else "") for line in report.paste.splitlines())
    lines.extend([("plain", ""), ("plain", summary(report))])
    return lines


def _fit_lines(fit: "Fit") -> list[Line]:
    lines: list[Line] = [("plain", ""), ("title", f"profile: {fit.name}"), ("plain", f"    {printable(fit.reason)}")]
    for each in fit.differences:
        change = f"{each.field} = {each.needed!r} instead of {each.built_in!r}"
        lines.append(("plain", printable(f"    {change}: {each.reason}")))
    if fit.next_best:
        lines.append(("plain", f"    nearly as good: {', '.join(fit.next_best)}"))
    return lines


def summary(report: "Report") -> str:
    """Return what the check took, on one line."""
    tokens = f"{report.tokens:,} tokens reported"
    if report.untold:
        tokens += f", {count_text(report.untold, 'answer')} told none"
    outcome = "holds the conversation" if not report.problems else "fails the conversation"
    return " · ".join((outcome, count_text(report.requests, "request"), tokens, seconds_text(report.seconds)))
