"""The conversation with an endpoint: one probe after the other."""

from collections.abc import Callable
from typing import Any

import anyio

from ..failures import from_answer
from ..shapes import as_objects
from .answer import read_answer
from .observe_answer import see_usage
from .probes import WRONG_KEY, next_question
from .progress import Probe, Progress, Question
from .recording import Recording
from .wire import Target, ask

LONGEST_PAUSE = 20.0
"""Seconds to wait at most for a server that is busy."""

_BUSY = frozenset({429, 503})
_PAUSE = 2.0

OnProbe = Callable[[Probe], Any]
"""Is told what is asked next."""


async def hold(target: Target, on_probe: OnProbe | None = None) -> Progress:
    """Hold the whole conversation, or what the endpoint lets happen of it.

    Args:
        target: The endpoint.
        on_probe: Is told each probe before it is sent.
    """
    progress = Progress(target)
    while (asked := next_question(progress)) is not None:
        probe, question = asked
        if on_probe is not None:
            on_probe(probe)
        alive = any(recording.status is not None for recording in progress.recordings.values())
        progress.recordings[probe.name] = await _ask(target, question, alive)
    return progress


async def _ask(target: Target, question: Question, alive: bool) -> Recording:
    """Ask, and once again if the server asks for a short pause or has just closed the connection that was kept open."""
    key = target.key if question.key == "own" else WRONG_KEY
    recording = await ask(target, question.path, question.body, key=key, method=question.method)
    pause = _pause(recording, alive)
    if pause is None:
        return recording
    await anyio.sleep(pause)
    return await ask(target, question.path, question.body, key=key, method=question.method)


def _pause(recording: Recording, alive: bool) -> float | None:
    if recording.status is None and recording.bound is None and alive:
        return 0.0
    if recording.status not in _BUSY:
        return None
    wait = from_answer(recording.status, recording.headers, recording.body).retry_after
    return min(_PAUSE if wait is None else wait, LONGEST_PAUSE)


def tokens_of(progress: Progress) -> tuple[int, int]:
    """Return the tokens that were reported, and how many accepted answers reported none."""
    total = silent = 0
    for name, recording in progress.recordings.items():
        if name == "models" or not recording.accepted:
            continue
        usage = see_usage(read_answer(recording))
        if usage.input_tokens is None and usage.output_tokens is None:
            silent += 1
        total += (usage.input_tokens or 0) + (usage.output_tokens or 0)
    return total, silent


def models_of(progress: Progress) -> list[str]:
    """Return the names of the models that the endpoint says it has."""
    recording = progress.recordings.get("models")
    if recording is None or not recording.accepted:
        return []
    models = [model for chunk in read_answer(recording).chunks for model in as_objects(chunk.value.get("data"))]
    return [str(model["id"]) for model in models if model.get("id")]
