"""Reads what a pipeline on disk is made of: its components, their classes, and the headers of their weights."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeGuard

from autotune.checkpoint.folder import WEIGHT_SUFFIX, list_names, read_files
from autotune.checkpoint.header import TensorEntry
from autotune.checkpoint.stacks import LayerSplit, split_layers
from autotune.checkpoint.strict_json import load_object
from runtime.errors import CheckpointError

_PIPELINE_INDEX = "model_index.json"
_WEIGHTLESS_CLASS = re.compile(r"Scheduler|Tokenizer|Processor|Extractor|Guider|Guidance")
_DEFAULT_COMPONENT = "transformer"
_COMPONENT_FOLDERS = re.compile(r"(transformer|unet|text_encoder|image_encoder|vae|video_vae|audio_vae|vocoder)(_\d+)?")


@dataclass(frozen=True, kw_only=True)
class CheckpointComponent:
    """One component with weights.

    Attributes:
        name: its key in model_index.json, or what its folder or class suggests.
        library: where its class lives, as model_index.json says; empty when nothing says so.
        class_name: its class; empty when unknown.
        files: the files that were read.
        tensors: every tensor that counts.
    """

    name: str
    library: str
    class_name: str
    files: tuple[Path, ...]
    tensors: tuple[TensorEntry, ...]

    @cached_property
    def total_bytes(self) -> int:
        """Bytes of all tensors in the files."""
        return sum(tensor.size_bytes for tensor in self.tensors)

    @cached_property
    def split(self) -> LayerSplit:
        """Every list of layers, and the tensors outside them."""
        return split_layers(self.tensors)

    @cached_property
    def dtype_bytes(self) -> Mapping[str, int]:
        """Bytes in the files per dtype, the most first."""
        totals: Counter[str] = Counter()
        for tensor in self.tensors:
            totals[tensor.dtype] += tensor.size_bytes
        return dict(totals.most_common())


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointInventory:
    """What lies at one path.

    Attributes:
        path: as it was given.
        pipeline_class: the class in model_index.json; empty when there is no such file.
        components: those with weights, in the order of model_index.json.
        warnings: what was chosen, left out or found odd, one sentence each.
    """

    path: Path
    pipeline_class: str
    components: tuple[CheckpointComponent, ...]
    warnings: tuple[str, ...]

    @property
    def total_bytes(self) -> int:
        """Bytes of all components in the files."""
        return sum(component.total_bytes for component in self.components)


def read_inventory(path: Path, progress: Callable[[str], None] = lambda _: None) -> CheckpointInventory:
    """Read all headers of a pipeline folder, of a folder with one component, or of one safetensors file.

    Args:
        path: what to read; no weights are read, only headers and JSON files.
        progress: told which component is being read.

    Raises:
        CheckpointError: nothing is there, or it is damaged, incomplete, or of a kind that is not read.
    """
    try:
        path.stat()
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be found: name a folder or a {WEIGHT_SUFFIX} file") from error
    if path.is_dir() and (path / _PIPELINE_INDEX).exists():
        return _read_pipeline(path, progress)
    progress(f"reading the headers of {path.name}")
    found = read_files(path)
    if found is None:
        raise CheckpointError(f"{path} has no weights: {_suggest(path)}")
    class_name = _read_class(path) if path.is_dir() else ""
    component = CheckpointComponent(
        name=_name_component(path, class_name),
        library="",
        class_name=class_name,
        files=found.files,
        tensors=found.tensors,
    )
    return CheckpointInventory(path=path, pipeline_class="", components=(component,), warnings=found.warnings)


def _suggest(path: Path) -> str:
    inside = [name for name in list_names(path) if (path / name / _PIPELINE_INDEX).is_file()]
    if inside:
        return f"it has pipelines in {', '.join(inside)}; name one of these folders"
    if (path / "snapshots").is_dir():
        return "it is a download cache; name the folder below its snapshots"
    return f"name a folder with {_PIPELINE_INDEX}, a folder with {WEIGHT_SUFFIX} files, or one such file"


def _read_pipeline(folder: Path, progress: Callable[[str], None]) -> CheckpointInventory:
    document = load_object(folder / _PIPELINE_INDEX, "a pipeline's index")
    components: list[CheckpointComponent] = []
    warnings: list[str] = []
    classes = _list_classes(folder / _PIPELINE_INDEX, document)
    for name, (library, class_name) in classes.items():
        progress(f"reading the headers of {name}")
        if not (folder / name).is_dir():
            _check_may_be_absent(folder, name, class_name)
            continue
        found = read_files(folder / name)
        if found is None:
            _check_may_be_absent(folder, name, class_name)
            continue
        warnings += found.warnings
        components.append(
            CheckpointComponent(
                name=name, library=library, class_name=class_name, files=found.files, tensors=found.tensors
            )
        )
    if not components:
        raise CheckpointError(f"{folder} has no weights in any of {', '.join(classes)}: download it again")
    pipeline_class = document.get("_class_name")
    return CheckpointInventory(
        path=folder,
        pipeline_class=pipeline_class if _is_name(pipeline_class) else "",
        components=tuple(components),
        warnings=tuple(warnings),
    )


def _list_classes(index: Path, document: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Component -> library and class; settings and components stored as nulls are left out."""
    classes: dict[str, tuple[str, str]] = {}
    for name, value in document.items():
        if name.startswith("_") or not isinstance(value, list) or len(value) < 2:
            continue
        library, class_name = value[:2]
        if class_name is None:
            continue
        if not _is_name(class_name) or not _is_name(library or ""):
            raise CheckpointError(f"{index} describes {name!r} by {value[:2]!r}: it must be a library and a class")
        if not re.fullmatch(r"[A-Za-z0-9_.\-]+", name) or set(name) == {"."}:
            raise CheckpointError(f"{index} names a component {name!r}: a component is a folder beside that file")
        classes[name] = (library or "", class_name)
    if not classes:
        raise CheckpointError(f"{index} names no components: it is empty or damaged; download it again")
    return classes


def _check_may_be_absent(folder: Path, name: str, class_name: str) -> None:
    """Refuse a model without weights: tokenizers and the like have none, and no ``config.json``.

    Raises:
        CheckpointError: the component is a model, so its download is incomplete.
    """
    if _WEIGHTLESS_CLASS.search(class_name):
        return
    if not (folder / name).is_dir() or (folder / name / "config.json").exists():
        raise CheckpointError(
            f"{folder} is incomplete: its index names {name} ({class_name}), which has no weights there; download it "
            "again"
        )


def _read_class(folder: Path) -> str:
    """The class that a component's own configuration names; empty when it names none."""
    if "config.json" not in list_names(folder):
        return ""
    document = load_object(folder / "config.json", "a component's configuration")
    architectures = document.get("architectures")
    named = document.get("_class_name") or (
        architectures[0] if isinstance(architectures, list) and architectures else ""
    )
    return named if _is_name(named) else ""


def _is_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value.isprintable()


def _name_component(path: Path, class_name: str) -> str:
    """The folder's name where it is a usual one, else what the class suggests, else a DiT."""
    name = path.resolve().name
    if path.is_dir() and _COMPONENT_FOLDERS.fullmatch(name):
        return name
    if "Transformer" in class_name or not class_name:
        return _DEFAULT_COMPONENT
    if "VAE" in class_name or "Autoencoder" in class_name:
        return "vae"
    return (
        "text_encoder" if class_name.endswith(("Model", "ForCausalLM", "ForConditionalGeneration")) else "transformer"
    )
