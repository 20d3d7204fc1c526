"""The usage object of the chat completions protocol, with the variants that servers are known to send, in the normal form."""

from collections.abc import Mapping
from typing import Any, Literal

from ...messages.usage import Usage
from ..charge import read_cost
from ..fold import UNKNOWN_USAGE
from ..shapes import as_count, as_object

__all__ = ["read_cost", "read_usage"]


def read_usage(raw: Mapping[str, Any], counts: Literal["by_total", "beside", "total"] = "by_total") -> Usage:
    """Return the usage in the normal form: input with what was cached, output with what was reasoning.

    Args:
        raw: The object as it came.
        counts: `usageas_counts` of the server's profile.
    """
    prompt = as_object(raw.get("prompt_tokens_details"))
    completion = as_object(raw.get("completion_tokens_details"))
    entered, left, total = (as_count(raw.get(f"{part}_tokens")) for part in ("prompt", "completion", "total"))
    reasoning = _first(completion.get("reasoning_tokens"), raw.get("reasoning_tokens"))
    if left is None and entered is not None and total is not None and total >= entered:
        left = total - entered
    if left is not None and entered is not None:
        rest = None if total is None else total - entered - left
        if reasoning is None and counts == "total" and rest and rest > 0:
            reasoning = rest
        # One family counts reasoning beside the completion, which only the total tells.
        if reasoning and (rest == reasoning or (counts == "beside" and rest != 0)):
            left += reasoning
    if entered is None and left is None:
        return UNKNOWN_USAGE
    return Usage(
        input_tokens=entered,
        output_tokens=left,
        cache_read_tokens=_first(
            prompt.get("cached_tokens"),
            raw.get("prompt_cache_hit_tokens"),
            raw.get("cached_tokens"),
            raw.get("num_cached_tokens"),
            raw.get("cache_read_input_tokens"),
        ),
        cache_write_tokens=_first(prompt.get("cache_write_tokens"), raw.get("cache_creation_input_tokens")),
        reasoning_tokens=reasoning,
        precision="unknown" if entered is None or left is None else "exact",
    )


def _first(*values: Any) -> int | None:
    return next((count for count in map(as_count, values) if count is not None), None)
