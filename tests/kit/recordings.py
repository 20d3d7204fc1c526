"""Answers recorded from real servers, as the shared fixtures keep them, and what their truth is compared with."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runtree.messages.usage import Usage

CATEGORIES: Mapping[str, str] = {
    "auth": "authentication",
    "permission": "authentication",
    "not_found": "model_not_found",
    "context_length": "context_overflow",
    "server_error": "provider",
}
"""Codes of failures by the categories of the truth, where the words differ."""


def recordings(folder: Path) -> Iterator[tuple[str, dict[str, Any], bytes]]:
    """Yields name, description and body of every recording of a folder."""
    paths = sorted(folder.glob("*.json"))
    assert paths, f"no recordings in {folder}"
    for path in paths:
        yield path.stem, json.loads(path.read_text()), path.with_suffix(".body").read_bytes()


def usage_problems(usage: Usage, truth: Mapping[str, int | None]) -> Iterator[object]:
    """Yields every figure that is not that of the truth."""
    figures = {
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "cached_read": usage.cache_read_tokens,
        "cache_write": usage.cache_write_tokens,
        "reasoning": usage.reasoning_tokens,
    }
    for name, figure in figures.items():
        # What was not reported is null here and may be zero there.
        if (figure or 0) != (truth.get(name) or 0):
            yield name, figure, truth.get(name)
