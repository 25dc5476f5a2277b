"""Reads the header of one safetensors file: names, dtypes, shapes and byte ranges, and never a byte of weights.

Layout of a file: 8 bytes with the length N of the header (little endian), N bytes of JSON, then the weights. The rules
are those of the reference library (safetensors 0.8); sizes come from the byte ranges, and dtypes only check them.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from autotune.checkpoint.dtypes import BITS, compute_size_bytes
from autotune.checkpoint.strict_json import is_count, parse_object
from runtime.errors import CheckpointError

LENGTH_BYTES = 8
MAX_HEADER_BYTES = 100_000_000
"""The reference loader refuses longer headers."""

_METADATA_KEY = "__metadata__"
_MAX_DIMENSIONS = 64
_FOREIGN_STARTS = {
    b"version ": "it is a Git LFS pointer, the stand-in for a file that was not downloaded: run `git lfs pull`",
    b"<": "it is a web page, as a failed download leaves one: download the file again",
    b"PK\x03\x04": "it is a pickle archive with the wrong name: convert it to safetensors",
    b"GGUF": "it is a GGUF file with the wrong name: only safetensors files are read",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorEntry:
    """One tensor of a file.

    Attributes:
        name: as in the file.
        dtype: the file's name for it, such as ``BF16``; may be one that this program does not know.
        shape: sides, none for a scalar.
        start: first byte, counted from the end of the header.
        end: first byte after it.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int

    @property
    def size_bytes(self) -> int:
        """Bytes in the file."""
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What one safetensors file says about itself.

    Attributes:
        path: the file.
        tensors: in the order of their bytes.
        warnings: what is odd but legal, one sentence each.
    """

    path: Path
    tensors: tuple[TensorEntry, ...]
    warnings: tuple[str, ...]


def read_header(path: Path) -> Header:
    """Read the header of the safetensors file ``path``: 8 bytes and the header itself, nothing else.

    Raises:
        CheckpointError: the file cannot be read, or breaks a rule of the format; the message names it.
    """
    text, data_bytes = _read_text(path)
    document = parse_object(text, f"the header of {path}")
    metadata = document.pop(_METADATA_KEY, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise CheckpointError(f"{path}: {_METADATA_KEY} must map names to text: the file is damaged, download it again")
    entries = [_parse_entry(path, name, value) for name, value in document.items()]
    entries.sort(key=lambda entry: (entry.start, entry.end))
    _check_ranges(path, entries, data_bytes)
    return Header(path=path, tensors=tuple(entries), warnings=tuple(_list_warnings(path, entries)))


def _read_text(path: Path) -> tuple[bytes, int]:
    """The header's JSON, and how many bytes follow it."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise CheckpointError(f"{path} is no file: name a .safetensors file")
        with path.open("rb", buffering=0) as file:
            return _read_text_of(path, file.fileno())
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error


def _read_text_of(path: Path, descriptor: int) -> tuple[bytes, int]:
    size_bytes = os.fstat(descriptor).st_size
    start = _read_at(descriptor, 0, min(size_bytes, LENGTH_BYTES))
    header_bytes = int.from_bytes(start, "little")
    if len(start) < LENGTH_BYTES or header_bytes > size_bytes - LENGTH_BYTES:
        for foreign, meaning in _FOREIGN_STARTS.items():
            if start.startswith(foreign):
                raise CheckpointError(f"{path} is no safetensors file: {meaning}")
    if len(start) < LENGTH_BYTES:
        raise CheckpointError(
            f"{path} has {size_bytes} bytes, too few for a safetensors file: the download broke off; download it again"
        )
    if header_bytes == 0:
        raise CheckpointError(f"{path} has an empty header: it is no safetensors file, or damaged; download it again")
    if header_bytes > size_bytes - LENGTH_BYTES:
        raise CheckpointError(
            f"{path} claims a header of {header_bytes:,} bytes, more than its {size_bytes:,} bytes: it is no "
            "safetensors file, or the download broke off; download it again"
        )
    if header_bytes > MAX_HEADER_BYTES:
        raise CheckpointError(
            f"{path} has a header of {header_bytes:,} bytes: the reference loader refuses more than "
            f"{MAX_HEADER_BYTES:,}; split the file into shards"
        )
    text = _read_at(descriptor, LENGTH_BYTES, header_bytes)
    if len(text) < header_bytes:
        raise CheckpointError(f"{path} became shorter while it was read: wait for its download to end")
    return text, size_bytes - LENGTH_BYTES - header_bytes


def _read_at(descriptor: int, offset: int, count: int) -> bytes:
    """Up to ``count`` bytes from ``offset`` on; fewer only at the end of the file."""
    parts: list[bytes] = []
    while count > 0:
        part = os.pread(descriptor, count, offset)
        if not part:
            break
        parts.append(part)
        offset, count = offset + len(part), count - len(part)
    return b"".join(parts)


def _parse_entry(path: Path, name: str, value: object) -> TensorEntry:
    where = f"{path}: tensor {_quote(name)}"
    if not isinstance(value, dict):
        raise CheckpointError(f"{where} is described by a {type(value).__name__}, not by an object: {_DAMAGED}")
    dtype, shape, offsets = value.get("dtype"), value.get("shape"), value.get("data_offsets")
    if not isinstance(dtype, str):
        raise CheckpointError(f"{where} has no dtype: {_DAMAGED}")
    if not isinstance(shape, list) or len(shape) > _MAX_DIMENSIONS or not all(map(is_count, shape)):
        raise CheckpointError(f"{where} has no valid shape (whole numbers from 0 on): {_DAMAGED}")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(is_count, offsets)):
        raise CheckpointError(f"{where} has no valid data_offsets (two whole numbers from 0 on): {_DAMAGED}")
    start, end = offsets
    if start > end:
        raise CheckpointError(f"{where} ends at byte {end:,}, before it begins at {start:,}: {_DAMAGED}")
    if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
        raise CheckpointError(f"{where} has a name that is not Unicode: {_DAMAGED}")
    entry = TensorEntry(name=name, dtype=dtype, shape=tuple(shape), start=start, end=end)
    if dtype in BITS:
        _check_size(where, entry)
    return entry


def _check_size(where: str, entry: TensorEntry) -> None:
    expected = compute_size_bytes(entry.dtype, entry.shape, entry.size_bytes)
    if expected is None:
        raise CheckpointError(
            f"{where} has {entry.dtype} elements of shape {list(entry.shape)}, which fill no whole bytes: {_DAMAGED}"
        )
    if expected != entry.size_bytes:
        more = "more" if expected > entry.size_bytes else "fewer"
        raise CheckpointError(
            f"{where} occupies {entry.size_bytes:,} bytes, and {entry.dtype} elements of shape {list(entry.shape)} "
            f"need {more}: {_DAMAGED}"
        )


def _check_ranges(path: Path, entries: list[TensorEntry], data_bytes: int) -> None:
    """Every byte after the header belongs to exactly one tensor."""
    if entries and entries[0].start > 0:
        raise CheckpointError(f"{path}: the first {entries[0].start:,} bytes belong to no tensor: {_DAMAGED}")
    for before, after in pairwise(entries):
        if after.start < before.end:
            raise CheckpointError(
                f"{path}: tensors {_quote(before.name)} and {_quote(after.name)} overlap at byte {after.start:,}: "
                f"{_DAMAGED}"
            )
        if after.start > before.end:
            raise CheckpointError(
                f"{path}: bytes {before.end:,} to {after.start:,}, before tensor {_quote(after.name)}, belong to no "
                f"tensor: {_DAMAGED}"
            )
    used = entries[-1].end if entries else 0
    if used > data_bytes:
        raise CheckpointError(
            f"{path} is {used - data_bytes:,} bytes shorter than its header says: the download broke off; download it "
            "again"
        )
    if used < data_bytes:
        raise CheckpointError(f"{path}: its last {data_bytes - used:,} bytes belong to no tensor: {_DAMAGED}")


def _list_warnings(path: Path, entries: list[TensorEntry]) -> list[str]:
    if not entries:
        return [f"{path.name} holds no tensors, only metadata: 0 bytes of weights"]
    unknown = sorted({entry.dtype for entry in entries if entry.dtype not in BITS})
    return [
        f"{path.name} has tensors of the unknown dtype {_quote(dtype)}, which the reference loader refuses; they are "
        "counted with the bytes that they occupy"
        for dtype in unknown
    ]


def _quote(text: str) -> str:
    return repr(text if len(text) <= 120 else f"{text[:120]}...")


_DAMAGED = "the file is damaged; download it again"
