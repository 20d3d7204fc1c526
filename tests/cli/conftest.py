"""Commands as tests call them."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from runtree.cli import main


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str


Command = Callable[..., Done]


@pytest.fixture
def runtree(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """Run the command in this process, which has imported everything already."""

    def call(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["runtree", *arguments])
        monkeypatch.setenv("COLUMNS", "100")
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        written = capfd.readouterr()
        return Done(code if isinstance(code, int) else 0, written.out, written.err)

    return call
