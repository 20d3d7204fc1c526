"""Figures for people: unknown is never zero (S9), and text can't steer the terminal."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtree.cli.figures import money_text, printable, seconds_text, tokens_text, totals_text
from runtree.messages import NO_COST, NO_USAGE, Cost, Precision, Usage


@pytest.mark.parametrize(
    "usage, text",
    [
        (NO_USAGE, "0"),
        (Usage(precision="unknown"), "?"),
        (Usage(precision="exact"), "?"),
        (Usage(input_tokens=0, output_tokens=0, precision="unknown"), "?"),
        (Usage(input_tokens=1000, output_tokens=204), "1,204"),
        (Usage(input_tokens=1000, output_tokens=204, precision="estimated"), "~1,204"),
        (Usage(input_tokens=1000, output_tokens=204, precision="unknown"), "≥1,204"),
        (Usage(input_tokens=1000), "≥1,000"),
    ],
)
def test_s9_tokens(usage: Usage, text: str) -> None:
    assert tokens_text(usage) == text


@pytest.mark.parametrize(
    "amount, precision, text",
    [
        ("0", "exact", "$0"),
        (None, "exact", "?"),
        (None, "unknown", "?"),
        ("0", "unknown", "?"),
        ("0.0123", "exact", "$0.0123"),
        ("0.5", "exact", "$0.5000"),
        ("0.000045", "exact", "$0.000045"),
        ("0.0000000125", "exact", "$1.2e-8"),
        ("1234.567", "estimated", "~$1,234.57"),
        ("2.50", "unknown", "≥$2.50"),
    ],
)
def test_s9_money(amount: str | None, precision: Precision, text: str) -> None:
    assert money_text(Cost(amount=None if amount is None else Decimal(amount), precision=precision)) == text


@given(st.decimals("0.0000000001", "100000", places=10))
def test_something_never_reads_as_nothing(amount: Decimal) -> None:
    assert any(digit in money_text(Cost(amount=amount)) for digit in "123456789")


@pytest.mark.parametrize(
    "seconds, text", [(0.04, "0.0 s"), (59.9, "59.9 s"), (61, "1 min 01 s"), (3600, "1 h 00 min"), (7384, "2 h 03 min")]
)
def test_durations(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


def test_totals_on_one_line() -> None:
    usage = Usage(input_tokens=1000, output_tokens=204, model_calls=7)
    assert totals_text(7, usage, NO_COST, 12.34) == "7 runs · 7 model calls · 1,204 tokens · $0 · 12.3 s"
    nothing = totals_text(1, Usage(precision="unknown", model_calls=1), Cost(precision="unknown"), 1.0)
    assert nothing == "1 run · 1 model call · tokens unknown · cost unknown · 1.0 s"


@given(st.text(st.characters(exclude_categories=[])))
def test_no_text_steers_the_terminal(text: str) -> None:
    shown = printable(text)
    assert not any(character < " " and character not in "\n\t" for character in shown)
    assert not set(shown) & set("\x7f\x9b\u202e")
    shown.encode()


def test_sequences_go_as_a_whole_and_words_stay() -> None:
    assert (
        printable("\x1b[31mred\x1b[0m \x1b]0;title\x07and 中文 👩\u200d🚀\n\tfine") == "red and 中文 👩\u200d🚀\n\tfine"
    )
