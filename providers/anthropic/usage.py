"""The usage object of the messages protocol in the normal form."""

from collections.abc import Mapping
from typing import Any

from ...messages.usage import Usage
from ..fold import UNKNOWN_USAGE
from ..shapes import as_count, as_object


def read_usage(raw: Mapping[str, Any], *, final: bool) -> Usage:
    """Return the usage in the normal form: what was cached stands beside the input on the wire and inside it here.

    Args:
        raw: The fields reported so far, the later ones over the earlier.
        final: Whether the output is the whole one; what a stream begins with is only a first count.
    """
    created = as_object(raw.get("cache_creation"))
    parts = [as_count(created.get(f"ephemeral_{ttl}_input_tokens")) for ttl in ("5m", "1h")]
    read, write = as_count(raw.get("cache_read_input_tokens")), as_count(raw.get("cache_creation_input_tokens"))
    if write is None and any(part is not None for part in parts):
        write = sum(part or 0 for part in parts)
    fresh, left = as_count(raw.get("input_tokens")), as_count(raw.get("output_tokens"))
    if fresh is None and left is None:
        return UNKNOWN_USAGE
    return Usage(
        input_tokens=None if fresh is None else fresh + (read or 0) + (write or 0),
        output_tokens=left,
        cache_read_tokens=read,
        cache_write_tokens=write,
        cache_write_1h_tokens=parts[1],
        reasoning_tokens=as_count(as_object(raw.get("output_tokens_details")).get("thinking_tokens")),
        precision="exact" if final and fresh is not None and left is not None else "unknown",
    )
