"""The README keeps its word: its programs run, its tables and commands are those of the code."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from runtree.cli.app import app
from runtree.messages import DELTA_KINDS, ITEM_TYPES, Item
from runtree.providers.registry import register_model, registered

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture
def without_key() -> Iterator[None]:
    """Let a scripted model answer for `openai:`, here and in the actors."""
    path = registered()["openai"]
    register_model("openai", "tests.readme_models:make")
    yield
    register_model("openai", path)


@pytest.mark.usefixtures("ray_cluster", "without_key")
@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_programs_run(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    source = PROGRAMS[number]
    exec(compile(source, f"README.md, program {number}", "exec"), {"__name__": "__main__"})  # noqa: S102
    printed = capsys.readouterr().out
    assert bool(printed) == ("print(" in source)
    if "output_type=Weather" in source:
        assert "Weather(city='Lima', degrees=24.5)" in printed


def test_the_table_of_the_stream_is_that_of_the_items() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| `([\w, ]+)` \|$", TEXT, re.MULTILINE))
    stamp = {*Item.model_fields, "kind"}
    assert {kind: set(fields.split(", ")) for kind, fields in rows.items()} == {
        kind: set(item.model_fields) - stamp for kind, item in ITEM_TYPES.items()
    }
    assert set(rows) > DELTA_KINDS


def test_commands_exist() -> None:
    commands = getattr(get_command(app), "commands")  # noqa: B009
    lines = re.findall(r"^    runtree (.*)$", TEXT, re.MULTILINE)
    assert len(lines) > 8
    for line in lines:
        words = shlex.split(line, comments=True)
        assert words[0] in commands, line
    assert set(commands) == {shlex.split(line, comments=True)[0] for line in lines}


@pytest.mark.parametrize("path", [*re.findall(r"(?:scripts|examples|\.ci|benchmarks)/[\w.]*", TEXT), "cluster.yaml"])
def test_files_exist(path: str) -> None:
    assert (ROOT / path).exists()
