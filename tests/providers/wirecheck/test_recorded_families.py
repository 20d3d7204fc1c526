"""The family that is found in answers recorded from real servers, of which only the body is looked at."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from runtree.providers.wirecheck.fit import fit
from runtree.providers.wirecheck.observe import observe
from runtree.providers.wirecheck.paste import paste
from runtree.providers.wirecheck.progress import Progress
from runtree.providers.wirecheck.recording import Recording
from runtree.providers.wirecheck.seen import Seen
from runtree.providers.wirecheck.wire import Target

# The family, or the one that the server is a copy of. Answers without any sign of their family are the tolerant profile's.
FAMILIES = {
    "avian": {"openrouter"},
    "azure": {"azure"},
    "copilot": {"azure"},
    "deepseek": {"deepseek"},
    "groq": {"groq"},
    "huggingface-router": {"groq", "cerebras"},
    "llamacpp": {"llama.cpp"},
    "mistral": {"mistral"},
    "ollama": {"ollama"},
    "ollama-cloud": {"ollama"},
    "openai": {"openai"},
    "openrouter": {"openrouter"},
    "together": {"together"},
    "venice": {"vllm"},
    "vercel-gateway": {"vercel"},
    "vllm-crusoe": {"vllm"},
    "xai": {"xai"},
}
ALWAYS_SIGNED = {"azure", "groq", "llamacpp", "ollama", "openrouter", "vercel-gateway", "vllm-crusoe", "xai"}
TOLERANT = "openai-compatible"


class Recorded(NamedTuple):
    name: str
    told: Any
    target: Target
    seen: Seen


@pytest.fixture(scope="module")
def recorded(shared_dir: Path) -> list[Recorded]:
    paths = sorted((shared_dir / "streams" / "stream" / "openai_chat").glob("*.json"))
    assert paths
    return [_observed(path) for path in paths]


def _observed(path: Path) -> Recorded:
    told = json.loads(path.read_text())
    asked = {"messages": [{"role": "system"}], "stream_options": {"include_usage": True}}
    headers = {name.lower(): str(value) for name, value in (told.get("headers") or {}).items()}
    recording = Recording(asked, 200, headers, ((0.1, path.with_suffix(".body").read_bytes()),), 0.2)
    target = Target("http://gateway.test/v1", told["model"])
    return Recorded(path.stem, told, target, observe(Progress(target, {"hello": recording, "tools": recording})))


def test_family_of_recorded_answers(recorded: list[Recorded]) -> None:
    wrong: list[str] = []
    for each in recorded:
        provider = each.told["provider"]
        found = fit(each.seen, each.target).profile.provider
        allowed = FAMILIES.get(provider, {TOLERANT})
        if found not in allowed and (found != TOLERANT or provider in ALWAYS_SIGNED):
            wrong.append(f"{each.name} of {provider}: {found}")
    assert not wrong


def test_what_recorded_answers_show(recorded: list[Recorded]) -> None:
    """Reasoning, calls, the finish and the usage are seen where the truth has them."""
    wrong = {each.name: facts for each in recorded if (facts := list(_differences(each)))}
    assert not wrong


def _differences(each: Recorded) -> Iterator[str]:
    seen, truth = each.seen, each.told["truth"]
    assert seen.calls is not None
    if each.told.get("expect") or truth.get("error"):
        return
    facts = {
        "reasoning": (seen.reasoning.anywhere, bool(truth["reasoning"] or seen.reasoning.signed)),
        "calls": (seen.calls.count, len(truth["tool_calls"])),
        "finish": (seen.stream.finish, truth["finish_reason_raw"]),
        "input": (seen.usage.input_tokens, (truth["usage"] or {}).get("input")),
        "done": (seen.stream.done, truth.get("done_sentinel", seen.stream.done)),
    }
    for fact, (found, expected) in facts.items():
        if found != expected:
            yield f"{fact} {found}, not {expected}"


def test_every_pasted_profile_runs(recorded: list[Recorded]) -> None:
    for each in recorded:
        space: dict[str, Any] = {}
        exec(paste(fit(each.seen, each.target), each.target.model), space)  # noqa: S102  what is pasted has to run
        assert space["model"].profile.model == each.target.model
