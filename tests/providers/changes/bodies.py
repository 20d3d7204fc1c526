"""Ways to send a unary answer that mean the same."""

import json
from collections.abc import Callable
from typing import Any

from .frames import reordered

Said = dict[str, Any]


def _text(said: Any, **style: Any) -> bytes:
    return json.dumps(said, **{"ensure_ascii": False, **style}).encode()


def _odd(said: Said) -> Said:
    choices = [{**choice, "x_new": {"error": None}} for choice in said.get("choices", ())]
    return {**said, "x_new": {"error": "none"}, **({"choices": choices} if choices else {})}


def _nulls(said: Said) -> Said:
    choices = [{"delta": None, "logprobs": None, "error": None, **choice} for choice in said.get("choices", ())]
    return {"error": None, "system_fingerprint": None, **said, **({"choices": choices} if choices else {})}


BODIES: dict[str, Callable[[Said], bytes]] = {
    "plain": _text,
    "indented": lambda said: _text(said, indent=2),
    "tight": lambda said: _text(said, separators=(",", ":")),
    "escapes": lambda said: _text(said, ensure_ascii=True),
    "key order": lambda said: _text(reordered(said)),
    "blank lines before": lambda said: b"\n\n \r\n" + _text(said) + b"\n\n",
    "byte order mark": lambda said: b"\xef\xbb\xbf" + _text(said),
    "unknown fields": lambda said: _text(_odd(said)),
    "nulls for absent": lambda said: _text(_nulls(said)),
}
"""Ways by name."""
