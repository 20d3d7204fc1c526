"""Figures as people read them. What nobody reported is a question mark and never a zero."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from ..messages.items import Waiting
from ..messages.usage import Cost, Precision, Usage

UNKNOWN: Final = "?"

# What a terminal takes for a command: colours, cursor moves, titles.
_SEQUENCES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")

# Control characters, overrides of the writing direction, and lone surrogates, which no encoding can write.
_STEERING: Final = dict.fromkeys(
    code
    for codes in (range(0x20), range(0x7F, 0xA0), range(0x202A, 0x202F), range(0x2066, 0x206A), range(0xD800, 0xE000))
    for code in codes
    if chr(code) not in "\n\t"
)

_PREFIX: dict[Precision, str] = {"exact": "", "estimated": "~", "unknown": "≥"}


def tokens_text(usage: Usage) -> str:
    """Return input and output tokens together; `~` marks an estimate, `≥` a sum with unknown parts."""
    if usage.input_tokens is None and usage.output_tokens is None:
        return UNKNOWN
    incomplete = usage.input_tokens is None or usage.output_tokens is None
    if usage.precision == "unknown" and usage.tokens == 0:
        return UNKNOWN
    return f"{'≥' if incomplete else _PREFIX[usage.precision]}{usage.tokens:,}"


def money_text(cost: Cost) -> str:
    """Return an amount in USD; small ones keep two digits that say something."""
    if cost.amount is None or (cost.precision == "unknown" and not cost.amount):
        return UNKNOWN
    return f"{_PREFIX[cost.precision]}${_amount(cost.amount)}"


def _amount(amount: Decimal) -> str:
    if not amount:
        return "0"
    if amount < Decimal("0.000001"):
        return f"{amount:.1e}"
    digits = 2 if amount >= 1 else min(6, max(4, -amount.adjusted() + 1))
    return f"{amount:,.{digits}f}"


def seconds_text(seconds: float) -> str:
    """Return a duration."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def count_text(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural where it is not one."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def totals_text(runs: int, usage: Usage, cost: Cost, seconds: float) -> str:
    """Return what a tree consumed, on one line."""
    tokens = tokens_text(usage)
    parts = (
        count_text(runs, "run"),
        count_text(usage.model_calls, "model call"),
        "tokens unknown" if tokens == UNKNOWN else f"{tokens} tokens",
        "cost unknown" if money_text(cost) == UNKNOWN else money_text(cost),
        seconds_text(seconds),
    )
    return " · ".join(parts)


_WAITS: Final[Mapping[str, str]] = {
    "budget": "budget that others have reserved, to call {}",
    "model_limit": "a limit of {}",
    "parallel": "a parallel slot {}",
    "pause": "{}, which asked for a pause",
}


def waited_for(item: Waiting) -> str:
    """Return what a run waits for."""
    return _WAITS[item.what].format(item.detail).rstrip()


def short_id(run_id: str) -> str:
    """Return the end of a run id: the part that differs among runs of the same second."""
    return run_id[-6:]


def printable(text: str) -> str:
    """Return text without the characters that could steer a terminal; line feeds and tabs stay."""
    return _SEQUENCES.sub("", text).translate(_STEERING)
