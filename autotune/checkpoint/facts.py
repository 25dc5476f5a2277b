"""From a path to model facts: matched to the catalog where its layers are known, else with bytes alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from autotune.catalog.entry import Progress
from autotune.catalog.registry import find_model
from autotune.checkpoint.families import apply_checkpoint, find_family
from autotune.checkpoint.pipeline import CheckpointInventory, read_inventory
from autotune.checkpoint.signatures import Signature
from autotune.checkpoint.unknown import build_unknown_facts
from autotune.collector import paused_collector
from autotune.model_facts import ModelFacts
from runtime.errors import CheckpointError
from runtime.files import as_text


def load_checkpoint_facts(
    path: Path, shape: Mapping[str, Any], *, refresh: bool = False, progress: Progress
) -> ModelFacts:
    """Facts of the pipeline, component or file at ``path``; its headers are read, never its weights.

    Args:
        path: a pipeline folder, a folder with one component, or one safetensors file.
        shape: fields of the workload (width, height, frames, steps, prompt_tokens, batch, recipe), each may be None for
            the default of the matched model, or for 1024x1024, one frame, 50 steps and 512 tokens of an unknown one.
        refresh: read the classes of a matched model again even when the cache has an answer.
        progress: told one sentence per step.

    Raises:
        CheckpointError: nothing is there, or it is damaged, incomplete, or of a kind that is not read.
        InputError: a request that the server cannot run.
        MissingDependencyError: a library whose classes a matched model needs is not installed.
    """
    with paused_collector():  # a header may name a million tensors, none of them part of a cycle
        inventory = read_inventory(path, progress)
        if not any(tensor.end > tensor.start for component in inventory.components for tensor in component.tensors):
            raise CheckpointError(f"{path} has no weights: its headers list no tensor with any bytes")
        family = find_family(inventory)
    facts = _build(inventory, family, shape, refresh=refresh, progress=progress)
    return replace(facts, notes=tuple(map(as_text, facts.notes)))


def _build(
    inventory: CheckpointInventory,
    family: Signature | None,
    shape: Mapping[str, Any],
    *,
    refresh: bool,
    progress: Progress,
) -> ModelFacts:
    if family is None:
        return build_unknown_facts(inventory, shape)
    from autotune.capture_cache import load_model_facts  # noqa: PLC0415 - an unknown checkpoint needs no cache

    entry = find_model(family.model)
    workload = replace(entry.default_workload, **{name: value for name, value in shape.items() if value is not None})
    progress(f"reading {entry.name}, whose layers {inventory.path.name} has")
    facts = load_model_facts(entry.name, workload, refresh=refresh, progress=progress)
    return apply_checkpoint(facts, inventory)
