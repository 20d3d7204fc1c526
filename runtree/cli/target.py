"""TARGET of the command line: `module:attr` or `path.py:attr`, and the agent behind it."""

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import cloudpickle  # pyright: ignore[reportMissingTypeStubs]

from ..messages.errors import TargetError

if TYPE_CHECKING:
    from ..actors.agent.agent import Agent


def load_agent(target: str) -> "Agent":
    """Return the agent that a target names.

    Raises:
        TargetError: There is none; the message says what to write instead.
    """
    from ..actors.agent.agent import Agent

    source, colon, name = target.rpartition(":")
    if not colon or not source or not name:
        raise TargetError(
            f"TARGET {target!r}",
            "it has no colon between a module and an agent",
            "Write it as package.module:agent or path/to/file.py:agent",
        )
    before = set(sys.modules)
    module, folder = _import_file(target, source) if source.endswith(".py") else _import_module(target, source)
    _carry_by_value(before, folder)
    value: object = module
    for part in name.split("."):
        value = getattr(value, part, None)
    if isinstance(value, Agent):
        return value
    raise TargetError(
        f"TARGET {target!r}",
        f"{source} has no {name!r}" if value is None else f"{name!r} is a {type(value).__name__} and not an Agent",
        _offer(source, module, Agent),
    )


def _import_file(target: str, source: str) -> tuple[ModuleType, Path]:
    path = Path(source).expanduser().resolve()
    if not path.is_file():
        raise TargetError(f"TARGET {target!r}", f"there is no file {source}", "Check the path before the colon")
    # Like a script: what lies beside the file can be imported by its plain name.
    sys.path.insert(0, str(path.parent))
    name = path.stem if path.stem.isidentifier() and path.stem not in sys.modules else f"runtree_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise _broken(target, source, error) from error
    return module, path.parent


def _import_module(target: str, source: str) -> tuple[ModuleType, Path]:
    folder = Path.cwd()
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(source), folder
    except ModuleNotFoundError as error:
        if error.name is None or not f"{source}.".startswith(f"{error.name}."):
            raise _broken(target, source, error) from error
        raise TargetError(
            f"TARGET {target!r}",
            f"there is no module {error.name!r}",
            "Start in the folder that holds it, or name the file: path/to/file.py:agent",
        ) from error
    except (Exception, SystemExit) as error:
        raise _broken(target, source, error) from error


def _broken(target: str, source: str, error: BaseException) -> TargetError:
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    text = " ".join(str(error).split())
    return TargetError(
        f"TARGET {target!r}",
        f"importing {source} raised {type(error).__name__}: {text}{where}",
        "Repair the import",
    )


def _offer(source: str, module: ModuleType, agent_type: type) -> str:
    found = [name for name, value in vars(module).items() if isinstance(value, agent_type)]
    if not found:
        return f"{source} defines no agent: assign one at the top level, agent = runtree.Agent(...)"
    return "Agents found there: " + ", ".join(f"{source}:{name}" for name in found)


def _carry_by_value(before: set[str], folder: Path) -> None:
    """Let the target's own modules travel with the agent: actors may run where the target's folder is not."""
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file is None or name.partition(".")[0] == "runtree":
            continue
        path = Path(file).resolve()
        if path.is_relative_to(folder) and not {"site-packages", "dist-packages"} & set(path.parts):
            cloudpickle.register_pickle_by_value(sys.modules[name])  # pyright: ignore[reportUnknownMemberType]
