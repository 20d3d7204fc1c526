"""Signs by which families of servers are known, whatever their address: fields, comments, prefixes and headers that no other family has.

Taken from recorded answers and the servers' documentation. A family is written as in its profile's `provider`.
"""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import pydantic_core

from ..shapes import as_object, as_objects
from .answer import Answer
from .recording import Recording

Place = Literal[
    "event", "choice", "delta", "usage", "comment", "fingerprint", "id", "call id", "header", "owner", "version"
]


class Mark(NamedTuple):
    """A sign: what stands where."""

    family: str
    place: Place
    value: str
    """A name for fields and headers, where `name=text` asks for a text in it; the beginning of a value for all else."""


MARKS: Sequence[Mark] = (
    Mark("azure", "header", "apim-request-id"),
    Mark("azure", "event", "prompt_filter_results"),
    Mark("azure", "choice", "content_filter_results"),
    Mark("cerebras", "event", "time_info"),
    Mark("cerebras", "owner", "Cerebras"),
    Mark("deepseek", "usage", "prompt_cache_miss_tokens"),
    Mark("deepseek", "call id", "call_00_"),
    Mark("deepseek", "header", "x-ds-trace-id"),
    Mark("deepseek", "owner", "deepseek"),
    Mark("gemini", "call id", "function-call-"),
    Mark("gemini", "owner", "google"),
    Mark("groq", "event", "x_groq"),
    Mark("groq", "header", "x-groq-region"),
    Mark("llama.cpp", "event", "timings"),
    Mark("llama.cpp", "header", "server=llama.cpp"),
    Mark("llama.cpp", "owner", "llamacpp"),
    Mark("mistral", "event", "p"),
    Mark("mistral", "header", "mistral-correlation-id"),
    Mark("mistral", "owner", "mistralai"),
    Mark("moonshot", "owner", "moonshot"),
    Mark("ollama", "fingerprint", "fp_ollama"),
    Mark("ollama", "owner", "library"),
    Mark("openai", "event", "obfuscation"),
    Mark("openai", "header", "openai-processing-ms"),
    Mark("openrouter", "comment", "OPENROUTER"),
    Mark("openrouter", "choice", "native_finish_reason"),
    Mark("openrouter", "id", "gen-"),
    Mark("openrouter", "usage", "is_byok"),
    Mark("qwen", "header", "x-dashscope-call-gateway"),
    Mark("sglang", "choice", "matched_stop"),
    Mark("sglang", "owner", "sglang"),
    Mark("together", "delta", "token_id"),
    Mark("together", "choice", "seed"),
    Mark("vercel", "delta", "provider_metadata"),
    Mark("vercel", "event", "generationId"),
    Mark("vllm", "event", "prompt_token_ids"),
    Mark("vllm", "choice", "token_ids"),
    Mark("vllm", "choice", "stop_reason"),
    Mark("vllm", "call id", "chatcmpl-tool-"),
    Mark("vllm", "fingerprint", "vllm-"),
    Mark("vllm", "owner", "vllm"),
    Mark("xai", "usage", "num_sources_used"),
    Mark("xai", "owner", "xai"),
    Mark("zai", "owner", "z-ai"),
)


def find_marks(
    answers: Sequence[tuple[Recording, Answer]], models: Recording | None = None
) -> dict[str, tuple[str, ...]]:
    """Return the signs that were seen, in words, by family.

    Args:
        answers: Answers of the conversation.
        models: The answer to the question which models there are.
    """
    facts = {fact for recording, answer in answers for fact in _facts(recording, answer)}
    if models is not None:
        facts |= set(_owners(models))
    found: dict[str, dict[str, None]] = {}
    for mark in MARKS:
        if any(_matches(mark, place, value) for place, value in facts):
            found.setdefault(mark.family, {})[_words(mark)] = None
    return {family: tuple(words) for family, words in found.items()}


def _matches(mark: Mark, place: str, value: str) -> bool:
    if place != mark.place:
        return False
    if place in ("comment", "fingerprint", "id", "call id", "owner") or "=" in mark.value:
        return value.lower().startswith(mark.value.lower())
    return value == mark.value or value.startswith(mark.value + "=")


def _facts(recording: Recording, answer: Answer) -> Iterator[tuple[str, str]]:
    yield from (("header", f"{name}={value}") for name, value in recording.headers.items())
    yield from (("comment", comment) for comment in answer.comments)
    for chunk in answer.chunks:
        yield from (("event", name) for name in chunk.value)
        yield from (("choice", name) for name in chunk.choice)
        yield from (("delta", name) for name in chunk.delta)
        yield from (("usage", name) for name in as_object(chunk.value.get("usage")))
        yield "id", str(chunk.value.get("id") or "")
        yield "fingerprint", str(chunk.value.get("system_fingerprint") or "")
        yield from (("call id", str(call.get("id") or "")) for call in as_objects(chunk.delta.get("tool_calls")))


def _owners(models: Recording) -> Iterator[tuple[str, str]]:
    try:
        listed = as_object(pydantic_core.from_json(models.body)) if models.accepted else {}
    except ValueError:
        return
    yield from (("owner", str(model.get("owned_by") or "")) for model in as_objects(listed.get("data")))


def _words(mark: Mark) -> str:
    name, _, text = mark.value.partition("=")
    match mark.place:
        case "event" | "choice" | "delta" | "usage":
            where = {"event": "in events", "choice": "in choices", "delta": "in deltas", "usage": "in usage"}[
                mark.place
            ]
            return f"`{name}` {where}"
        case "header":
            return f"header `{name}: {text}`" if text else f"header `{name}`"
        case "owner":
            return f"models owned by `{name}`"
        case _:
            return f"{mark.place} `{name}…`"
