"""P01, P05: whatever a server says, a check ends with a report."""

import json
import random
from typing import Any

import pytest

from runtree.cli.wirecheck_view import lines_of
from runtree.providers.wirecheck.probes import next_question
from runtree.providers.wirecheck.progress import Progress
from runtree.providers.wirecheck.recording import Recording
from runtree.providers.wirecheck.report import report_of

from .personality import TARGET, Personality, rehearse

_NAMES = [
    "choices",
    "delta",
    "message",
    "tool_calls",
    "function",
    "name",
    "arguments",
    "id",
    "index",
    "usage",
    "content",
    "error",
    "finish_reason",
    "prompt_tokens",
    "completion_tokens",
    "reasoning_details",
    "reasoning",
    "x_groq",
    "data",
    "type",
    "thinking",
    "text",
    "details",
    "code",
    "object",
]
_LEAVES = (None, 0, -1, 1.5, 10**30, True, "", "x", "length", "stop", "{}", "<think>")
_STATUSES = (200, 200, 200, 400, 429, 500, 302, None)


def junk(dice: random.Random, depth: int = 0) -> Any:
    kind = dice.randrange(9) if depth < 5 else 0
    if kind < 3:
        return dice.choice(_LEAVES)
    if kind < 5:
        return [junk(dice, depth + 1) for _ in range(dice.randrange(3))]
    return {dice.choice(_NAMES): junk(dice, depth + 1) for _ in range(dice.randrange(5))}


def junk_body(dice: random.Random) -> bytes:
    match dice.randrange(4):
        case 0:
            return dice.randbytes(dice.randrange(60))
        case 1:
            return json.dumps(junk(dice)).encode()
        case _:
            chunks = [
                {"choices": [{"index": 0, "delta": junk(dice, 1)}], "usage": junk(dice, 1)}
                if dice.random() < 0.7
                else junk(dice)
                for _ in range(dice.randrange(6))
            ]
            return b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in chunks)


@pytest.mark.parametrize("seed", range(4))
def test_any_answers_come_to_a_report(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(40):
        progress = Progress(TARGET)
        while (asked := next_question(progress)) is not None:
            probe, question = asked
            kind = {"content-type": dice.choice(["text/html", "", "text/event-stream"])}
            progress.recordings[probe.name] = Recording(
                dict(question.body or {}), dice.choice(_STATUSES), kind, ((0.1, junk_body(dice)),), 0.2
            )
        report = report_of(progress)
        assert report.to_json()
        assert lines_of(report)


def test_any_cut_of_an_answer_comes_to_a_report() -> None:
    progress, _ = rehearse(Personality(reasoning="details"))
    whole = progress.recordings["tools"]
    for size in range(0, len(whole.body), 31):
        progress.recordings["tools"] = Recording(whole.request, 200, whole.headers, ((0.1, whole.body[:size]),), 0.2)
        report = report_of(progress)
        assert report.problems or b'"finish_reason": "tool_calls"' in whole.body[:size]
