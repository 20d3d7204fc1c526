"""`runtree top` in a real terminal: a pseudo-terminal on one side, an emulator that reads the screen on the other."""

import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conftest import ROOT

pyte: Any = pytest.importorskip("pyte", reason="NOT RUN: pyte is not installed (pip install -e '.[dev]')")
pytestmark = pytest.mark.timeout(115)

COLUMNS, ROWS = 90, 14


class Terminal:
    """A terminal with a program in it."""

    def __init__(self, *arguments: str) -> None:
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self.screen)
        self._master, self._slave = pty.openpty()
        termios.tcsetwinsize(self._slave, (ROWS, COLUMNS))
        self.mode = termios.tcgetattr(self._slave)
        # These would overrule the size of the window.
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        environment["TERM"] = "xterm-256color"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.top_program", *arguments],
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C reaches the program as a signal
            cwd=ROOT,
            env=environment,
        )

    def press(self, keys: str) -> None:
        """Send keys."""
        os.write(self._master, keys.encode())

    def until(self, holds: Callable[[list[str]], bool], limit: float = 50.0) -> list[str]:
        """Read until the screen is as it should be; returns its lines."""
        deadline = time.monotonic() + limit
        while not holds(self.lines):
            left = deadline - time.monotonic()
            assert left > 0, "\n".join(self.lines)
            self._read(left)
        return self.lines

    def resize(self, rows: int) -> None:
        """Make the window higher or lower; the program gets the signal."""
        self.screen.resize(rows, COLUMNS)
        termios.tcsetwinsize(self._slave, (rows, COLUMNS))
        self.process.send_signal(signal.SIGWINCH)

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display]

    @property
    def modes_now(self) -> Any:
        return termios.tcgetattr(self._slave)

    def ended(self) -> int:
        """Read until the program ends; returns its exit code."""
        deadline = time.monotonic() + 50
        while self.process.poll() is None:
            assert time.monotonic() < deadline, "\n".join(self.lines)
            self._read(0.05)
        while self._read(0):
            pass
        return self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)
        os.close(self._slave)

    def _read(self, limit: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], limit)
        if ready:
            self._stream.feed(os.read(self._master, 65536))
        return bool(ready)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    opened = Terminal()
    yield opened
    opened.close()


def selected(terminal: Terminal) -> str:
    """The line that is drawn in reverse."""
    rows = [row for row in range(ROWS) if terminal.screen.buffer[row][4].reverse]
    return terminal.lines[rows[0]] if rows else ""


def test_a_session_at_the_terminal(terminal: Terminal) -> None:
    """Runs are drawn, keys move and cancel, the supervisor's absence is only an interruption, and the terminal is as before afterwards."""
    lines = terminal.until(lambda lines: sum("agent-child" in line for line in lines) == 3)
    assert lines[0].startswith("runtree made up   4 runs live")
    assert "agent-root" in selected(terminal)
    terminal.press("\x1b[B")
    terminal.until(lambda _: "agent-child0" in selected(terminal))
    terminal.press("jj")
    terminal.until(lambda _: "agent-child2" in selected(terminal))
    terminal.press("c")
    lines = terminal.until(lambda lines: not any("agent-child2" in line for line in lines))
    terminal.until(lambda lines: "1 run ended by themselves" in lines[-1])
    terminal.press("e")
    terminal.until(lambda lines: any("agent-child2" in line and "cancelled" in line for line in lines))
    terminal.press("gC")
    terminal.until(lambda lines: lines[-1] == "cancel the whole tree of agent-root root? y/n")
    terminal.press("n")
    terminal.until(lambda lines: lines[-1].startswith("↑↓ move"))
    terminal.press("Cy")
    terminal.until(lambda lines: "0 runs live" in lines[0])
    terminal.resize(9)
    terminal.until(lambda lines: len(lines) == 9 and lines[-1] != "" and lines[0].startswith("runtree"))
    terminal.press("q")
    assert terminal.ended() == 0
    assert terminal.modes_now == terminal.mode
    assert any(line == "left" for line in terminal.lines)


def test_ctrl_c_leaves_and_the_terminal_is_as_before(terminal: Terminal) -> None:
    terminal.until(lambda lines: any("agent-root" in line for line in lines))
    terminal.press("\x03")
    assert terminal.ended() != 0
    assert terminal.modes_now == terminal.mode
    assert not terminal.screen.cursor.hidden


def test_without_ray_it_leaves_by_itself() -> None:
    """Ray would end the process a minute later, in raw mode."""
    terminal = Terminal("gone")
    try:
        assert terminal.ended() == 0
        assert any(line == "the Ray that was watched is gone" for line in terminal.lines)
        assert terminal.modes_now == terminal.mode
    finally:
        terminal.close()
