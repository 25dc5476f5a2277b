"""An append-only file of measurements, so that interrupted profiling goes on where it stopped.

::

    {"kind":"piece","key":"3f2a...","effort":"default","record":{...},"checksum":"9c41..."}
    one line per measurement, written with one call, on disk before ``remember`` returns

A line counts when its checksum fits. A torn last line, as ``kill -9`` leaves it, is passed over, and so is any damaged
line in between; both are named in ``problems``. Of several lines with one kind and key the last one counts. Several
processes may append to one file at once. The file's name is a digest of everything that its records depend on.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from autotune.measurements.model_profile import DeviceKind, RunOptions
from autotune.measurements.node_profile import NodeFingerprint
from autotune.measurements.records import Held, InterferenceRecord, LinkRecord, PieceRecord, Record
from autotune.measurements.timing import Effort
from runtime.errors import AutotuneError, ProfileError
from runtime.files import read_file

try:
    import fcntl
except ModuleNotFoundError:  # a system without it has no such lock; one write at a time is then up to the user
    fcntl = None  # type: ignore[assignment]

RecordKind = Literal["piece", "link", "interference"]

_HOLDS: dict[RecordKind, type[Record]] = {
    "piece": PieceRecord,
    "link": LinkRecord,
    "interference": InterferenceRecord,
}
_KINDS = {holds: kind for kind, holds in _HOLDS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What the records of one journal depend on: ``options`` those of layers, ``node`` those of one machine."""

    kind: DeviceKind
    versions: dict[str, str]
    options: RunOptions | None = None
    node: NodeFingerprint | None = None

    @property
    def digest(self) -> str:
        """Identifies the conditions: equal ones have equal digests."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()[:24]


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    kind: RecordKind
    key: str
    effort: Effort
    record: msgspec.Raw
    checksum: str


class Journal:
    """The records of one file.

    Args:
        path: the file; it and its folder are made by the first ``remember``.

    Attributes:
        problems: lines that were passed over when the file was read, one sentence each.

    Raises:
        ProfileError: the file is there and cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: tuple[str, ...] = ()
        self._records: dict[tuple[str, str], tuple[Effort, Record]] = {}
        try:
            content = read_file(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise ProfileError(
                f"cannot read the journal {path}: {error.strerror or error}; move what is there away, or name another "
                "folder with AUTOTUNE_PROFILE_DIR"
            ) from error
        self._records, self.problems = _read_lines(content, path.name)

    def __len__(self) -> int:
        return len(self._records)

    def recall(self, holds: type[Held], key: str, effort: Effort) -> Held | None:
        """The record of one kind under ``key``; None unless it was measured with at least ``effort``."""
        made_with, record = self._records.get((_KINDS[holds], key), (effort, None))
        return record if isinstance(record, holds) and made_with.rank >= effort.rank else None

    def remember(self, key: str, record: Record, effort: Effort) -> None:
        """Append ``record``; it survives whatever happens after this returns.

        Raises:
            ProfileError: it cannot be written. What was saved before stays.
        """
        kind = _KINDS[type(record)]
        try:
            _append(self.path, _encode_line(kind, key, record, effort))
        except OSError as error:
            raise ProfileError(
                f"cannot add to the journal {self.path}: {error.strerror or error}; make room there, or name another "
                "folder with AUTOTUNE_PROFILE_DIR"
            ) from error
        self._records[kind, key] = (effort, record)


def open_journal(folder: Path, conditions: Conditions) -> Journal:
    """The journal in ``folder`` for ``conditions``.

    Raises:
        ProfileError: it is there and cannot be read.
    """
    where = "node" if conditions.node is not None else "device"
    return Journal(folder / f"{where}-{conditions.digest}.jsonl")


def _read_lines(content: bytes, name: str) -> tuple[dict[tuple[str, str], tuple[Effort, Record]], tuple[str, ...]]:
    records: dict[tuple[str, str], tuple[Effort, Record]] = {}
    problems = []
    lines = content.split(b"\n")
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            line = _decode_line(text)
            record = msgspec.json.decode(line.record, type=_HOLDS[line.kind])
        except (ValueError, RecursionError, AutotuneError) as problem:
            # Only the last line has no end: whoever wrote it was stopped.
            what = "is torn: its measurement was interrupted" if number == len(lines) else f"is damaged ({problem})"
            problems.append(f"line {number} of the journal {name} {what}; it is ignored")
            continue
        records[line.kind, line.key] = (line.effort, record)
    return records, tuple(problems)


def _decode_line(text: bytes) -> _Line:
    line = msgspec.json.decode(text, type=_Line)
    if _checksum(line.kind, line.key, line.effort, line.record) != line.checksum:
        raise ValueError("its checksum does not fit")
    return line


def _encode_line(kind: RecordKind, key: str, record: Record, effort: Effort) -> bytes:
    encoded = msgspec.json.encode(record)
    line = _Line(
        kind=kind,
        key=key,
        effort=effort,
        record=msgspec.Raw(encoded),
        checksum=_checksum(kind, key, effort, encoded),
    )
    return msgspec.json.encode(line) + b"\n"


def _checksum(kind: str, key: str, effort: Effort, record: bytes | msgspec.Raw) -> str:
    head = msgspec.json.encode([kind, key, effort])
    return hashlib.sha256(head + b"\n" + bytes(record)).hexdigest()[:16]


def _append(path: Path, line: bytes) -> None:
    is_new = not path.exists()
    if is_new:
        path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        with _locked(file):
            size = os.fstat(file).st_size
            if size and os.pread(file, 1, size - 1) != b"\n":
                line = b"\n" + line  # behind a torn line: else this one would be damaged with it
            while line:
                line = line[os.write(file, line) :]
            os.fsync(file)
    finally:
        os.close(file)
    if is_new:
        _sync_folder(path.parent)


@contextmanager
def _locked(file: int) -> Iterator[None]:
    """Nobody else appends meanwhile: a file system may split one write."""
    if fcntl is None:
        yield
        return
    with contextlib.suppress(OSError):  # a file system without locks: O_APPEND alone keeps lines apart
        fcntl.flock(file, fcntl.LOCK_EX)
    yield  # closing the file unlocks it


def _sync_folder(folder: Path) -> None:
    """Put a new file's name on disk, where folders can be synchronised."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
