"""The files through which the server of a model and its users find each other on a node."""

import json
import os
import signal
import stat
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from . import weights
from .errors import LocalServerError
from .lock import is_locked


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where the server of this node listens, on loopback."""

    base_url: str
    """Root of its OpenAI-compatible routes."""
    api_key: str = field(repr=False)
    """The bearer token it wants."""


class ServerFiles:
    """The shared files of one model's server; `server_main` says what each is for."""

    def __init__(self, name: str) -> None:
        known = weights.known(name)
        self.name = name
        self.label = f"model 'local:{name}'"
        self.folder = _runtime_dir()
        self.stem = f"{name}-{known.sha256[:8]}"
        self.start, self.lease = self._path("lock"), self._path("lease")
        self.log = weights.cache_dir() / "logs" / f"{self.stem}.log"

    def alive(self) -> bool:
        """Tell whether a server lives, be it only starting."""
        return is_locked(self._path("alive"))

    def address(self) -> ServerAddress | None:
        """Return what the living server published; None if there is none or it doesn't listen yet."""
        if not self.alive():
            return None
        try:
            state = json.loads(self._path("json").read_bytes())
            return ServerAddress(base_url=state["base_url"], api_key=state["api_key"])
        except (OSError, ValueError, KeyError):
            return None

    def kill(self) -> None:
        """End a server that lives but is no use."""
        if not self.alive():
            return
        try:
            os.kill(int(self._path("alive").read_text()), signal.SIGKILL)
        except (OSError, ValueError):
            pass

    def failure(self, problem: str) -> LocalServerError:
        """Return the error for a server that does not start, with the last lines of its log."""
        return LocalServerError(self.label, f"{problem}: {self._log_tail()}", f"See {self.log}")

    def _path(self, suffix: str) -> Path:
        return self.folder / f"{self.stem}.{suffix}"

    def _log_tail(self) -> str:
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            return "no log"
        return " | ".join(line.strip() for line in lines[-5:] if line.strip()) or "empty log"


def _runtime_dir() -> Path:
    """Return the user's folder for the files that processes of one node share.

    Not XDG_RUNTIME_DIR: it is bound to a login session, and processes of a cluster run outside of it.
    """
    own = os.environ.get("RUNTREE_RUNTIME_DIR")
    folder = Path(own) if own else Path(tempfile.gettempdir()) / f"runtree-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    facts = folder.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        problem = "is not a private folder of this user"
        raise LocalServerError(str(folder), problem, "Remove it, or set RUNTREE_RUNTIME_DIR to a folder with mode 0700")
    return folder
