"""Events between the processes of a test: files in a folder, which exist once the event has happened."""

from dataclasses import dataclass
from pathlib import Path

from .eventually import eventually


@dataclass(frozen=True)
class Gates:
    """Named events; travels to other processes by value."""

    folder: Path

    def open(self, name: str, content: object = "") -> None:
        """Lets whoever waits for the name go on."""
        unready = self.folder / f".{name}"
        unready.write_text(str(content))
        unready.rename(self.folder / name)

    def is_open(self, name: str) -> bool:
        """Whether it has happened."""
        return (self.folder / name).exists()

    def content(self, name: str) -> str:
        """What was written when it happened."""
        return (self.folder / name).read_text()

    def names(self, prefix: str) -> list[str]:
        """What has happened whose name begins so."""
        return sorted(path.name for path in self.folder.iterdir() if path.name.startswith(prefix))

    async def passed(self, name: str, limit: float = 60.0) -> str:
        """Waits for it and returns what was written."""
        await eventually(lambda: self.is_open(name), limit)
        return self.content(name)
