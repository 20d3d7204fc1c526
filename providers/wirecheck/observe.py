"""From recorded exchanges to what was seen. Pure functions."""

from collections.abc import Mapping
from typing import Any

from .answer import Answer, read_answer
from .marks import find_marks
from .observe_answer import merge_reasoning, see_reasoning, see_stream, see_usage
from .observe_calls import see_calls
from .observe_errors import reason_of, see_error
from .observe_fields import prompt_of, see_fields
from .probes import PROBES
from .progress import OPENINGS, Progress
from .recording import Recording
from .seen import ReasoningSeen, Seen, Verdict

_TITLES = {probe.name: probe.title for probe in PROBES}
_OTHERS = ("models", "bad_request", "bad_key")
_REPLAY = "replay_"
_KEY_REFUSALS = frozenset({400, 401, 403})


def observe(progress: Progress) -> Seen:
    """Return what a conversation shows, as far as it went."""
    recordings = progress.recordings
    answers = {name: read_answer(recording) for name, recording in recordings.items()}
    opening = next((name for name in OPENINGS if progress.accepted(name)), None) or _last(OPENINGS, recordings)
    first = recordings.get(opening, Recording()) if opening else Recording()
    called = _last(("tools", "required_tools"), {name: rec for name, rec in recordings.items() if rec.accepted})
    facts: dict[str, Any] = {
        "stream": see_stream(first, read_answer(first)),
        "usage": see_usage(read_answer(first)),
        "fields": see_fields(progress),
        "replay": _see_replay(progress),
        "replay_needed": _see_need(progress),
        "refusals": {name: reason_of(rec) for name, rec in recordings.items() if rec.refused and name != "bad_request"},
        "unanswered": _see_unanswered(progress),
        "bad_request": see_error(recordings.get("bad_request")),
        "bad_key": see_error(recordings.get("bad_key")),
        "marks": find_marks(_conversation(progress, answers), recordings.get("models")),
    }
    if called is not None:
        recording, answer = recordings[called], answers[called]
        facts |= {
            "tool_stream": see_stream(recording, answer),
            "calls": see_calls(recording, answer),
            "choice_required": called == "required_tools",
        }
    if progress.accepted("unary"):
        recording, answer = recordings["unary"], answers["unary"]
        facts |= {
            "unary": see_stream(recording, answer),
            "unary_calls": see_calls(recording, answer),
            "usage_unary": see_usage(answer),
            "unary_reasoning": see_reasoning(answer),
        }
    if progress.accepted("unasked_usage"):
        facts["usage_unasked"] = bool(see_usage(answers["unasked_usage"]).places)
    if progress.answered("results"):
        facts["results"] = "accepted" if recordings["results"].accepted else "refused"
    if "bad_key" in recordings:
        wrong = recordings["bad_key"]
        facts["key_checked"] = False if wrong.accepted else True if wrong.status in _KEY_REFUSALS else None
    facts["reasoning"] = _see_all_reasoning(progress, answers)
    facts["ids_again"] = _see_ids_again(facts)
    return Seen(**facts)


def _last(names: tuple[str, ...], recordings: Mapping[str, Recording]) -> str | None:
    return next((name for name in reversed(names) if name in recordings), None)


def _conversation(progress: Progress, answers: Mapping[str, Answer]) -> list[tuple[Recording, Answer]]:
    return [(recording, answers[name]) for name, recording in progress.recordings.items() if name != "models"]


def _see_all_reasoning(progress: Progress, answers: Mapping[str, Answer]) -> ReasoningSeen:
    streamed = [name for name in (*OPENINGS, "tools", "required_tools", "results") if progress.accepted(name)]
    return merge_reasoning([see_reasoning(answers[name]) for name in streamed])


def _see_unanswered(progress: Progress) -> dict[str, str]:
    failed = {
        name: rec for name, rec in progress.recordings.items() if not progress.answered(name) and name not in _OTHERS
    }
    return {_TITLES[name]: rec.fault or f"HTTP {rec.status}: {reason_of(rec)}" for name, rec in failed.items()}


def _see_ids_again(facts: Mapping[str, Any]) -> bool | None:
    streamed, unary = facts.get("calls"), facts.get("unary_calls")
    if not (streamed and unary and streamed.ids and unary.ids):
        return None
    return bool(set(streamed.ids) & set(unary.ids))


def _see_replay(progress: Progress) -> dict[str, Verdict]:
    without = prompt_of(progress, "results")
    verdicts: dict[str, Verdict] = {}
    for name in progress.recordings:
        if not name.startswith(_REPLAY) or not progress.answered(name):
            continue
        field, within = name.removeprefix(_REPLAY), prompt_of(progress, name)
        if not progress.accepted(name):
            verdicts[field] = "refused"
        elif without is None or within is None:
            verdicts[field] = "accepted"
        else:
            verdicts[field] = "honoured" if within > without else "ignored"
    return verdicts


def _see_need(progress: Progress) -> bool | None:
    if not progress.answered("results"):
        return None
    if progress.accepted("results"):
        return False
    again = [name for name in progress.recordings if name.startswith(_REPLAY) and progress.accepted(name)]
    return True if again else None
