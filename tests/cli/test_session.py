"""Runs from the command line on a real Ray: streams, exit codes, Ctrl-C, and another driver's ps and cancel."""

import asyncio
import json
import os
import shutil
import signal
import threading
from pathlib import Path

import pytest

from runtree import Agent, Runtime
from runtree.demo import DOCUMENTS, list_files
from runtree.messages import RunStarted
from runtree.messages.overview import NamespaceView
from runtree.providers.scripted import Hang, ScriptedModel

from .conftest import Command

pytestmark = pytest.mark.usefixtures("ray_cluster")

FILE = Path(__file__).with_name("agents_file.py")

WAITING = """
import asyncio, pathlib
from runtree import Agent, tool
from runtree.providers.scripted import ScriptedModel, tool_call

@tool
async def wait(path: str) -> str:
    \"\"\"Say that it waits, and wait.\"\"\"
    pathlib.Path(path).touch()
    await asyncio.sleep(3600)
    return "never"

agent = Agent(name="waiter", model=ScriptedModel([[tool_call("wait", {"path": "%s"})]]), tools=[wait])
"""


def test_a_run_as_json_is_its_stream_and_nothing_else(runtree: Command) -> None:
    done = runtree("run", f"{FILE}:lead", "go", "--json")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert (rows[0]["kind"], rows[0]["agent"]) == ("run_started", "lead")
    assert (rows[-1]["kind"], rows[-1]["output"]) == ("run_completed", "joined")
    assert {row["kind"] for row in rows if row["depth"] == 1} >= {"run_completed", "run_failed"}
    assert "3 runs" in done.stderr


def test_a_run_as_lines(runtree: Command) -> None:
    done = runtree("run", f"{FILE}:echo", "go")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    prefix = lines[0].removesuffix("started on scripted")
    assert prefix.startswith("[echo ")
    assert lines[1:3] == [f"{prefix}| said", f"{prefix}| done"]
    assert lines[3].startswith(f"{prefix}completed (tokens ~")
    assert lines[4:-2] == ["", "said", "done"]
    assert lines[-1].startswith("1 run · 1 model call · ~")
    assert "cost unknown" in lines[-1], "nobody knows the price of a scripted model, and unknown is not zero"


def test_a_failed_run_is_exit_code_1(runtree: Command) -> None:
    done = runtree("run", f"{FILE}:broken", "go")
    assert done.returncode == 1
    assert "error: the script of model 'scripted' has 0 turns" in done.stderr


def test_the_model_can_be_another(runtree: Command) -> None:
    done = runtree("run", f"{FILE}:echo", "go", "--model", "local:unknown")
    assert done.returncode == 2
    assert "no local model of this name" in done.stderr


def test_c10_ctrl_c_cancels_once_prints_what_was_spent_and_exits_130(runtree: Command, tmp_path: Path) -> None:
    """C10: and nothing of the tree is left."""
    waits = tmp_path / "waits"
    (tmp_path / "waiting_agent.py").write_text(WAITING % waits)
    stop = threading.Event()

    def interrupt() -> None:
        while not waits.exists():
            if stop.wait(0.02):
                return
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        done = runtree("run", f"{tmp_path}/waiting_agent.py:agent", "go")
    finally:
        stop.set()
        thread.join()
    assert done.returncode == 130, done.stderr
    assert "cancelling; Ctrl-C again leaves at once" in done.stderr
    assert "cancelled: interrupted" in done.stderr
    assert done.stdout.splitlines()[-1].startswith("1 run · 1 model call · ~")
    assert runtree("ps").stdout == ""


async def test_another_command_sees_and_cancels_a_run(runtree: Command) -> None:
    """C09: a second cancel finds nothing live."""
    agent = Agent(name="thinker", model=ScriptedModel([["I think", Hang()]]))
    async with Runtime() as runtime:
        run = await runtime.start(agent, "go")
        first = await anext(aiter(run))
        assert isinstance(first, RunStarted)
        listed = await asyncio.to_thread(runtree, "ps", "--json")
        assert [json.loads(line)["run_id"] for line in listed.stdout.splitlines()] == [run.run_id]
        assert "thinker" in (await asyncio.to_thread(runtree, "ps")).stdout
        seen = NamespaceView.from_json((await asyncio.to_thread(runtree, "top", "--json")).stdout)
        assert [(info.run_id, info.model, info.status) for info in seen.runs] == [(run.run_id, "scripted", "running")]
        assert 0 < seen.runs[0].progress <= seen.time
        shown = (await asyncio.to_thread(runtree, "top", "--once")).stdout.splitlines()
        assert shown[0].startswith("runtree runtree   1 run live")
        assert shown[2].split()[:4] == ["●", "thinker", run.run_id, "running"]
        done = await asyncio.to_thread(runtree, "cancel", run.run_id[-6:].lower(), "--reason", "enough")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"cancelled {run.run_id} in ")
        result = await run.outcome()
        assert result.status == "cancelled"
        again = await asyncio.to_thread(runtree, "cancel", run.run_id)
        assert again.returncode == 1
        assert f"no live run {run.run_id}" in again.stderr


def test_the_demonstration_with_a_scripted_model(runtree: Command, tmp_path: Path) -> None:
    (tmp_path / "one.md").write_text("# One\n\nThe first text. It goes on.\n")
    (tmp_path / "two.txt").write_text("The second text.\n")
    done = runtree("demo", "--model", "scripted", "--folder", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(
        "one.md: [scripted, first sentence] The first text.\n\n"
        "two.txt: [scripted, first sentence] The second text.\n\n" + done.stdout.splitlines()[-1] + "\n"
    )
    assert "3 runs · 6 model calls" in done.stdout.splitlines()[-1]


@pytest.mark.local_model
@pytest.mark.timeout(600)
def test_the_demonstration_on_a_real_model(runtree: Command, tmp_path: Path) -> None:
    """The main job, end to end: some files, a sub-agent for each, and the words of a language model on this machine."""
    weights = pytest.importorskip("runtree.providers.local.weights")
    pytest.importorskip("xllamacpp", reason="NOT RUN: xllamacpp is not installed (pip install 'runtree[local]')")
    if weights.find("smollm2") is None:
        pytest.skip("NOT RUN: no weights of smollm2 here (runtree models pull smollm2)")
    names = list(list_files(DOCUMENTS))[:3]
    for name in names:
        shutil.copy(DOCUMENTS / name, tmp_path)
    done = runtree("demo", "--folder", str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    output = rows[-1]["output"]
    for name in names:
        assert f"{name}: " in output
    assert "no summary" not in output
    said = [row for row in rows if row["kind"] == "run_completed" and row["depth"] == 1]
    assert len(said) == len(names)
    assert all(len(row["output"]) > 20 and row["usage"]["output_tokens"] > 5 for row in said)
    assert any(row["kind"] == "model_delta" and row["depth"] == 1 for row in rows), "it streams"
