"""Promises of the repository itself: its layout, what its wheel holds, its names and its errors."""

import ast
import importlib
import inspect
import os
import pickle
import pkgutil
import re
import shutil
import subprocess
import sys
import tomllib
import types
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from pydantic import BaseModel

import runtree
from runtree.messages.errors import RuntreeError
from runtree.messages.version import VERSION

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("actors", "messages", "providers")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
CODE = sorted({path.resolve() for room in (*ROOMS, "runtree") for path in (ROOT / room).rglob("*.py")})
PROSE = [path for folder in (ROOT, ROOT / "docs") for path in folder.glob("*.md")]


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


# Layout


def test_links_agree_with_the_package_mapping() -> None:
    mapping: dict[str, str] = PROJECT["tool"]["setuptools"]["package-dir"]
    assert mapping == {"runtree": "runtree", **{f"runtree.{room}": room for room in ROOMS}}
    for room in ROOMS:
        link = ROOT / "runtree" / room
        assert link.is_symlink(), f"{link} must be a link: git config core.symlinks true, then check out again"
        assert os.readlink(link) == f"../{room}"


def test_every_folder_of_code_is_a_listed_package() -> None:
    listed = set(PROJECT["tool"]["setuptools"]["packages"])
    found = {
        ".".join(parts if parts[0] == "runtree" else ("runtree", *parts))
        for parts in {path.parent.relative_to(ROOT).parts for path in CODE}
    }
    assert found == listed


def test_version_is_written_once(wheel: Path) -> None:
    assert "version" in PROJECT["project"]["dynamic"]
    assert runtree.__version__ == VERSION == wheel.name.split("-")[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built by way of the source distribution from a copy, so that no build folder is left or reused."""
    source = tmp_path_factory.mktemp("source")
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in (*ROOMS, "runtree", "tests"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignore)
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, source)
    built = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", built, source],
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return next(built.glob("*.whl"))


def test_wheel_holds_every_module_under_one_name(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    modules = {name for name in names if name.endswith(".py")}
    expected = {_name(path) if path.is_relative_to(ROOT / "runtree") else f"runtree/{_name(path)}" for path in CODE}
    assert modules == expected
    assert {name.split("/")[0] for name in names} == {"runtree", f"runtree-{VERSION}.dist-info"}


def test_wheel_holds_its_data_files(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    documents = {_name(path) for path in (ROOT / "runtree" / "demo").rglob("*.md")}
    assert {"runtree/py.typed", *documents} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)


# Code


def test_no_file_is_longer_than_400_lines() -> None:
    long = {_name(path): count for path in CODE if (count := len(path.read_text().splitlines())) > 400}
    assert not long


def test_no_module_is_named_after_nothing() -> None:
    vague = {"util", "utils", "helper", "helpers", "common", "misc", "manager"}
    assert not [_name(path) for path in CODE if vague & set(path.stem.strip("_").split("_"))]


def test_rooms_import_each_other_relatively() -> None:
    absolute = [
        f"{_name(path)}: {name}"
        for path in CODE
        if path.relative_to(ROOT).parts[0] in ROOMS
        for node in ast.walk(ast.parse(path.read_text()))
        for name in _imported(node)
        if name.split(".")[0] in ("runtree", *ROOMS)
    ]
    assert not absolute, "these bind a room to how it was found; write `from ..messages import …`"


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        return [node.module]
    return []


@pytest.mark.parametrize(
    "words, why",
    [
        pytest.param(r"cancel(ed|ing|ation)\b", "two l's", id="spelling"),
        pytest.param(r"\b(TODO|FIXME|XXX)\b", "do it, or say in an issue what is left", id="loose-ends"),
        pytest.param(r"(?<![\w.~])/(root|Users|work(space)?)/", "a path of one machine", id="machine-paths"),
        pytest.param(r"\b(as an ai|chat ?gpt|copilot)\b", "say what it does", id="assistants"),
    ],
)
def test_words_that_stay_out(words: str, why: str) -> None:
    pattern = re.compile(words, re.IGNORECASE)
    hits = [
        f"{_name(path)}:{number}: {line.strip()}"
        for path in (*CODE, *PROSE)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if pattern.search(line)
    ]
    assert not hits, why


def test_imports_point_one_way() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [tool, "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr


# Names


def _isort_order(name: str) -> tuple[bool, bool, str]:
    """Constants, then classes, then the rest: the order that ruff's RUF022 keeps."""
    return (not name.isupper(), not name[0].isupper(), name)


def test_public_names_exist_and_are_sorted() -> None:
    names = list(runtree.__all__)
    assert not [name for name in names if not hasattr(runtree, name)]
    assert names == sorted(set(names), key=_isort_order)


# Errors


def _every_error() -> list[type[RuntreeError]]:
    for module in pkgutil.walk_packages(runtree.__path__, "runtree."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return sorted(set(_subclasses(RuntreeError)), key=lambda error: (error.__module__, error.__qualname__))


def _subclasses(error: type[RuntreeError]) -> Iterator[type[RuntreeError]]:
    yield error
    for child in error.__subclasses__():
        if child.__module__.startswith("runtree."):
            yield from _subclasses(child)


_SAMPLES: dict[Any, Callable[[], object]] = {
    str: lambda: "sample",
    int: lambda: 3,
    float: lambda: 1.5,
    bool: lambda: True,
    bytes: lambda: b"sample",
    Decimal: lambda: Decimal("2.50"),
    object: lambda: "sample",
    Any: lambda: "sample",
    type(None): lambda: None,
    Exception: lambda: ValueError("sample"),
    BaseException: lambda: ValueError("sample"),
}


def _sample(hint: Any) -> object:
    """A value of an annotated type, enough for the arguments of an error."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _SAMPLES:
        return _SAMPLES[hint]()
    if hasattr(hint, "__supertype__"):
        return hint(_sample(hint.__supertype__))
    if hasattr(hint, "__value__"):
        return _sample(hint.__value__)
    if origin is Literal:
        return arguments[0]
    if origin in (Union, types.UnionType):
        return _sample(arguments[0])
    if hasattr(hint, "__metadata__"):
        return _sample(arguments[0])
    if inspect.isclass(hint) and issubclass(hint, Enum):
        return next(iter(hint))
    if inspect.isclass(hint) and issubclass(hint, BaseModel):
        required = {name: field for name, field in hint.model_fields.items() if field.is_required()}
        return hint.model_validate({field.alias or name: _sample(field.annotation) for name, field in required.items()})
    if inspect.isclass(origin) and issubclass(origin, Mapping):
        return {}
    if inspect.isclass(origin) and issubclass(origin, Sequence):
        return (_sample(arguments[0]),)
    raise AssertionError(f"no sample for {hint!r}: add one to _SAMPLES")


def _construct(error: type[RuntreeError]) -> RuntreeError:
    if "__init__" not in {
        name for base in takewhile(lambda base: base is not Exception, error.__mro__) for name in vars(base)
    }:
        return error("sample")
    # Errors name some types only for type checkers, to keep their module at the bottom of the imports.
    words = {
        name: word
        for key, module in sys.modules.items()
        if key.startswith("runtree.messages.")
        for name, word in vars(module).items()
    }
    hints = get_type_hints(error.__init__, localns=words)
    positional: list[object] = []
    named: dict[str, object] = {}
    for name, parameter in inspect.signature(error).parameters.items():
        value = _sample(hints.get(name, str))
        if parameter.kind is parameter.KEYWORD_ONLY:
            named[name] = value
        else:
            positional.append(value)
    return error(*positional, **named)


def test_errors_survive_pickle() -> None:
    """Ray carries errors by pickle; `args` is all that reaches the other side."""
    for error in _every_error():
        original = _construct(error)
        copy = pickle.loads(pickle.dumps(original))
        assert type(copy) is error
        assert (copy.args, str(copy), vars(copy)) == (original.args, str(original), vars(original)), error
        assert str(original), f"{error} says nothing"
