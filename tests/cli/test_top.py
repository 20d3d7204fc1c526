"""`runtree top`: keys, the board behind the screen, and what is drawn of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from runtree.cli.keys import decode
from runtree.cli.top_board import Board, Wish
from runtree.cli.top_screen import frame

from .infos import info, view

TREE = (info("r1", tokens=60), info("a", "r1", tokens=20, model="gpt"), info("b", "r1"), info("r2"))


def board_of(*presses: str) -> Board:
    board = Board("test")
    board.take(view(*TREE))
    for key in presses:
        board.press(key)
    return board


def drawn(board: Board, width: int = 100, height: int = 12) -> list[str]:
    console = Console(width=width, height=height, color_system=None, record=True, file=None)
    with console.capture() as capture:
        console.print(frame(board, width, height), end="")
    return [line.rstrip() for line in capture.get().splitlines()]


@pytest.mark.parametrize(
    "data, keys",
    [
        (b"jkq", ["j", "k", "q"]),
        (b"\x1b[A\x1b[B\x1bOA\x1bOB", ["up", "down", "up", "down"]),
        (b"\x1b[5~\x1b[6~\x1b[H\x1b[F\x1b[1~\x1b[4~", ["page up", "page down", "home", "end", "home", "end"]),
        (b"c\x1b[1;5Cq", ["c", "q"]),
        ("é".encode(), ["é"]),
        (b"\xff\xfe", []),
        (b"\r", ["enter"]),
    ],
)
def test_keys_are_told_apart(data: bytes, keys: list[str]) -> None:
    """An arrow with control is no key of ours, and no `C` either."""
    assert decode(data) == (keys, b"")


_PIECES = st.lists(st.sampled_from([b"\x1b[A", b"\x1b[6~", b"\x1bOB", b"\x1b[1;5C", b"c", b"C", b"q"]), max_size=8)


@given(_PIECES, st.data())
def test_keys_that_arrive_in_pieces_are_the_same_keys(pieces: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(pieces)
    at = data.draw(st.integers(0, len(whole)))
    if whole[:at].endswith(b"\x1b"):
        return  # alone it is the key Escape
    first, rest = decode(whole[:at])
    second, left = decode(rest + whole[at:])
    assert (first + second, left) == decode(whole)


def test_runs_stand_below_their_parents() -> None:
    board = board_of()
    assert [(line.info.run_id, line.indent) for line in board.lines] == [("r1", 0), ("a", 1), ("b", 1), ("r2", 0)]
    assert [line.age for line in board.lines] == [1.0] * 4


@pytest.mark.parametrize(
    "presses, selected",
    [
        ("", "r1"),
        ("j", "a"),
        ("jjk", "a"),
        ("jjjjjj", "r2"),
        ("k", "r1"),
        ("G", "r2"),
        ("Gg", "r1"),
    ],
)
def test_letters_move(presses: str, selected: str) -> None:
    run = board_of(*presses).selected
    assert run is not None
    assert run.run_id == selected


def test_the_selection_stays_on_its_run_and_moves_on_when_that_goes() -> None:
    board = board_of("down", "down")
    board.take(view(info("r0"), *TREE))
    assert board.selected == TREE[2]
    board.take(view(info("r0"), *(run for run in TREE if run.run_id != "b")))
    assert board.selected is not None
    assert board.selected.run_id == "r2"


def test_c_cancels_the_run_and_capital_c_asks_for_the_tree() -> None:
    board = board_of("j")
    assert board.press("c") == Wish("cancel", "a")
    assert board.press("C") is None
    assert board.press("j") is None, "anything but y is no"
    assert board.selected is not None
    assert board.selected.run_id == "a"
    board.press("C")
    assert board.press("y") == Wish("cancel", "r1")


def test_e_and_q_and_the_end_of_the_terminal() -> None:
    board = board_of()
    assert board.press("e") == Wish("look")
    assert board.ended
    assert board.press("q") == board.press("end of input") == Wish("quit")
    assert board.press("x") is None


def test_keys_do_nothing_where_nothing_runs() -> None:
    board = Board("test")
    for key in ("j", "G", "c", "C", "y", "e"):
        wish = board.press(key)
        assert wish is None or wish.kind == "look"


def test_tokens_a_second_are_an_average_over_some_seconds() -> None:
    board = Board("test")
    rates: list[float | None] = []
    for second in range(40):
        board.take(view(info("r1", tokens=second * 10 if second < 20 else 200), time=100.0 + second))
        rates.append(board.lines[0].rate)
    assert rates[0] is None
    assert rates[1] == rates[15] == 10.0
    assert rates[39] == 0.0
    assert board.rate == 0.0


def test_the_screen_fills_the_terminal_and_nothing_wraps() -> None:
    board = board_of("j")
    for width, height in ((100, 12), (60, 9), (30, 6)):
        lines = drawn(board, width, height)
        assert len(lines) == height
        assert all(len(line) <= width for line in lines)


@pytest.mark.parametrize(
    "width, missing", [(100, ""), (90, "MODEL"), (70, "MODEL TOK/S"), (50, "MODEL TOK/S TIME COST")]
)
def test_on_a_narrow_terminal_names_stay_readable(width: int, missing: str) -> None:
    lines = drawn(board_of(), width)
    shown = lines[1].split()
    assert [name for name in ("MODEL", "TOK/S", "TIME", "COST") if name not in shown] == [
        name for name in ("MODEL", "TOK/S", "TIME", "COST") if name in missing.split()
    ]
    assert "agent-r1" in lines[2]


def test_what_is_drawn() -> None:
    lines = drawn(board_of("j"))
    assert lines[0] == "runtree test   4 runs live · 0 ended · 1 driver · 60 tokens · $0.6000"
    assert lines[1].split() == ["AGENT", "RUN", "STATE", "MODEL", "TOKENS", "TOK/S", "COST", "TIME", "AGE"]
    assert lines[2].split() == ["●", "agent-r1", "r1", "running", "60", "$0.6000", "10.0", "s", "1.0", "s"]
    assert lines[3].startswith("  ● agent-a")
    assert "gpt" in lines[3]
    assert lines[-2] == "a of host:1"
    assert lines[-1].startswith("↑↓ move   c cancel run")


def test_a_long_tree_is_scrolled_to_the_selection() -> None:
    board = Board("test")
    board.take(view(info("r"), *(info(f"c{number:02}", "r") for number in range(30))))
    board.press("end")
    lines = drawn(board, height=10)
    assert "c29" in lines[7]
    assert lines[-2].endswith("25 above")
    board.press("home")
    assert "agent-r" in drawn(board, height=10)[2]
    assert drawn(board, height=10)[-2].endswith("25 below")


def test_what_is_wrong_is_said() -> None:
    board = board_of()
    board.fail("supervisor: no answer within 30 s")
    assert drawn(board)[-2] == "supervisor: no answer within 30 s"
    assert any("agent-a" in line for line in drawn(board)), "the last view stays"
    board.take(None)
    assert "no supervisor in namespace test" in drawn(board)[-2]
    assert not board.lines
    board.take(view())
    assert drawn(board)[-2].startswith("no live runs")


def test_states_of_every_kind() -> None:
    board = Board("test")
    board.take(
        view(
            info("a", waits_for="model_limit"),
            info("b", cancelling=True),
            info("c", status="failed", ended=95.0),
            info("d", agent="\x1b[31mred\nname"),
            left_out=7,
        )
    )
    text = "\n".join(drawn(board))
    assert "waits: model limit" in text
    assert "cancelling" in text
    assert "5.0 s" in text
    assert "● red name" in text
    assert "7 not shown" in text
    board.press("C")
    assert drawn(board)[-1].endswith("? y/n")
