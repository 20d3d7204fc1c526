"""What becomes of the fields and roles of a request."""

import pydantic_core

from ..shapes import as_object
from .answer import read_answer
from .decoding import calls_of, decode
from .observe_answer import see_stream, see_usage
from .probes import LIMIT
from .progress import Progress
from .recording import Recording
from .seen import Verdict

_FIELDS = ("max_tokens", "max_completion_tokens")
_SLACK = 4
"""Tokens over the bound that still count as kept: servers count special tokens differently."""


def see_fields(progress: Progress) -> dict[str, Verdict]:
    """Return a verdict on each field that was tried."""
    verdicts: dict[str, Verdict] = {}
    for name in _FIELDS:
        if progress.answered(name):
            verdicts[name] = _bound_verdict(progress.recordings[name])
    if progress.opening is not None:
        begun = progress.opening["messages"][0]["role"]
        verdicts["role system"] = "accepted" if begun == "system" else "refused"
        verdicts["stream_options"] = "accepted" if "stream_options" in progress.opening else "refused"
    for name, probe in (
        ("role developer", "developer"),
        ("tools", "tools"),
        ("tool_choice required", "required_tools"),
    ):
        if progress.answered(probe):
            verdicts[name] = "accepted" if progress.accepted(probe) else "refused"
    if verdicts.get("tools") == "accepted" and _leaves_out_tools(progress):
        verdicts["tools"] = "ignored"
    if verdicts.get("tool_choice required") == "accepted" and not calls_of(progress.recordings["required_tools"]):
        verdicts["tool_choice required"] = "ignored"
    if progress.answered("schema"):
        verdicts["response_format json_schema"] = _schema_verdict(progress.recordings["schema"])
    return verdicts


def prompt_of(progress: Progress, name: str) -> int | None:
    """Return the size of a prompt as the server counted it."""
    return see_usage(read_answer(progress.recordings[name])).input_tokens if progress.accepted(name) else None


def _leaves_out_tools(progress: Progress) -> bool:
    within, without = prompt_of(progress, "tools"), prompt_of(progress, "no_tools")
    return within is not None and without is not None and within <= without


def _bound_verdict(recording: Recording) -> Verdict:
    if not recording.accepted:
        return "refused"
    answer = read_answer(recording)
    used = see_usage(answer).output_tokens
    if see_stream(recording, answer).finish == "length" or (used is not None and used <= LIMIT + _SLACK):
        return "honoured"
    return "accepted" if used is None else "ignored"


def _schema_verdict(recording: Recording) -> Verdict:
    if not recording.accepted:
        return "refused"
    last = decode(recording)
    if last.kind == "failed":
        return "accepted"
    if last.response.finish_reason == "length":
        return "accepted"
    try:
        value = as_object(pydantic_core.from_json(last.response.message.text))
    except ValueError:
        return "ignored"
    # Nobody would choose these names who has not seen the schema.
    kept = isinstance(value.get("place_name"), str) and type(value.get("head_count")) is int
    return "honoured" if kept else "ignored"
