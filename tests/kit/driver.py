"""Drivers in processes of their own, which join the Ray of the test session."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import anyio.to_thread

_ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def driver(source: str, folder: Path, environment: Mapping[str, str]) -> Iterator["subprocess.Popen[str]"]:
    """Runs a script; it is killed at the latest when the block is left.

    Args:
        source: The script.
        folder: Where it and its output are kept.
        environment: Added to this process's.
    """
    script = folder / "driver.py"
    script.write_text(textwrap.dedent(source))
    with (folder / "stderr").open("w") as stderr, (folder / "stdout").open("w") as stdout:
        process = subprocess.Popen(
            [sys.executable, str(script)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(_ROOT), **environment},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


async def exit_code(process: "subprocess.Popen[str]", limit: float = 80.0) -> int:
    """Waits for a driver's end."""
    return await anyio.to_thread.run_sync(process.wait, limit)


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
