"""The face: every public name, from one place, and quick to import."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import runtree

SOURCE = ast.parse(Path(str(runtree.__file__)).read_text())


def _names_for_checkers() -> dict[str, str]:
    block = next(node for node in SOURCE.body if isinstance(node, ast.If))
    return {
        alias.asname or alias.name: str(node.module)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_type_checkers_and_the_interpreter_see_the_same_names() -> None:
    names = _names_for_checkers()
    assert set(names) == set(runtree.__all__)
    for name, module in names.items():
        assert runtree._HOMES.get(name, "messages.errors") == module


def test_public_names_are_the_things_themselves() -> None:
    for name, module in _names_for_checkers().items():
        found = vars(importlib.import_module(f"runtree.{module}"))
        assert getattr(runtree, name) is found[{"__version__": "VERSION"}.get(name, name)]
        assert name in dir(runtree)


def test_unknown_names_are_attribute_errors() -> None:
    assert not hasattr(runtree, "Runtimes")


def test_importing_the_face_imports_neither_ray_nor_pydantic() -> None:
    code = "import sys, runtree; print([name for name in ('ray', 'pydantic', 'httpx') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "[]"
