"""What stands on stdout: results, and nothing that anybody else prints."""

import sys

import pytest

from runtree.cli.output import own_stdout, stdout, write


def test_what_others_print_does_not_mix_with_results(capsys: pytest.CaptureFixture[str]) -> None:
    """Ray prints remarks on worker processes to a driver's stdout, which would break `--json`."""
    with own_stdout():
        sys.stdout.write("\x1b[33m(raylet)\x1b[0m A worker died or was killed\n")
        sys.stdout.write("somebody else\n")
        write("a result")
    captured = capsys.readouterr()
    assert captured.out == "a result\n"
    assert captured.err == "somebody else\n"
    assert stdout() is sys.stdout
