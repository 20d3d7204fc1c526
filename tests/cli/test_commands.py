"""The commands: their exit codes, and what stands on stdout and stderr. No Ray is started here."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from runtree.cli.cancel import report_lines
from runtree.cli.ps import in_tree_order, table_of
from runtree.messages import CancelReport, RunInfo, Usage, stream_schema
from runtree.messages.version import VERSION

from .conftest import Command

FILE = Path(__file__).with_name("agents_file.py")
ROOT = Path(__file__).resolve().parents[2]


def test_version(runtree: Command) -> None:
    done = runtree("--version")
    assert (done.returncode, done.stdout) == (0, f"runtree {VERSION}\n")


def test_help_names_every_command() -> None:
    """A process of its own shows that the entry point works, and that help is quick: it imports next to nothing."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "runtree", "--help"],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0
    for command in ("run", "ps", "cancel", "schema", "demo", "down", "models", "wirecheck"):
        assert f"\n  {command} " in done.stdout
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not {"ray", "httpx", "runtree.messages"} & imported


def test_schema_is_json_alone(runtree: Command) -> None:
    done = runtree("schema")
    assert done.returncode == 0
    assert json.loads(done.stdout) == json.loads(json.dumps(stream_schema()))


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("run", "nowhere.py:agent", "hi"), "there is no file nowhere.py"),
        (("run", f"{FILE}:echo", "hi", "--max-cost", "free"), "--max-cost: 'free' is refused"),
        (("run", f"{FILE}:echo", "hi", "--model", "acme:x"), "unknown prefix 'acme'"),
        (("run", f"{FILE}:clerk", "tea"), "INPUT: it: Invalid JSON"),
        (("ps", "--address", "ray://head:10001"), "Ray Client can't carry the streams"),
        (("ps", "--address", "127.0.0.1:1"), "no Ray answers there"),
        (("demo", "--folder", "/nowhere/at/all"), "--folder: there is no folder"),
        (("demo", "--model", "acme:x"), "unknown prefix 'acme'"),
        (("models", "pull", "gpt"), "no local model of this name. Known: smollm2"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else "",
)
def test_bad_input_is_one_line_with_the_fix_and_exit_code_2(
    runtree: Command, arguments: tuple[str, ...], words: str
) -> None:
    done = runtree(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    line = done.stderr.strip()
    assert line.startswith("error: ")
    assert "\n" not in line
    assert words in line


@pytest.mark.parametrize(
    "arguments", [("run",), ("cancel",), ("bogus",), ("run", f"{FILE}:echo", "hi", "--grace", "-1")]
)
def test_usage_errors_are_exit_code_2(runtree: Command, arguments: tuple[str, ...]) -> None:
    assert runtree(*arguments).returncode == 2


def test_the_demonstration_without_weights_says_what_to_do(
    runtree: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNTREE_CACHE", str(tmp_path))
    done = runtree("demo")
    assert done.returncode == 2
    assert done.stderr.startswith("error: model local:smollm2")
    assert "runtree models pull smollm2" in done.stderr
    assert "--model scripted" in done.stderr
    assert done.stderr.count("\n") == 1


def test_models_list_says_where_weights_are(runtree: Command) -> None:
    done = runtree("models", "list")
    assert done.returncode == 0
    assert done.stdout.startswith("smollm2  ")


def _info(run_id: str, parent: str | None, depth: int, **fields: object) -> RunInfo:
    base = {"run_id": run_id, "parent_run_id": parent, "root_run_id": "a", "depth": depth, "agent": f"agent-{run_id}"}
    return RunInfo.model_validate({**base, "status": "running", "started": 100.0, **fields})


def test_ps_lists_parents_before_their_children() -> None:
    runs = [_info("c", "a", 1), _info("d", "lost", 3), _info("a", None, 0), _info("b", "a", 1), _info("bb", "b", 2)]
    assert [info.run_id for info in in_tree_order(runs)] == ["a", "b", "bb", "c", "d"]


def test_ps_as_a_table() -> None:
    runs = [
        _info("a", None, 0, total_usage=Usage(precision="unknown"), driver="host:7"),
        _info("b", "a", 1, cancelling=True),
        _info("c", "a", 1, status="completed", ended=160.0),
    ]
    console = Console(width=120, record=True, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    with console.file:
        console.print(table_of(runs, now=130.0))
    lines = [line.rstrip() for line in console.export_text().splitlines()]
    started = datetime.fromtimestamp(100.0, UTC).astimezone().strftime("%m-%d %H:%M:%S")
    assert lines == [
        "RUN  AGENT      STATE       TOKENS  COST        TIME  STARTED         DRIVER",
        f"a    agent-a    running          ?    $0      30.0 s  {started}  host:7",
        f"b      agent-b  cancelling       0    $0      30.0 s  {started}",
        f"c      agent-c  completed        0    $0  1 min 00 s  {started}",
    ]


def test_a_cancel_says_how_each_run_ended() -> None:
    report = CancelReport(
        run_id="a", was_live=True, cancelled=("b", "a"), killed=("c",), unreachable=("d",), elapsed=2.04
    )
    assert report_lines(report) == [
        "cancelled a in 2.0 s",
        "  2 runs ended by themselves",
        "    b",
        "    a",
        "  1 run killed after their grace",
        "    c",
        "  1 run not heard of: their end is not known",
        "    d",
    ]
