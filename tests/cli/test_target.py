"""TARGET: what it may be, and one line with the fix for everything else ("wrong TARGET")."""

import sys
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pytest

from runtree.cli.run import make_limits, read_input, read_variables
from runtree.cli.target import load_agent
from runtree.messages import ConfigurationError, Limits, TargetError

FILE = Path(__file__).with_name("agents_file.py")


@pytest.fixture(autouse=True)
def own_imports() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    registered = set(cloudpickle.list_registry_pickle_by_value())
    yield
    sys.path[:] = path
    for name in cloudpickle.list_registry_pickle_by_value() - registered:
        cloudpickle.unregister_pickle_by_value(sys.modules[name])
    for name in set(sys.modules) - modules:
        if getattr(sys.modules[name], "__file__", None) == str(FILE) or name.startswith("user_"):
            del sys.modules[name]


def test_an_agent_of_a_file() -> None:
    agent = load_agent(f"{FILE}:lead")
    assert agent.name == "lead"
    module = type(load_agent(f"{FILE}:clerk").input_type).__module__
    assert module
    assert "agents_file" in cloudpickle.list_registry_pickle_by_value(), "it travels to actors by value"


def test_an_agent_of_a_module() -> None:
    assert load_agent("tests.cli.agents_file:echo").name == "echo"


def test_a_file_may_import_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "user_models.py").write_text("NAME = 'found'")
    (tmp_path / "user_agents.py").write_text(
        "from runtree import Agent\nimport user_models\na = Agent(name=user_models.NAME, model='local:smollm2')\n"
    )
    assert load_agent(f"{tmp_path}/user_agents.py:a").name == "found"
    assert {"user_models", "user_agents"} <= set(cloudpickle.list_registry_pickle_by_value())


@pytest.mark.parametrize(
    "target, words",
    [
        ("no_colon", ["no colon", "package.module:agent"]),
        ("module:", ["no colon"]),
        (":agent", ["no colon"]),
        ("nowhere.py:agent", ["there is no file nowhere.py"]),
        ("user_no_such.module:agent", ["there is no module 'user_no_such'"]),
        (f"{FILE}:nobody", ["has no 'nobody'", f"{FILE}:echo", f"{FILE}:lead"]),
        (f"{FILE}:number", ["'number' is a int and not an Agent", ":clerk"]),
        ("json:dumps", ["'dumps' is a function", "defines no agent"]),
    ],
)
def test_a_wrong_target_says_what_to_write(target: str, words: list[str]) -> None:
    with pytest.raises(TargetError) as caught:
        load_agent(target)
    text = str(caught.value)
    assert "\n" not in text
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    "source, words",
    [
        ("1/0", "raised ZeroDivisionError: division by zero at "),
        ("import user_missing_module", "raised ModuleNotFoundError: No module named 'user_missing_module'"),
        ("raise SystemExit(3)", "raised SystemExit: 3"),
        ("def (", "raised SyntaxError"),
    ],
)
def test_a_target_that_breaks_while_it_is_imported(tmp_path: Path, source: str, words: str) -> None:
    (tmp_path / "user_broken.py").write_text(source)
    with pytest.raises(TargetError, match="Repair the import") as caught:
        load_agent(f"{tmp_path}/user_broken.py:agent")
    assert words in str(caught.value)


def test_limits_of_the_command_line() -> None:
    assert make_limits(max_cost="2.50", max_runs=None) == Limits.model_validate({"max_cost": "2.50"})
    with pytest.raises(ConfigurationError, match=r"--max-cost: '-1' is refused: .*"):
        make_limits(max_cost="-1")
    with pytest.raises(ConfigurationError, match="--max-model-calls"):
        make_limits(max_model_calls=0)


def test_input_is_text_or_json_of_the_input_type() -> None:
    assert read_input(load_agent(f"{FILE}:echo"), "just text") == "just text"
    clerk = load_agent(f"{FILE}:clerk")
    assert read_input(clerk, '{"item": "tea", "count": 2}').count == 2
    with pytest.raises(ConfigurationError, match="INPUT: count: Field required"):
        read_input(clerk, '{"item": "tea"}')
    with pytest.raises(ConfigurationError, match="INPUT: it: Invalid JSON"):
        read_input(clerk, "tea")


def test_variables_of_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("ä=b", encoding="utf-8")
    (tmp_path / "image").write_bytes(b"\xff\xfe\xff")
    assert read_variables(()) == {}
    assert read_variables([f"context={tmp_path / 'book.txt'}"]) == {"context": "ä=b"}
    for given, problem in (
        ("context", "names no file"),
        ("context=", "names no file"),
        (f"context={tmp_path / 'none'}", "--variable context: .*can't be read"),
        (f"context={tmp_path / 'image'}", "can't be read"),
    ):
        with pytest.raises(ConfigurationError, match=problem):
            read_variables([given])
