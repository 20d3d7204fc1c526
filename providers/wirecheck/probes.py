"""The conversation as data: what is asked, in which order, and what depends on earlier answers. No I/O."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .answer import read_answer
from .decoding import calls_of
from .observe_answer import see_reasoning
from .progress import OPENINGS, Probe, Progress, Question
from .replays import SHAPED_FIELDS, TEXT_FIELDS, plain_history, shaped_history

MODELS = "/models"
LIMIT = 16
"""Tokens of an answer that is only to show whether the bound is kept."""
WRONG_KEY = "wirecheck-not-a-key"

_COUNTING = "Count from 1 to 40, in digits, with commas."
WEATHER = (
    "What is the weather in Paris and in Oslo now? Call the tool for both cities at once, then answer in one sentence."
)
WEATHER_TOOL: Mapping[str, Any] = {
    "name": "get_weather",
    "description": "The weather in a city now.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "Name of the city"}},
        "required": ["city"],
    },
}
"""The one tool of the conversation."""

_TOOLS = ({"type": "function", "function": WEATHER_TOOL},)
_SCHEMA = {
    "type": "object",
    "properties": {"place_name": {"type": "string"}, "head_count": {"type": "integer"}},
    "required": ["place_name", "head_count"],
    "additionalProperties": False,
}


def _opening(bound: str, *, usage: bool, system: bool = True) -> Callable[[Progress], Question | None]:
    def make(progress: Progress) -> Question | None:
        if progress.opening is not None:
            return None
        instructions = [{"role": "system", "content": "You are brief and exact."}] if system else []
        body: dict[str, Any] = {
            "model": progress.target.model,
            "messages": [*instructions, {"role": "user", "content": "Say hello, in one short sentence."}],
            "stream": True,
            bound: progress.target.max_tokens,
            **({"stream_options": {"include_usage": True}} if usage else {}),
            **progress.target.extra_body,
        }
        return Question(body)

    return make


def _unasked_usage(progress: Progress) -> Question | None:
    body = progress.request(_say("Say hello."), limit=LIMIT, stream=True)
    return Question(body) if body.pop("stream_options", None) else None


def _bound(name: str) -> Callable[[Progress], Question]:
    def make(progress: Progress) -> Question:
        body = progress.request(_say(_COUNTING), stream=False)
        for other in ("max_tokens", "max_completion_tokens"):
            body.pop(other, None)
        return Question({**body, name: LIMIT})

    return make


def _developer(progress: Progress) -> Question:
    messages = [{"role": "developer", "content": "You are brief and exact."}, *_say("Say hello.")]
    return Question(progress.request(messages, limit=LIMIT, stream=False))


def _tools(progress: Progress) -> Question:
    return Question({**progress.request(_say(WEATHER), stream=True), "tools": list(_TOOLS)})


def _required_tools(progress: Progress) -> Question | None:
    if not progress.accepted("tools") or calls_of(progress.recordings["tools"]):
        return None
    return Question({**progress.request(_say(WEATHER), stream=True), "tools": list(_TOOLS), "tool_choice": "required"})


def _no_tools(progress: Progress) -> Question | None:
    """Ask for the size of the prompt without tools, where it is not clear that they come into it."""
    if not progress.accepted("tools") or calls_of(progress.called):
        return None
    return Question(progress.request(_say(WEATHER), limit=LIMIT, stream=False))


def _unary(progress: Progress) -> Question:
    body = progress.request(_say(WEATHER), stream=False)
    if progress.takes("tools"):
        body["tools"] = list(_TOOLS)
        if progress.accepted("required_tools"):
            body["tool_choice"] = "required"
    return Question(body)


def _results(progress: Progress) -> Question | None:
    return _replay(plain_history(progress.called), None, progress)


def _replay_text(name: str) -> Callable[[Progress], Question | None]:
    return lambda progress: _replay(plain_history(progress.called, name), LIMIT, progress)


def _replay_shaped(name: str) -> Callable[[Progress], Question | None]:
    def make(progress: Progress) -> Question | None:
        seen = see_reasoning(read_answer(progress.called))
        if not (seen.part if name == "content" else name in seen.fields):
            return None
        return _replay(shaped_history(progress.called, name, seen.part), LIMIT, progress)

    return make


def _replay(history: Sequence[Mapping[str, Any]], limit: int | None, progress: Progress) -> Question | None:
    if not history or not progress.takes("tools"):
        return None
    body = progress.request([*_say(WEATHER), *history], limit=limit, stream=limit is None)
    return Question({**body, "tools": list(_TOOLS)})


def _schema(progress: Progress) -> Question:
    body = progress.request(
        _say("Name a big city and tell how many people live there, as JSON."), limit=None, stream=False
    )
    schema = {"name": "city", "schema": _SCHEMA, "strict": True}
    return Question({**body, "response_format": {"type": "json_schema", "json_schema": schema}})


def _nonsense(progress: Progress) -> Question:
    return Question({"model": progress.target.model, "messages": "this is no list", "max_tokens": LIMIT})


def _wrong_key(progress: Progress) -> Question:
    return Question(progress.request(_say("Say hello."), limit=LIMIT, stream=False), key="wrong")


def _say(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


PROBES: tuple[Probe, ...] = (
    Probe("models", "which models there are", lambda _: Question(None, MODELS)),
    Probe("hello", "a streamed answer", _opening("max_tokens", usage=True)),
    Probe("hello_2", "the same with max_completion_tokens", _opening("max_completion_tokens", usage=True)),
    Probe("hello_3", "the same without stream_options", _opening("max_tokens", usage=False)),
    Probe("hello_4", "the same with neither", _opening("max_completion_tokens", usage=False)),
    Probe("hello_5", "the same without a system message", _opening("max_tokens", usage=True, system=False)),
    Probe(
        "hello_6",
        "the same without a system message, plain",
        _opening("max_completion_tokens", usage=False, system=False),
    ),
    Probe("unasked_usage", "usage that nobody asked for", _unasked_usage),
    Probe("max_tokens", "whether max_tokens is kept", _bound("max_tokens")),
    Probe("max_completion_tokens", "whether max_completion_tokens is kept", _bound("max_completion_tokens")),
    Probe("developer", "the role developer", _developer),
    Probe("tools", "a streamed answer with tools", _tools),
    Probe("required_tools", "the same, a call required", _required_tools),
    Probe("no_tools", "the same without tools", _no_tools),
    Probe("unary", "an answer in one piece", _unary),
    Probe("results", "results of tools", _results),
    *(Probe(f"replay_{name}", f"reasoning sent back in {name}", _replay_text(name)) for name in TEXT_FIELDS),
    *(Probe(f"replay_{name}", f"reasoning sent back in {name}", _replay_shaped(name)) for name in SHAPED_FIELDS),
    Probe("schema", "an answer after a JSON schema", _schema),
    Probe("bad_request", "a request that makes no sense", _nonsense),
    Probe("bad_key", "a wrong key", _wrong_key),
)


def next_question(progress: Progress) -> tuple[Probe, Question] | None:
    """Return what is to be asked next, `None` when all is known that can be."""
    if progress.hopeless:
        return None
    asked = list(progress.recordings)
    last = asked[-1] if asked else None
    names = [probe.name for probe in PROBES]
    for probe in PROBES[names.index(last) + 1 if last else 0 :]:
        if probe.name not in OPENINGS and probe.name != "models" and progress.opening is None:
            return None
        question = probe.make(progress)
        if question is not None:
            return probe, question
    return None
