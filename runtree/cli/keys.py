"""Keys of a terminal, as they are pressed.

Few lines on `termios` in place of a library: eight keys need no editor and no key bindings, what there is either blocks in a thread that cannot be
stopped (readchar, click) or is many times the size of this package's command line and would be installed on every node (prompt_toolkit, textual).
The terminal stays in cbreak mode, so that Ctrl-C still is a signal.
"""

import asyncio
import os
import re
import termios
import tty
from collections.abc import Callable
from typing import Any, Final

_SEQUENCES: Final = {
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b"\x1b[H": "home",
    b"\x1bOH": "home",
    b"\x1b[1~": "home",
    b"\x1b[F": "end",
    b"\x1bOF": "end",
    b"\x1b[4~": "end",
    b"\x1b": "escape",
    b"\r": "enter",
    b"\n": "enter",
}
_KEY: Final = re.compile(rb"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O[@-~])|[\xc0-\xff][\x80-\xbf]+|.", re.DOTALL)
_UNFINISHED: Final = re.compile(rb"\x1b(?:\[[0-9;?]*[ -/]*|O)$")


def decode(data: bytes) -> tuple[list[str], bytes]:
    """Return the keys in what a terminal sent, and what is the begin of a sequence whose rest has not come yet.

    Characters stand for themselves; keys without a name are left out.
    """
    cut = _UNFINISHED.search(data)
    rest = b"" if cut is None else cut[0]
    keys: list[str] = []
    for found in _KEY.findall(data[: len(data) - len(rest)]):
        name = _SEQUENCES.get(found)
        if name is None and not found.startswith(b"\x1b"):
            name = found.decode(errors="ignore")
        if name:
            keys.append(name)
    return keys, rest


class Keys:
    """While entered, calls `on_key` in the running event loop for each key that is pressed, with `end of input` when the terminal goes away."""

    def __init__(self, descriptor: int, on_key: Callable[[str], None]) -> None:
        self._descriptor = descriptor
        self._on_key = on_key
        self._rest = b""
        self._before: list[Any] | None = None

    def __enter__(self) -> None:
        self._before = termios.tcgetattr(self._descriptor)
        tty.setcbreak(self._descriptor, termios.TCSANOW)
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        if self._before is not None:
            termios.tcsetattr(self._descriptor, termios.TCSANOW, self._before)

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, 1024)
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            self._on_key("end of input")
            return
        keys, self._rest = decode(self._rest + data)
        for key in keys:
            self._on_key(key)
