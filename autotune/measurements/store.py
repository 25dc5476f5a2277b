"""Where profiles are kept, and which of them answers a wish.

A folder of documents: ``model-*.json`` and ``node-*.json``, one per set of conditions, the latest measurement of each;
beside them the journals. Files that cannot be read are passed over and named, never fatal.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
import platformdirs

from autotune.measurements.model_profile import MODEL_PROFILE_KIND, ModelProfile
from autotune.measurements.node_profile import NODE_PROFILE_KIND, NodeFingerprint, NodeProfile
from autotune.measurements.validity import ModelWish, Verdict, judge_model_profile, judge_node_profile
from autotune.user_folders import find_user_folder
from runtime.documents import DocumentKind, encode_document, replace_file
from runtime.errors import ProfileError

PROFILE_DIR_VARIABLE = "AUTOTUNE_PROFILE_DIR"
JOURNAL_FOLDER = "journals"

SomeProfile = TypeVar("SomeProfile", ModelProfile, NodeProfile)


def find_profile_dir() -> Path:
    """``AUTOTUNE_PROFILE_DIR``, or this program's place among the user's data; see ``find_user_folder``."""
    return find_user_folder(PROFILE_DIR_VARIABLE, platformdirs.user_data_dir)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored(Generic[SomeProfile]):
    """One profile and its file."""

    path: Path
    profile: SomeProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class Search(Generic[SomeProfile]):
    """What the store has for one wish.

    Attributes:
        found: the freshest valid profile, if any.
        nearest: where there is none, the profile of the same model, or machine, against which least speaks, if any.
        verdict: on the one or the other.
    """

    found: Stored[SomeProfile] | None
    nearest: Stored[SomeProfile] | None = None
    verdict: Verdict = field(default_factory=Verdict)


class ProfileStore:
    """The profiles in ``folder``, which need not exist yet.

    Attributes:
        problems: files that could not be read so far, one sentence each.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: tuple[str, ...] = ()

    @property
    def journal_folder(self) -> Path:
        """Where journals are kept."""
        return self.folder / JOURNAL_FOLDER

    def save_model(self, profile: ModelProfile) -> Path:
        """Keep ``profile`` in place of an earlier one of the same conditions; returns its file.

        Raises:
            ProfileError: it cannot be written.
        """
        facts = profile.facts
        conditions = (facts.model.name, facts.variant, facts.workload, profile.kind, profile.versions, profile.options)
        work = facts.workload
        label = f"{facts.model.name}-{work.width}x{work.height}x{work.frames}-{profile.kind.title}"
        return self._save("model", label, conditions, profile)

    def save_node(self, profile: NodeProfile) -> Path:
        """Keep ``profile`` in place of an earlier one of the same node and software; returns its file.

        Raises:
            ProfileError: it cannot be written.
        """
        return self._save("node", profile.node.device, (profile.node, profile.versions), profile)

    def list_models(self) -> tuple[Stored[ModelProfile], ...]:
        """Every model profile, the freshest first."""
        return self._list("model", MODEL_PROFILE_KIND)

    def list_nodes(self) -> tuple[Stored[NodeProfile], ...]:
        """Every node profile, the freshest first."""
        return self._list("node", NODE_PROFILE_KIND)

    def find_model(self, wish: ModelWish, now: datetime) -> Search[ModelProfile]:
        """The freshest model profile that is valid for ``wish``."""
        alike = [item for item in self.list_models() if wish.model in (None, item.profile.facts.model.name)]
        return _choose([(item, judge_model_profile(item.profile, wish, now)) for item in alike])

    def find_node(self, here: NodeFingerprint, versions: Mapping[str, str], now: datetime) -> Search[NodeProfile]:
        """The freshest valid profile of ``here``: this machine with one of its devices."""
        alike = [item for item in self.list_nodes() if item.profile.node.machine == here.machine]
        return _choose([(item, judge_node_profile(item.profile, here, versions, now)) for item in alike])

    def _save(self, part: str, label: str, conditions: object, profile: ModelProfile | NodeProfile) -> Path:
        digest = hashlib.sha256(msgspec.json.encode(conditions, order="deterministic")).hexdigest()[:12]
        path = self.folder / f"{part}-{_slug(label)}-{digest}.json"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            replace_file(path, encode_document(profile))
        except OSError as error:
            raise ProfileError(
                f"cannot keep the profile in {self.folder}: {error.strerror or error}; name another folder with "
                f"{PROFILE_DIR_VARIABLE}"
            ) from error
        return path

    def _list(self, part: str, kind: DocumentKind[SomeProfile]) -> tuple[Stored[SomeProfile], ...]:
        found: list[Stored[SomeProfile]] = []
        try:
            # Not glob: it takes a folder that cannot be read for an empty one.
            paths = sorted(path for path in self.folder.iterdir() if path.match(f"{part}-*.json"))
        except FileNotFoundError:
            return ()
        except OSError as error:
            self._add_problem(f"the folder {self.folder} cannot be read: {error.strerror or error}")
            return ()
        for path in paths:
            try:
                found.append(Stored(path=path, profile=kind.load(path)))
            except ProfileError as error:
                self._add_problem(f"{error}; it is ignored")
        return tuple(sorted(found, key=lambda item: item.profile.measured_at, reverse=True))

    def _add_problem(self, text: str) -> None:
        if text not in self.problems:
            self.problems = (*self.problems, text)


def _choose(judged: list[tuple[Stored[SomeProfile], Verdict]]) -> Search[SomeProfile]:
    """``judged`` is sorted, the freshest first."""
    for item, verdict in judged:
        if verdict.is_valid:
            return Search(found=item, verdict=verdict)
    if not judged:
        return Search(found=None)
    nearest, verdict = min(judged, key=lambda pair: len(pair[1].reasons))  # of several, the freshest
    return Search(found=None, nearest=nearest, verdict=verdict)


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.")[:80] or "profile"
