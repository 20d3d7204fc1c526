"""The files of the demonstration: which ones there are, how the lead is told, and the tool that reads one."""

from pathlib import Path
from typing import Final

from ..actors.agent.context import ToolContext
from ..actors.agent.tool import tool
from ..messages.errors import ConfigurationError, ToolError

DOCUMENTS: Final = Path(__file__).parent / "documents"
"""The folder of documents that come with runtree."""

_SUFFIXES: Final = frozenset({".md", ".txt", ".rst"})
_BULLET: Final = "- "
_READ_BYTES: Final = 6000  # what a small model's context holds beside its prompt and its answer


def list_files(folder: Path) -> list[str]:
    """Return the names of the text files of a folder.

    Raises:
        ConfigurationError: There is no such folder, or no such file in it.
    """
    if not folder.is_dir():
        raise ConfigurationError("--folder", f"there is no folder {folder}", "Name one that holds text files")
    names = sorted(path.name for path in folder.iterdir() if path.is_file() and path.suffix.lower() in _SUFFIXES)
    if not names:
        suffixes = ", ".join(sorted(_SUFFIXES))
        raise ConfigurationError("--folder", f"{folder} holds no file of type {suffixes}", "Name another folder")
    return names


def assignment_of(names: list[str]) -> str:
    """Return the lead's input: what to do, and the files."""
    return "\n".join(["Summarize each of these files and join the summaries.", *(_BULLET + name for name in names)])


def names_in(assignment: str) -> list[str]:
    """Return the files that an assignment lists."""
    return [line.removeprefix(_BULLET) for line in assignment.splitlines() if line.startswith(_BULLET)]


@tool(max_output=_READ_BYTES)
def read_file(name: str, context: ToolContext) -> str:
    """Read a file of the folder.

    Args:
        name: The file's name in the folder.
        context: Holds the folder.
    """
    folder = Path(str(context.deps))
    if Path(name).name != name:
        raise ToolError(f"{name!r} is not the name of a file in the folder")
    try:
        return (folder / name).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ToolError(f"{name} can't be read here: {error.strerror}") from error
