"""Finds the files of one component, as the server chooses them, and reads all of their headers.

An index is authoritative. Without one, files without a precision in their name are preferred over copies with one, and
one precision is chosen where there are only such copies. Source: ``runtime/loader/utils.py`` and
``runtime/weights/source.py`` of SGLang-diffusion 0.5.23.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.checkpoint.header import Header, TensorEntry, read_header
from autotune.checkpoint.strict_json import load_object
from runtime.errors import CheckpointError

WEIGHT_SUFFIX = ".safetensors"
_INDEX = re.compile(r".+\.safetensors\.index(\.(?P<variant>[A-Za-z0-9]+))?\.json")
_PREFERRED_INDEXES = ("diffusion_pytorch_model.safetensors.index.json", "model.safetensors.index.json")
_FILE = re.compile(
    r"(?P<stem>.+?)(?:\.(?P<precision>fp16|bf16|fp32))?(?:-(?P<part>\d+)-of-(?P<parts>\d+))?\.safetensors"
)
_PRECISIONS = ("bf16", "fp16", "fp32")
"""In the order in which one is chosen: the server computes in bfloat16."""
_OTHER_WEIGHTS = {
    "pickle": (".bin", ".pt", ".pth", ".ckpt", ".bin.index.json"),
    "GGUF": (".gguf",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentFiles:
    """The weights of one component.

    Attributes:
        files: the files that are read, by name.
        tensors: of all of them, file after file.
        warnings: what was chosen or left out, and what is odd.
    """

    files: tuple[Path, ...]
    tensors: tuple[TensorEntry, ...]
    warnings: tuple[str, ...]


def read_files(path: Path) -> ComponentFiles | None:
    """Headers of the component at ``path``, a folder or one safetensors file; None for a folder without weights.

    Raises:
        CheckpointError: files are missing, damaged, contradict each other, or are of a kind that is not read.
    """
    if not path.is_dir():
        header = read_header(path)
        return ComponentFiles(files=(path,), tensors=header.tensors, warnings=header.warnings)
    names = list_names(path)
    weights = [name for name in names if name.endswith(WEIGHT_SUFFIX)]
    index = _choose_index(path, names)
    if index is not None:
        return _read_indexed(path, index, weights)
    if weights:
        return _read_listed(path, weights)
    for kind, suffixes in _OTHER_WEIGHTS.items():
        if any(name.endswith(suffixes) for name in names):
            raise CheckpointError(f"{path}: found only {kind} weights, which are not read: convert them to safetensors")
    return None


def list_names(folder: Path) -> list[str]:
    """Names of everything in ``folder``, in order.

    Raises:
        CheckpointError: the folder cannot be read.
    """
    try:
        return sorted(item.name for item in folder.iterdir())
    except OSError as error:
        raise CheckpointError(f"cannot read {folder}: {error.strerror or error}") from error


def _choose_index(folder: Path, names: Sequence[str]) -> str | None:
    found = {name: match["variant"] for name in names if (match := _INDEX.fullmatch(name))}
    plain = [name for name, variant in found.items() if variant is None and not _precision_of(name)]
    for candidates in (plain, list(found)):
        for preferred in _PREFERRED_INDEXES:
            if preferred in candidates:
                return preferred
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            raise CheckpointError(f"{folder} has several indexes ({', '.join(candidates)}): keep the one that counts")
    return None


def _precision_of(name: str) -> str | None:
    match = _FILE.fullmatch(name.partition(".index.")[0])
    return match["precision"] if match else None


def _read_indexed(folder: Path, index: str, weights: Sequence[str]) -> ComponentFiles:
    document = load_object(folder / index, "an index")
    shard_of = _check_weight_map(folder / index, document.get("weight_map"))
    shards = sorted(set(shard_of.values()))
    missing = [shard for shard in shards if not (folder / shard).is_file()]
    if missing:
        raise CheckpointError(
            f"{folder} is incomplete: {index} lists {missing[0]}{_and_more(missing)}, which is not there; download it "
            "again"
        )
    headers = {shard: read_header(folder / shard) for shard in shards}
    entries, warnings = _select_indexed(folder / index, shard_of, headers)
    extra = [name for name in weights if name not in headers]
    if extra:
        warnings.append(f"{folder.name}: {index} does not list {extra[0]}{_and_more(extra)}; not counted")
    warnings += _check_total(folder.name, index, document, entries)
    return ComponentFiles(
        files=tuple(folder / shard for shard in shards), tensors=tuple(entries), warnings=tuple(warnings)
    )


def _check_weight_map(index: Path, weight_map: object) -> Mapping[str, str]:
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(f"{index} has no weight_map that names tensors: it is no index; download it again")
    for name, shard in weight_map.items():
        if not isinstance(shard, str) or not _is_plain_name(shard) or not shard.endswith(WEIGHT_SUFFIX):
            raise CheckpointError(
                f"{index} puts tensor {name!r} into {shard!r}: a shard is a {WEIGHT_SUFFIX} file beside its index"
            )
    return weight_map


def _is_plain_name(name: str) -> bool:
    return (
        name.isprintable() and not any(separator in name for separator in ("/", "\\", ":")) and name not in {"..", "."}
    )


def _select_indexed(
    index: Path, shard_of: Mapping[str, str], headers: Mapping[str, Header]
) -> tuple[list[TensorEntry], list[str]]:
    """Tensors that the index lists, and warnings about the others."""
    entries: list[TensorEntry] = []
    warnings: list[str] = []
    unlisted = 0
    for shard, header in headers.items():
        listed = [entry for entry in header.tensors if shard_of.get(entry.name) == shard]
        unlisted += len(header.tensors) - len(listed)
        entries += listed
        warnings += header.warnings
    if len(entries) < len(shard_of):
        found = {entry.name for entry in entries}
        name, shard = next((name, shard) for name, shard in shard_of.items() if name not in found)
        raise CheckpointError(
            f"{index} says that tensor {name!r} is in {shard}, whose header lacks it: index and shards do not belong "
            "together; download both again"
        )
    if unlisted:
        warnings.append(f"{index.parent.name}: {unlisted} tensors of the shards are not in {index.name}; not counted")
    return entries, warnings


def _check_total(folder: str, index: str, document: Mapping[str, Any], entries: Iterable[TensorEntry]) -> list[str]:
    """A warning when the index states another total than its tensors have; it may state none."""
    metadata = document.get("metadata")
    stated = metadata.get("total_size") if isinstance(metadata, dict) else None
    total = sum(entry.size_bytes for entry in entries)
    if not isinstance(stated, int | float) or stated == total:
        return []
    return [f"{folder}: {index} states a total of {stated:,} bytes, its tensors have {total:,}; the latter is used"]


def _read_listed(folder: Path, weights: Sequence[str]) -> ComponentFiles:
    """Files of a folder without an index."""
    chosen, warnings = _choose_precision(folder.name, weights)
    _check_parts(folder, chosen)
    entries: list[TensorEntry] = []
    file_of: dict[str, str] = {}
    for name in chosen:
        header = read_header(folder / name)
        for entry in header.tensors:
            other = file_of.setdefault(entry.name, name)
            if other != name:
                raise CheckpointError(
                    f"{folder} has no index, and tensor {entry.name!r} is both in {other} and in {name}: name the file "
                    "that counts, or remove the other"
                )
        entries += header.tensors
        warnings += header.warnings
    return ComponentFiles(
        files=tuple(folder / name for name in chosen), tensors=tuple(entries), warnings=tuple(warnings)
    )


def _choose_precision(folder: str, weights: Sequence[str]) -> tuple[list[str], list[str]]:
    """Of every family of copies one precision; warnings name what was chosen and what was not."""
    families: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name in weights:
        match = _FILE.fullmatch(name)
        stem, precision = (match["stem"], match["precision"]) if match else (name, None)
        families[stem][precision or ""].append(name)
    chosen: list[str] = []
    warnings: list[str] = []
    for copies in families.values():
        precision = "" if "" in copies else next(known for known in _PRECISIONS if known in copies)
        chosen += copies[precision]
        left_out = [name for other, names in copies.items() if other != precision for name in names]
        if left_out:
            warnings.append(
                f"{folder}: {copies[precision][0]} is read and not {left_out[0]}{_and_more(left_out)}, another "
                "precision of the same weights"
            )
    return sorted(chosen), warnings


def _check_parts(folder: Path, names: Sequence[str]) -> None:
    """Refuse a split that is incomplete or mixed with another one: no index would tell."""
    splits: dict[tuple[str, int], set[int]] = defaultdict(set)
    for name in names:
        match = _FILE.fullmatch(name)
        if match and match["part"]:
            splits[match["stem"], int(match["parts"])].add(int(match["part"]))
    for (stem, parts), found in splits.items():
        if len(found) < parts:
            raise CheckpointError(
                f"{folder} is incomplete: {len(found)} of the {parts} files of {stem} are there, and no index; "
                "download it again"
            )


def _and_more(names: Sequence[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""
