"""Keeps captured model facts on disk, so that planning a known request imports no torch.

A file answers only for what is in its key: model, configuration, settled workload, library versions, and the source of
the capture code. A damaged file, another key or another layout is announced, ignored and rebuilt.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import logging
from dataclasses import replace
from pathlib import Path

import msgspec
import platformdirs

from autotune.catalog.entry import CatalogEntry, Progress, SettledWorkload
from autotune.catalog.registry import find_model
from autotune.model_facts import ModelFacts
from autotune.user_folders import find_user_folder
from autotune.workload import Workload
from runtime.documents import replace_file
from runtime.errors import AutotuneError, InputError, MissingDependencyError

_LOG = logging.getLogger(__name__)

CACHE_DIR_VARIABLE = "AUTOTUNE_CACHE_DIR"
LIBRARIES = ("torch", "diffusers", "transformers")
LAYOUT = 1
"""Raised when the file layout changes."""


class _CacheFile(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    facts_sha256: str
    facts: msgspec.Raw


def load_model_facts(
    name: str,
    workload: Workload | None = None,
    variant: str | None = None,
    *,
    refresh: bool = False,
    progress: Progress | None = None,
) -> ModelFacts:
    """Facts of a catalog model under a workload, from the cache or else from the libraries' own classes.

    The cache holds the facts of the model as released; those of a variant are derived from them each time.

    Args:
        name: a catalog name or alias.
        workload: the request; None for the model's default.
        variant: one of the entry's variants; None for the model as released.
        refresh: read the classes again even when the cache has an answer.
        progress: told one sentence per step, and why a cache file was not used; by default the log is.

    Raises:
        InputError: no such model or variant, or a request that the server cannot run.
        MissingDependencyError: a library whose classes are read is not installed.
    """
    notify = progress or _LOG.info
    entry = find_model(name)
    if variant is not None:
        entry.find_variant(variant)
    facts = load_entry_facts(entry, workload, refresh=refresh, notify=notify)
    return facts if variant is None else entry.derive_facts(facts, variant)


def load_entry_facts(
    entry: CatalogEntry, workload: Workload | None, *, refresh: bool = False, notify: Progress = _LOG.info
) -> ModelFacts:
    """Facts of ``entry`` as released; see ``load_model_facts``."""
    settled = entry.settle(workload or entry.default_workload)
    versions = read_library_versions()
    key = compute_cache_key(entry, settled, versions)
    path = find_cache_dir() / f"{entry.name}-{key[:24]}.json"
    known = None if refresh else _load_facts(path, key, notify)
    if known is not None:
        return known
    facts = replace(_capture(entry, settled, notify), versions=versions)
    _save_facts(path, key, facts, notify)
    return facts


def find_cache_dir() -> Path:
    """``AUTOTUNE_CACHE_DIR``, or this program's place in the user's cache directory; see ``find_user_folder``."""
    return find_user_folder(CACHE_DIR_VARIABLE, platformdirs.user_cache_dir)


def read_library_versions() -> dict[str, str]:
    """Installed versions of the libraries whose classes are read, without importing them.

    Raises:
        MissingDependencyError: one of them is not installed.
    """
    try:
        return {library: importlib.metadata.version(library) for library in LIBRARIES}
    except importlib.metadata.PackageNotFoundError as missing:
        raise _missing(str(missing.name)) from missing


def compute_cache_key(entry: CatalogEntry, settled: SettledWorkload, versions: dict[str, str]) -> str:
    """A digest of everything that captured facts depend on."""
    inputs = {
        "layout": LAYOUT,
        "model": entry.name,
        "configs": entry.configs,
        "workload": settled.workload,
        "notes": settled.notes,
        "versions": versions,
        "source": compute_source_digest(Path(__file__).parents[1]),
    }
    return hashlib.sha256(msgspec.json.encode(inputs, order="deterministic")).hexdigest()


def find_facts_key(name: str, workload: Workload) -> str:
    """A digest of everything that the facts of a catalog model under ``workload`` depend on now, variants aside.

    Raises:
        InputError: no such model, or a request that the server cannot run.
        MissingDependencyError: a library whose classes are read is not installed.
    """
    entry = find_model(name)
    return compute_cache_key(entry, entry.settle(workload), read_library_versions())


def compute_source_digest(root: Path) -> str:
    """A digest of the capture and catalog code, and of the types that carry its results."""
    names = ["capture.py", "meta_*.py", "model_facts.py", "work.py", "workload.py", "catalog/*.py"]
    files = [path for name in names for path in (root / "autotune").glob(name)]
    digest = hashlib.sha256()
    types = [path for name in ("model_spec.py", "deployment.py") for path in (root / "runtime").glob(name)]
    for path in sorted([*files, *types]):
        digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _missing(library: str) -> MissingDependencyError:
    return MissingDependencyError(
        f"{library} is not installed: reading a catalog model needs it; install layerstream-autotune[models]"
    )


def _capture(entry: CatalogEntry, settled: SettledWorkload, notify: Progress) -> ModelFacts:
    try:
        return entry.capture(settled, notify)
    except ModuleNotFoundError as missing:
        raise _missing(missing.name or "a library") from missing
    except (RuntimeError, ValueError, TypeError, OverflowError) as problem:
        raise InputError(
            f"the classes of {entry.name} refuse this request ({str(problem).splitlines()[0]}): try the default size, "
            "and change one option at a time"
        ) from problem


def _announce(notify: Progress, problem: str) -> None:
    """Tell it where steps are shown, and keep it: a shown step is gone with the next one."""
    notify(problem)
    _LOG.warning("%s", problem)


def _load_facts(path: Path, key: str, notify: Progress) -> ModelFacts | None:
    """The facts in a cache file; None when there is no file or it cannot be used."""
    try:
        stored = msgspec.json.decode(path.read_bytes(), type=_CacheFile)
        if stored.key != key:
            raise ValueError("it answers for another request")
        if hashlib.sha256(stored.facts).hexdigest() != stored.facts_sha256:
            raise ValueError("its contents do not match their checksum")
        return msgspec.json.decode(stored.facts, type=ModelFacts)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AutotuneError) as problem:
        _announce(notify, f"ignoring the cache file {path.name} ({problem}); reading the model again")
        return None


def _save_facts(path: Path, key: str, facts: ModelFacts, notify: Progress) -> None:
    """Write a cache file in one step, so that a reader sees a whole one or none. Failure costs only the next start."""
    encoded = msgspec.json.encode(facts)
    stored = _CacheFile(key=key, facts_sha256=hashlib.sha256(encoded).hexdigest(), facts=msgspec.Raw(encoded))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, msgspec.json.encode(stored))
    except OSError as problem:
        _announce(notify, f"could not keep the facts of {facts.model.name} in {path.parent} ({problem})")
