"""README and docs keep their word: their programs run, their tables and commands are those of the code."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from runtree import PlainHost, ReplPolicy, ReplSession
from runtree.actors.repl.functions import RESERVED
from runtree.cli.app import app
from runtree.messages import DELTA_KINDS, ITEM_TYPES, Item
from runtree.providers.registry import register_model, registered

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text()
REPL = (ROOT / "docs" / "repl.md").read_text()
PROGRAM = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROGRAMS = PROGRAM.findall(TEXT)
REPL_PRINTS = (
    (
        "['red', 'blue'] 3\n ('parts', 'replies', 'total')\n"
        "[('model_query_batched', 'ok'), ('model_query_batched', 'ok'), ('tool_call', 'ok'), ('tool_call', 'ok')]\n2\n"
    ),
    "cell_time begun\n\n1\nthe cell was stopped: enough.\n",
    "285\n",
)
"""What the programs of `docs/repl.md` print."""


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
    if "repl=" in source:
        assert printed == "50000 days. It is done.\n"


@pytest.mark.parametrize("source, printed", [*zip(PROGRAM.findall(REPL), REPL_PRINTS, strict=True)])
def test_programs_of_the_repl_run(source: str, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(source, "docs/repl.md", "exec"), {"__name__": "__main__"})  # noqa: S102
    assert capsys.readouterr().out == printed


async def test_e12_the_modules_of_the_sandbox_are_those_that_are_named() -> None:
    def named(beginning: str) -> set[str]:
        (line,) = (line for line in REPL.splitlines() if line.startswith(beginning))
        return set(re.findall(r"`(\w+)`", line))

    can, cannot = named("Modules that can be"), named("Modules that can't")
    assert len(can) > 20
    assert len(cannot) > 10
    async with ReplSession(PlainHost(), policy=ReplPolicy(cells=len(can | cannot))) as session:
        imported = {name for name in can | cannot if (await session.eval_cell(f"import {name}")).error is None}
    assert imported == can


def test_e4_the_table_of_bounds_is_that_of_the_policy() -> None:
    def shown(name: str, default: float) -> str:
        if name.endswith("_bytes"):
            kib = int(default) // 1024
            return f"{kib} KiB" if kib <= 256 else f"{kib // 1024} MiB"
        return f"{default:g} s" if name.endswith("_time") else f"{default:g}"

    rows = dict(re.findall(r"^\| `(\w+)` \| (\d+[ \w]*) \|", REPL, re.MULTILINE))
    assert rows == {
        name: shown(name, field.default)
        for name, field in ReplPolicy.model_fields.items()
        if name not in ("use", "prompt")
    }


def test_e1_the_table_of_functions_is_that_of_the_cells() -> None:
    assert set(re.findall(r"^\| `(?:await )?(\w+)\(", REPL, re.MULTILINE)) == RESERVED


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


@pytest.mark.parametrize(
    "path", [*re.findall(r"(?:scripts|examples|docs|\.ci|benchmarks)/[\w.]*", TEXT + REPL), "cluster.yaml"]
)
def test_files_exist(path: str) -> None:
    assert (ROOT / path).exists()
