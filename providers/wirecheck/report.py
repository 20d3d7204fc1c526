"""All that a check of an endpoint comes to."""

from collections.abc import Iterator
from typing import Literal

from ...messages.value import Value
from ..chat.dialects import GENERIC
from ..chat.profile import ChatProfile
from ..failures import from_answer
from .conversation import models_of, tokens_of
from .decoding import decode
from .findings import Finding, findings
from .fit import Fit, fit
from .observe import observe
from .paste import paste
from .probes import PROBES
from .progress import CHAT, OPENINGS, Progress
from .replays import SHAPED_FIELDS, TEXT_FIELDS
from .seen import Seen

Protocol = Literal["chat", "responses", "anthropic"]
"""What an endpoint speaks."""


_TITLES = {probe.name: probe.title for probe in PROBES}


class Report(Value):
    """The outcome of a check."""

    base_url: str
    """The address."""
    model: str
    """The model."""
    protocol: Protocol = "chat"
    """What was spoken."""
    requests: int = 0
    """Requests that were sent."""
    tokens: int = 0
    """Tokens that were reported."""
    untold: int = 0
    """Answers that reported no tokens."""
    seconds: float = 0.0
    """How long it took."""
    problems: tuple[str, ...] = ()
    """Why the endpoint fails the conversation; empty if it does not."""
    findings: tuple[Finding, ...] = ()
    """What was found, in sentences."""
    seen: Seen | None = None
    """What was found, as values."""
    fit: Fit | None = None
    """The profile that fits best; `None`: too little is known."""
    paste: str | None = None
    """Python that defines a profile for the endpoint."""


def report_of(progress: Progress) -> Report:
    """Return what a conversation comes to."""
    target, recordings = progress.target, progress.recordings
    tokens, untold = tokens_of(progress)
    report = Report(
        base_url=target.base_url,
        model=target.model,
        requests=len(recordings),
        tokens=tokens,
        untold=untold,
        seconds=sum(recording.seconds for recording in recordings.values()),
    )
    if progress.opening is None:
        return report.model_copy(update={"problems": (_first_problem(progress),)})
    seen = observe(progress)
    found = {"findings": tuple(findings(seen)), "seen": seen}
    if seen.stream.framing not in ("events", "json"):
        # What is no answer at all shows nothing that a profile could say.
        return report.model_copy(update={**found, "problems": tuple(_problems(progress, GENERIC))})
    best = fit(seen, target)
    problems = tuple(_problems(progress, best.profile))
    told = {"problems": problems, "fit": best, "paste": paste(best, target.model)}
    return report.model_copy(update={**found, **told})


def _first_problem(progress: Progress) -> str:
    target = progress.target
    names = [name for name in OPENINGS if name in progress.recordings]
    recording = progress.recordings[names[-1]] if names else None
    if recording is None:
        return "nothing could be asked"
    if recording.status is None:
        return recording.fault or "there was no answer"
    if 300 <= recording.status < 400:
        return f"it sends elsewhere (HTTP {recording.status}): give the final address, {recording.headers.get('location', '?')}"
    failure = from_answer(recording.status, recording.headers, recording.body)
    problem = f"the first request is refused: {failure.message} (HTTP {recording.status}, {failure.code})"
    known = models_of(progress)
    if failure.code == "authentication" and target.key is None:
        problem += ". Name the environment variable that has the key: --api-key-env NAME"
    if recording.status == 404 and not known:
        problem += f". Check the address: {target.base_url}{CHAT} was asked"
    if failure.code == "model_not_found" and known and target.model not in known:
        problem += f". Models there: {', '.join(known[:8])}"
    return problem


def _problems(progress: Progress, profile: ChatProfile) -> Iterator[str]:
    """Return what of the conversation fails for a model with this profile."""
    for name in (*OPENINGS, "tools", "required_tools", "unary", "results"):
        recording = progress.recordings.get(name)
        if recording is None or (name in (*OPENINGS, "required_tools") and not recording.accepted):
            continue
        if name == "results" and any(progress.accepted(f"replay_{field}") for field in (*TEXT_FIELDS, *SHAPED_FIELDS)):
            # With the reasoning that it wants back, or without what it dislikes about it, the history is taken.
            continue
        last = decode(recording, profile)
        if recording.status is None or last.kind == "failed":
            reason = recording.fault or (last.error.message if last.kind == "failed" else "")
            yield f"{_TITLES[name]}: {reason}"
    if progress.gone:
        yield "it does not answer any more; the rest was not asked"
