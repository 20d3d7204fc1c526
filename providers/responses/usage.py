"""The usage object of the responses protocol in the normal form."""

from collections.abc import Mapping
from typing import Any

from ...messages.usage import Usage
from ..fold import UNKNOWN_USAGE
from ..shapes import as_count, as_object


def read_usage(raw: Mapping[str, Any]) -> Usage:
    """Return the usage: input and output are gross already, and what is not reported stays unknown."""
    entered, left = as_count(raw.get("input_tokens")), as_count(raw.get("output_tokens"))
    if entered is None and left is None:
        return UNKNOWN_USAGE
    read = as_object(raw.get("input_tokens_details"))
    written = as_object(raw.get("output_tokens_details"))
    return Usage(
        input_tokens=entered,
        output_tokens=left,
        cache_read_tokens=as_count(read.get("cached_tokens")),
        cache_write_tokens=as_count(read.get("cache_write_tokens")),
        reasoning_tokens=as_count(written.get("reasoning_tokens")),
        precision="unknown" if entered is None or left is None else "exact",
    )
