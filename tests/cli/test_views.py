"""What the views show of a stream: lines for logs, JSON for programs, a tree for terminals."""

import io
import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from rich.console import Console

from runtree.cli.live import LiveView, totals_line, tree_lines
from runtree.cli.plain import JsonView, PlainView
from runtree.cli.rows import Tree
from runtree.messages import AttemptDiscarded, Custom, ItemsDropped, ModelDelta, RunStarted, StreamItem, UnknownItem

from .stories import ROOT, Teller, cancelled_alone, cells, fan_out


async def _plain(items: Iterable[StreamItem]) -> list[str]:
    lines: list[str] = []
    async with PlainView(lines.append) as view:
        for item in items:
            view.show(item)
    return lines


async def test_plain_lines() -> None:
    assert await _plain(fan_out()) == [
        "[lead LEAD01] started on plan",
        "[lead LEAD01] | I ask two.",
        "[lead LEAD01] | Then I join.",
        "[lead LEAD01] reader called",
        "[lead LEAD01] reader called",
        "[reader AAAA02] started on small",
        "[reader BBBB03] started on small",
        "[reader AAAA02] read_file called",
        "[reader AAAA02] read_file ok after 0.2 s",
        "[reader AAAA02] | The sea rises.",
        "[reader AAAA02] completed (tokens 1,204, cost $0.0123, 0.0 s)",
        "[lead LEAD01] reader ok after 2.0 s",
        "[reader BBBB03] failed (tokens ?, cost ?, 0.0 s): silent for 30 s",
        "[lead LEAD01] reader error after 3.0 s: silent for 30 s",
        "[lead LEAD01] completed (tokens 0, cost $0, 9.5 s)",
    ]


async def test_plain_lines_of_a_cancelled_run() -> None:
    assert await _plain(cancelled_alone()) == [
        "[lead LEAD01] started",
        "[lead LEAD01] | half a sent",
        "[lead LEAD01] cancelled (tokens 0, cost $0, 1.0 s, killed): user",
    ]


async def test_plain_lines_of_cells() -> None:
    assert await _plain(cells()) == [
        "[coder LEAD01] started",
        "[coder LEAD01] | ```python",
        "[coder LEAD01] | find()",
        "[coder LEAD01] | ```",
        "[coder LEAD01] add called",
        '[coder LEAD01] progress: {"done":0.5}',
        "[coder LEAD01] add ok after 0.1 s",
        "[coder LEAD01] cell 1: model_query ok after 0.2 s",
        "[coder LEAD01] cell 1: model_query error after 0.3 s: busy now",
        "[coder LEAD01] > one",
        "[coder LEAD01] > two",
        "[coder LEAD01] = 7",
        "[coder LEAD01] cell 1 ok after 0.4 s",
        "[coder LEAD01] | ```python",
        "[coder LEAD01] | answer(1)",
        "[coder LEAD01] | ```",
        "[coder LEAD01] cell 2 answered after 0.1 s",
        "[coder LEAD01] completed (tokens 0, cost $0, 2.0 s)",
    ]


async def test_plain_lines_of_a_cell_that_failed_and_of_what_only_looks_like_one() -> None:
    teller = Teller()
    failed = {"cell": 3, "stdout": "half\n", "error": "ValueError: no\nway", "elapsed": 1}
    items = [
        teller.item(Custom, name="repl_cell", data=failed),
        teller.item(Custom, name="repl_cell", data=["x" * 1000]),
    ]
    lines = await _plain(items)
    assert lines[:2] == ["[run LEAD01] > half", "[run LEAD01] cell 3 failed after 1.0 s: ValueError: no way"]
    assert lines[2].startswith('[run LEAD01] repl_cell: ["xxx')
    assert len(lines[2]) < 500


async def test_plain_lines_say_what_is_missing_or_does_not_count() -> None:
    teller = Teller()
    assert await _plain(
        [
            teller.item(RunStarted, agent="a"),
            teller.item(ModelDelta, text="wro"),
            teller.item(
                AttemptDiscarded, scope="model_call", discarded_attempt=1, first_seq=1, last_seq=1, reason="cut\noff"
            ),
            teller.item(
                AttemptDiscarded,
                scope="model_call",
                discarded_attempt=2,
                first_seq=3,
                last_seq=2,
                reason="busy",
                delay=2,
            ),
            teller.item(ItemsDropped, count=1, first_seq=3, last_seq=3),
            UnknownItem(kind="input_requested", run_id=ROOT),
            teller.item(ModelDelta, text="no end"),
        ]
    ) == [
        "[a LEAD01] started",
        "[a LEAD01] | wro",
        "[a LEAD01] what was said does not count, it is said again: cut off",
        "[a LEAD01] trying again in 2.0 s: busy",
        "[a LEAD01] 1 item dropped",
        "[a LEAD01] | no end",
    ]


async def test_s7_plain_lines_tell_that_a_run_starts_again() -> None:
    teller = Teller()
    fields: dict[str, Any] = {"scope": "run", "discarded_attempt": 1, "first_seq": 0, "last_seq": 1}
    assert await _plain(
        [
            teller.item(RunStarted, agent="a"),
            teller.item(ModelDelta, text="wro"),
            teller.item(AttemptDiscarded, reason="killed", **fields),
            teller.item(RunStarted, agent="a", attempt=2),
        ]
    ) == [
        "[a LEAD01] started",
        "[a LEAD01] | wro",
        "[a LEAD01] attempt 1 is lost, the run starts again: killed",
        "[a LEAD01] started, attempt 2",
    ]


async def test_t1_plain_lines_tell_reasoning_from_text() -> None:
    teller = Teller()
    items: list[StreamItem] = [teller.item(RunStarted, agent="a")]
    items += [teller.item(ModelDelta, reasoning=piece) for piece in ("let me", " see\nso", "")]
    items += [teller.item(ModelDelta, text=piece) for piece in ("the ", "answer")]
    assert await _plain(items) == [
        "[a LEAD01] started",
        "[a LEAD01] ~ let me see",
        "[a LEAD01] ~ so",
        "[a LEAD01] | the answer",
    ]


async def test_json_lines_are_the_items() -> None:
    lines: list[str] = []
    items = [*fan_out(), UnknownItem(kind="input_requested", run_id=ROOT)]
    async with JsonView(lines.append) as view:
        for item in items:
            view.show(item)
    assert [json.loads(line)["kind"] for line in lines] == [item.kind for item in items]
    assert not any("\n" in line for line in lines)


def test_s7_the_number_of_an_attempt_stands_beside_the_name() -> None:
    teller = Teller()
    tree = _tree([teller.item(RunStarted, agent="reader"), teller.item(RunStarted, agent="reader", attempt=2)])
    assert "reader #2" in str(tree_lines(tree, 80, 5)[0])


def _tree(items: Iterable[StreamItem]) -> Tree:
    tree = Tree()
    for item in items:
        tree.apply(item)
    return tree


def _shown(width: int, height: int = 20) -> list[str]:
    return [line.plain.rstrip() for line in tree_lines(_tree(fan_out()), width, height)]


def test_the_tree_on_a_wide_terminal() -> None:
    assert _shown(100) == [
        "✓ lead      LEAD01      0       $0  Then I join.",
        "  ✓ reader  AAAA02  1,204  $0.0123  The sea rises.",
        "  ✗ reader  BBBB03      ?        ?  silent for 30 s",
    ]


def test_the_tree_on_narrow_terminals_keeps_what_runs_say() -> None:
    assert _shown(48) == [
        "✓ lead          0       $0  Then I join.",
        "  ✓ reader  1,204  $0.0123  The sea rises.",
        "  ✗ reader      ?        ?  silent for 30 s",
    ]
    assert _shown(24) == ["✓ lead    Then I join.", "  ✓ rea…  The sea rises.", "  ✗ rea…  silent for 30…"]


@pytest.mark.parametrize("width", [1, 8, 20, 33, 47, 60, 79, 120, 300])
@pytest.mark.parametrize("height", [1, 2, 3, 24])
def test_the_tree_never_outgrows_the_terminal(width: int, height: int) -> None:
    lines = tree_lines(_tree(fan_out()), width, height)
    assert all(line.cell_len <= width for line in lines)
    assert len(lines) <= max(height, 2)


def test_what_is_left_out_is_counted() -> None:
    teller = Teller()
    items: list[StreamItem] = [teller.item(RunStarted, agent="lead")]
    items += [teller.item(RunStarted, f"child-{number}", ROOT, agent="reader") for number in range(30)]
    assert tree_lines(_tree(items), 80, 6)[-1].plain == "… 26 more"


def test_a_growing_line_shows_its_end() -> None:
    teller = Teller()
    items: list[StreamItem] = [teller.item(RunStarted, agent="a"), teller.item(ModelDelta, text="中" * 40 + " the end")]
    (line,) = tree_lines(_tree(items), 40, 5)
    assert line.plain.endswith("中 the end")
    assert line.cell_len <= 40


def test_the_line_below_the_tree() -> None:
    line = totals_line(_tree(fan_out()), now=1e9)
    assert line is not None
    assert line.plain == "3 runs · 2 model calls · ≥1,204 tokens · ≥$0.0123 · 9.0 s"
    assert totals_line(Tree(), now=0.0) is None


@pytest.fixture
def make_console() -> Callable[[], Console]:
    return lambda: Console(file=io.StringIO(), force_terminal=True, width=80, height=10, color_system=None)


async def test_the_live_view_leaves_its_last_state_on_the_screen(make_console: Callable[[], Console]) -> None:
    console = make_console()
    async with LiveView(console, lambda: 110.0) as view:
        for item in fan_out():
            view.show(item)
    assert isinstance(console.file, io.StringIO)
    last = console.file.getvalue().rsplit("✓ lead", 1)[1]
    assert "silent for 30 s" in last
    assert "model calls" not in last
    assert console.file.getvalue().rstrip("\n").endswith("\x1b[?25h"), "the cursor is shown again"
