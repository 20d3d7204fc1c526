"""The example over a long text: its answers are those of the text, which no model has seen as a whole."""

import dataclasses
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType

import pytest

from runtree import ReplPolicy, Runtime
from runtree.actors.repl.session import ReplSession
from runtree.messages.result import RunResult
from runtree.providers.scripted import ScriptedModel
from tests.kit.host import MemoryTree

FILE = Path(__file__).resolve().parent.parent / "examples" / "long_text.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("runtree_example_long_text", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def documented(thing: object, beginning: str) -> str:
    """Return the sentence of a docstring that begins so."""
    words = " ".join((inspect.getdoc(thing) or "").split())
    start = words.index(beginning)
    return words[start : words.index(". ", start) + 1]


async def asked(example: ModuleType, text: str, *questions: str) -> tuple[RunResult, MemoryTree]:
    tree = MemoryTree(example.make_agent(), variables={"context": text})
    return await tree.execute("\n".join(questions)), tree


async def test_the_answers_are_those_of_the_text(example: ModuleType) -> None:
    text = example.collect_text()
    assert len(text) > 200_000
    result, tree = await asked(example, text, *example.QUESTIONS)
    warm = documented(Runtime.__init__, "warm_idle_seconds:")
    assert result.output.splitlines() == [
        f"actors/repl/session.py: {documented(ReplSession, 'A cell that is stopped')}",
        f"providers/scripted.py: {documented(ScriptedModel, 'A pickled copy')}",
        f"actors/runtime.py: {warm}",
    ]
    told = sum(len(message.model_dump_json()) for message in result.messages)
    assert told < 20_000, "the text itself went through the model"
    assert [item.data["answered"] for item in tree.of("custom") if item.name == "repl_cell"] == [False, False, True]
    begun, ended = (
        [item for item in tree.of("repl_call") if item.phase == phase] for phase in ("started", "completed")
    )
    assert len(begun) == len(ended) == 16 * 3 + 3
    assert {item.outcome for item in ended} == {"ok"}


@pytest.mark.parametrize("place", [0.0, 0.37, 1.0])
async def test_what_is_hidden_in_the_text_is_found_wherever_it_is(example: ModuleType, place: float) -> None:
    """A number that stands nowhere else can only come from the text."""
    files = example.collect_text().split("\n=== ")[1:]
    files.insert(round(place * len(files)), "hidden.py ===\n\nThe lighthouse keeper counted 4711 herons in winter.\n")
    text = "".join(f"\n=== {file}" for file in files)
    result, _ = await asked(example, text, "How many herons were counted by the lighthouse keeper?", "Who is Zebulon?")
    assert result.output == "hidden.py: The lighthouse keeper counted 4711 herons in winter.\nNOTHING"


async def test_a_program_that_was_stopped_says_so(example: ModuleType) -> None:
    agent = dataclasses.replace(example.make_agent(), repl=ReplPolicy(model_calls=3))
    tree = MemoryTree(agent, variables={"context": example.collect_text()})
    result = await tree.execute(example.QUESTIONS[0])
    assert "NameError: name 'notes' is not defined" in result.output
    assert not [item for item in tree.of("repl_call") if item.outcome == "ok"]


@pytest.mark.usefixtures("ray_cluster")
def test_the_example_runs_and_shows_its_tree(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    question = "Does a cell that is stopped leave a trace in the variables?"
    monkeypatch.setattr(sys, "argv", [str(FILE), question])
    with pytest.raises(SystemExit) as ended:
        exec(compile(FILE.read_text(), str(FILE), "exec"), {"__name__": "__main__", "__file__": str(FILE)})  # noqa: S102
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    answer = f"actors/repl/session.py: {documented(ReplSession, 'A cell that is stopped')}"
    assert f"\n{answer}\n" in printed
    assert "cell 2: model_query ok after" in printed
    assert "] cell 3 answered after" in printed
    assert '] reading: {"pieces":16}' in printed
