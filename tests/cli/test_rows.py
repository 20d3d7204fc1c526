"""The state behind the live tree, without a terminal."""

from itertools import takewhile

import pytest

from runtree.cli.rows import Tree
from runtree.messages import (
    AttemptDiscarded,
    ModelDelta,
    RunStarted,
    StreamItem,
    ToolCallStarted,
    ToolProgress,
    TurnStarted,
    UnknownItem,
)

from .stories import FIRST, ROOT, SECOND, Teller, cancelled_alone, cells, fan_out


def _tree(*items: StreamItem) -> Tree:
    tree = Tree()
    for item in items:
        tree.apply(item)
    return tree


def test_rows_follow_the_runs() -> None:
    tree = _tree(*fan_out())
    rows = list(tree.ordered())
    assert [(row.run_id, row.depth, row.agent, row.state) for row in rows] == [
        (ROOT, 0, "lead", "completed"),
        (FIRST, 1, "reader", "completed"),
        (SECOND, 1, "reader", "failed"),
    ]
    assert rows[1].last_line == "The sea rises."
    assert rows[1].totals is not None
    assert rows[1].totals.usage.tokens == 1204
    assert rows[2].note == "silent for 30 s"
    assert tree.root is rows[0]
    assert not any(row.open_calls for row in rows)


def test_the_current_tool_is_named_while_it_is_at_work() -> None:
    story = list(fan_out())
    until = [*takewhile(lambda item: item.kind != "tool_call_completed", story)]
    rows = _tree(*until).rows
    assert rows[ROOT].activity == "reader (2)"
    assert rows[FIRST].activity == "read_file"
    assert rows[SECOND].activity == ""


def test_different_tools_at_once() -> None:
    teller = Teller()
    tree = _tree(
        teller.item(RunStarted, agent="lead"),
        *(teller.item(ToolCallStarted, call_id=name, tool_name=name) for name in ("find", "read", "write")),
        teller.item(ToolProgress, call_id="write", tool_name="write", message="half"),
    )
    assert tree.rows[ROOT].activity == "write +2"
    assert tree.rows[ROOT].note == "half"


def test_e2_a_cell_shows_its_calls_while_they_are_at_work_and_then_what_it_printed() -> None:
    tree = Tree()
    seen: list[tuple[str, str]] = []
    for item in cells():
        tree.apply(item)
        row = tree.rows[ROOT]
        if (row.activity, row.last_line) not in seen:
            seen.append((row.activity, row.last_line))
    assert seen == [
        ("", ""),
        ("model_query", ""),
        ("model_query (2)", ""),
        ("add +2", ""),
        ("", "cell 1: two"),
        ("", "cell 2: answered"),
        ("", "line 2"),
    ]


def test_before_a_report_nothing_is_known_of_the_accounts() -> None:
    teller = Teller()
    assert _tree(teller.item(RunStarted, agent="lead")).rows[ROOT].totals is None


def test_a_cancelled_run_says_why_and_that_it_was_killed() -> None:
    row = _tree(*cancelled_alone()).rows[ROOT]
    assert (row.state, row.note, row.last_line) == ("cancelled", "user (killed)", "half a sent")


def test_a_new_turn_begins_a_new_text_once_it_speaks() -> None:
    teller = Teller()
    tree = _tree(teller.item(RunStarted, agent="a"), teller.item(ModelDelta, text="one\n"))
    tree.apply(teller.item(TurnStarted, turn=2))
    assert tree.rows[ROOT].last_line == "one"
    tree.apply(teller.item(ModelDelta, text="two"))
    assert tree.rows[ROOT].text == "two"


@pytest.mark.parametrize("scope", ["run", "model_call"])
def test_l7_what_was_discarded_is_not_shown(scope: str) -> None:
    teller = Teller()
    tree = _tree(
        teller.item(RunStarted, agent="a"),
        teller.item(ModelDelta, text="wrong"),
        teller.item(AttemptDiscarded, scope=scope, discarded_attempt=1, first_seq=1, last_seq=1),
    )
    assert tree.rows[ROOT].last_line == ""


def test_l7_why_it_is_tried_again_is_shown_until_the_model_speaks() -> None:
    teller = Teller()
    again = teller.item(
        AttemptDiscarded, scope="model_call", discarded_attempt=1, first_seq=1, last_seq=0, reason="overloaded: busy"
    )
    tree = _tree(teller.item(RunStarted, agent="a"), again)
    assert tree.rows[ROOT].note == "trying again: overloaded: busy"
    tree.apply(teller.item(ModelDelta, reasoning="hm"))
    assert tree.rows[ROOT].note == ""


def test_s7_a_run_that_is_started_again_says_so_in_its_row() -> None:
    teller = Teller()
    again = teller.item(
        AttemptDiscarded, scope="run", discarded_attempt=1, first_seq=0, last_seq=1, reason="its process is gone"
    )
    first = teller.item(RunStarted, agent="reader")
    tree = _tree(first, teller.item(ModelDelta, text="half"), again)
    assert (tree.rows[ROOT].note, tree.rows[ROOT].last_line) == ("starting again: its process is gone", "")
    second = teller.item(RunStarted, agent="reader", attempt=2)
    tree.apply(second)
    assert (tree.rows[ROOT].attempt, tree.rows[ROOT].started) == (2, first.time)


def test_t1_reasoning_is_shown_until_something_is_said() -> None:
    teller = Teller()
    tree = _tree(teller.item(RunStarted, agent="a"), teller.item(ModelDelta, reasoning="first\nsec"))
    tree.apply(teller.item(ModelDelta, reasoning="ond"))
    assert (tree.rows[ROOT].thought, tree.rows[ROOT].last_line) == ("second", "")
    tree.apply(teller.item(ModelDelta, text="done"))
    assert (tree.rows[ROOT].thought, tree.rows[ROOT].last_line) == ("", "done")


def test_text_is_kept_within_bounds() -> None:
    teller = Teller()
    tree = _tree(teller.item(RunStarted, agent="a"), *(teller.item(ModelDelta, text="x" * 99) for _ in range(99)))
    assert len(tree.rows[ROOT].text) < 1000


def test_items_of_a_newer_version_are_passed_over() -> None:
    assert len(_tree(UnknownItem(kind="input_requested", run_id="other"))) == 0


def _wide(children: int, running: set[int]) -> Tree:
    teller = Teller()
    tree = _tree(teller.item(RunStarted, agent="lead"))
    for number in range(children):
        tree.apply(teller.item(RunStarted, f"child-{number}", ROOT, agent="reader"))
        if number not in running:
            tree.rows[f"child-{number}"].state = "completed"
    return tree


def test_a_tree_that_fits_is_shown_whole() -> None:
    rows, left_out = _wide(5, {0}).visible(6)
    assert (len(rows), left_out) == (6, 0)


def test_a_long_tree_shows_what_is_at_work() -> None:
    rows, left_out = _wide(50, {3, 40}).visible(5)
    assert [row.run_id for row in rows] == [ROOT, "child-0", "child-3", "child-40"]
    assert left_out == 47


@pytest.mark.parametrize("height", [1, 2, 3, 10])
def test_never_more_rows_than_lines(height: int) -> None:
    rows, left_out = _wide(30, set(range(30))).visible(height)
    assert len(rows) + (1 if left_out else 0) <= max(height, 2)
    assert len(rows) + left_out == 31
