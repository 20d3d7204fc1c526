"""`runtree doctor`: what a driver would find here, and what stands in its way."""

from typing import TYPE_CHECKING

import typer

from .options import Address, Json, Namespace

if TYPE_CHECKING:
    from ..messages.diagnosis import Diagnosis
    from .wirecheck_view import Line


def doctor(as_json: Json = False, namespace: Namespace = "runtree", address: Address = None) -> None:
    """Look at Ray, its nodes, the supervisor and its pools, keys and optional parts, and say what is wrong and how to repair it.

    It starts no Ray and no supervisor; on each node of a running Ray it runs one small task. Keys are told by name and never shown.

    Exit codes: 0 no problem, 1 problems.
    """
    import asyncio

    from ..messages.diagnosis import Diagnosis
    from . import exits
    from .doctor_facts import gather
    from .doctor_findings import examine
    from .output import own_stdout, write
    from .wirecheck_view import show

    with own_stdout():
        facts = asyncio.run(gather(namespace, address))
        diagnosis = Diagnosis(facts=facts, findings=tuple(examine(facts)))
        if as_json:
            write(diagnosis.to_json())
        else:
            show(lines_of(diagnosis))
    raise typer.Exit(exits.FAILED if diagnosis.problems else exits.COMPLETED)


def lines_of(diagnosis: "Diagnosis") -> "list[Line]":
    """Return a diagnosis as lines for people."""
    from itertools import groupby

    from .figures import count_text, printable
    from .wirecheck_view import SIGNS

    lines: list[Line] = []
    for topic, findings in groupby(diagnosis.findings, key=lambda finding: finding.topic):
        lines.append(("title", topic))
        for finding in findings:
            lines.append((finding.tone, f"  {SIGNS[finding.tone]} {printable(finding.text)}"))
            if finding.fix:
                lines.append(("plain", f"      {printable(finding.fix)}"))
    problems = len(diagnosis.problems)
    lines.extend([("plain", ""), ("plain", count_text(problems, "problem") if problems else "no problems")])
    return lines
