"""Matches a checkpoint to a catalog model: the work is the catalog's, the bytes are the file's.

A model is known by the lists of layers in its diffusion transformer. Lists of other names are found by what they hold:
released files and the server's classes call the same layers differently (``transformer_blocks`` is H3's ``blocks``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from autotune.catalog.registry import list_model_names
from autotune.checkpoint.dtypes import PLAIN_FLOATS, RUN_BYTES_PER_ELEMENT
from autotune.checkpoint.header import TensorEntry
from autotune.checkpoint.pipeline import CheckpointComponent, CheckpointInventory
from autotune.checkpoint.signatures import SIGNATURES, Signature
from autotune.checkpoint.stacks import FileLayer, LayerList, find_list
from autotune.checkpoint.unknown import (
    blind_work,
    build_blind_use,
    build_component_spec,
    find_dits,
    round_to_power_of_two,
    split_component,
)
from autotune.model_facts import ModelFacts
from autotune.work import GroupWork, UseWork
from runtime.model_spec import ComponentSpec, LayerSpec, RequestSpec, StackSpec, UseSpec
from runtime.units import format_gib

# Files of one model differ by biases, norms or fused scales; the nearest two models of the catalog by 3.4 %.
_SAME_RATIO = 0.01
# A catalog counts bytes as run, where a few weights of a layer have another dtype than the rest.
_SAME_BYTES_RATIO = 0.03
# A list with less than this share of the transformer is no list of blocks.
_SMALL_RATIO = 0.015


def find_family(inventory: CheckpointInventory) -> Signature | None:
    """The catalog model whose transformer this is; None when there is none, or several are equally near.

    A transformer with fewer layers than the catalog's (pruned) is still that model.
    """
    known = set(list_model_names())
    dits = find_dits(inventory.components)
    lacking: dict[Signature, int] = {}
    for signature in SIGNATURES:
        if signature.model not in known or len(dits) != signature.dits:
            continue
        counts = [_count_lacking(dit, signature) for dit in dits]
        if None not in counts:
            lacking[signature] = sum(count for count in counts if count is not None)
    nearest = [signature for signature, count in lacking.items() if count == min(lacking.values())]
    return nearest[0] if len(nearest) == 1 else None


def _count_lacking(dit: CheckpointComponent, signature: Signature) -> int | None:
    """Layers that ``dit`` lacks of the signature's; None when it is another model."""
    if dit.class_name not in {"", signature.dit_class, *signature.other_classes}:
        return None
    lists = list(dit.split.lists)
    lacking = 0
    for count, weights in signature.stacks:
        fitting = [
            found for found in lists if len(found.layers) <= count and _is_near(_typical(found), weights, _SAME_RATIO)
        ]
        if not fitting:
            return None
        chosen = max(fitting, key=lambda found: len(found.layers))
        lists.remove(chosen)
        lacking += count - len(chosen.layers)
    small = _SMALL_RATIO * dit.total_bytes
    return None if any(found.checkpoint_bytes > small for found in lists) else lacking


def _typical(found: LayerList) -> int:
    """Weights of the middle layer by size."""
    sizes = sorted(layer.weights for layer in found.layers)
    return sizes[len(sizes) // 2]


def _is_near(value: float, reference: float, ratio: float) -> bool:
    return abs(value - reference) <= ratio * reference


def apply_checkpoint(facts: ModelFacts, inventory: CheckpointInventory) -> ModelFacts:
    """The catalog's ``facts`` with the bytes, and the number of layers, of the files that were read."""
    present = {component.name: component for component in inventory.components}
    dits = [spec.name for spec in facts.model.components if spec.is_dit]
    if len(inventory.components) == 1 and dits:
        present = {dits[0]: inventory.components[0]}
    specs: dict[str, ComponentSpec] = {}
    blind: set[str] = set()
    notes: list[str] = []
    for spec in facts.model.components:
        component = present.pop(spec.name, None)
        if component is None:
            specs[spec.name] = spec
            notes.append(f"{spec.name} is not in {inventory.path.name}: its bytes are the catalog's")
            continue
        matched = _match_component(spec, component, _list_used(facts, spec.name))
        if matched is None:
            blind.add(spec.name)
            specs[spec.name] = build_component_spec(component, split_component(component), is_dit=spec.is_dit)
            notes.append(
                f"{spec.name} is another model than the catalog's {spec.class_name}: its bytes are those of the file, "
                "its compute is unknown and counted as none"
            )
            continue
        specs[spec.name] = matched.spec
        notes += [f"{spec.name}: {note}" for note in matched.notes]
    notes += [
        f"{name} ({format_gib(component.total_bytes)}) is no part of {facts.model.name} as the server runs it, and is "
        "not counted"
        for name, component in present.items()
    ]
    uses, work = _adapt_uses(facts, specs, blind)
    return replace(
        facts,
        model=replace(facts.model, components=tuple(specs.values())),
        request=RequestSpec(uses=uses),
        work=work,
        source="checkpoint",
        notes=(*_introduce(facts, inventory, notes), *inventory.warnings, *facts.notes),
    )


def _introduce(facts: ModelFacts, inventory: CheckpointInventory, notes: Sequence[str]) -> list[str]:
    what = f"the checkpoint {inventory.path.name} has the layers of {facts.model.name}"
    ending = "; all bytes are equal" if not notes else ""
    return [f"{what}: work is the catalog's, bytes are those of the files{ending}", *notes]


def _list_used(facts: ModelFacts, component: str) -> set[str]:
    groups = (group for use in facts.request.uses if use.component == component for group in use.groups)
    return {stack for group in groups for stack in group.stacks}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Matched:
    spec: ComponentSpec
    notes: tuple[str, ...]


def _match_component(spec: ComponentSpec, component: CheckpointComponent, used: set[str]) -> _Matched | None:
    """``spec`` with the file's bytes; None when a stack that runs has no list in the file."""
    lists = _assign_lists(spec, component)
    if any(stack.name in used and stack.name not in lists for stack in spec.stacks):
        return None
    element_bytes = RUN_BYTES_PER_ELEMENT[spec.run_dtype]
    stacks: list[StackSpec] = []
    notes: list[str] = []
    for stack in spec.stacks:
        found = lists.get(stack.name)
        if found is None:
            notes.append(f"{stack.name} is not in the file; it does not run either")
            continue
        read = found.layers[: len(stack.layers)]
        built = StackSpec(
            name=stack.name,
            layers=tuple(
                _match_layer(layer, wanted, spec.run_dtype) for layer, wanted in zip(read, stack.layers, strict=False)
            ),
        )
        stacks.append(built)
        notes += _compare_stacks(stack, built, found)
    unread = [layer for name, found in lists.items() for layer in found.layers[len(spec.stack(name).layers) :]]
    in_lists = _ids_of(layer for found in lists.values() for layer in found.layers)
    rest = [tensor for tensor in component.tensors if id(tensor) not in in_lists]
    matched = replace(spec, stacks=tuple(stacks))
    unread_bytes = sum(layer.checkpoint_bytes for layer in unread)
    if not _has_catalog_rest(spec, rest, unread_bytes):
        matched = _with_rest_of_file(matched, rest, unread_bytes, element_bytes)
        change_bytes = matched.rest_run_bytes - spec.rest_run_bytes
        if change_bytes:
            notes.append(f"weights outside the layers differ from the catalog's by {change_bytes:+,} bytes as run")
    if matched != spec:
        # What whole moves lock depends on every tensor's size; the catalog's figure is that of its own tensors.
        skipped = _ids_of(unread)
        sizes = (_run_bytes(tensor, element_bytes) for tensor in component.tensors if id(tensor) not in skipped)
        matched = replace(matched, offload_host_bytes=sum(map(round_to_power_of_two, sizes)))
    return _Matched(spec=matched, notes=tuple(notes))


def _ids_of(layers: Iterable[FileLayer]) -> set[int]:
    return {id(tensor) for layer in layers for tensor in layer.tensors}


def _assign_lists(spec: ComponentSpec, component: CheckpointComponent) -> dict[str, LayerList]:
    """For each stack of ``spec`` the list of the file that holds it: by its full name, by its end, by what it holds."""
    detected = list(component.split.lists)
    assigned: dict[str, LayerList] = {}
    for is_candidate in (_has_name, _has_ending, _has_count, _has_fewer):
        for stack in spec.stacks:
            if stack.name in assigned:
                continue
            exact = find_list(component.tensors, stack.name) if is_candidate is _has_name else None
            candidates = [exact] if exact else [found for found in detected if is_candidate(stack, found)]
            fitting = [found for found in candidates if _fits(spec, stack, found)]
            if len(fitting) == 1:
                assigned[stack.name] = fitting[0]
                detected = [found for found in detected if found.prefix != fitting[0].prefix]
    return assigned


def _has_name(stack: StackSpec, found: LayerList) -> bool:
    return found.prefix == stack.name


def _has_ending(stack: StackSpec, found: LayerList) -> bool:
    """Whether one name is the other with something before it (``model.diffusion_model.``, ``model.``)."""
    return f".{found.prefix}".endswith(f".{stack.name}") or f".{stack.name}".endswith(f".{found.prefix}")


def _has_count(stack: StackSpec, found: LayerList) -> bool:
    return len(found.layers) == len(stack.layers)


def _has_fewer(stack: StackSpec, found: LayerList) -> bool:
    return len(found.layers) < len(stack.layers)


def _fits(spec: ComponentSpec, stack: StackSpec, found: LayerList) -> bool:
    """Whether the layers have as many weights as the catalog's, and are no more than it knows of."""
    if len(found.layers) > len(stack.layers) and not spec.unread_checkpoint_bytes:
        return False
    weights = sum(layer.weights for layer in found.layers[: len(stack.layers)])
    run_bytes = sum(layer.run_bytes for layer in stack.layers[: len(found.layers)])
    return _is_near(weights * RUN_BYTES_PER_ELEMENT[spec.run_dtype], run_bytes, _SAME_BYTES_RATIO)


def _match_layer(layer: FileLayer, wanted: LayerSpec, run_dtype: str) -> LayerSpec:
    """The catalog's layer where the file has the same or one that is cast at load, the file's where it is quantised."""
    dtype = PLAIN_FLOATS.get(layer.main_dtype, "")
    is_other_half = dtype != run_dtype and RUN_BYTES_PER_ELEMENT.get(dtype) == RUN_BYTES_PER_ELEMENT[run_dtype]
    if layer.checkpoint_bytes == wanted.checkpoint_bytes and not is_other_half:
        return wanted
    if layer.is_plain and layer.tensors:
        # A cast copy is in no file, so none of it can stay mapped.
        made_bytes = wanted.transformed_bytes if dtype == run_dtype else wanted.run_bytes
        return replace(wanted, checkpoint_bytes=layer.checkpoint_bytes, transformed_bytes=made_bytes)
    return LayerSpec(checkpoint_bytes=layer.checkpoint_bytes, run_bytes=layer.buffer_bytes)


def _compare_stacks(wanted: StackSpec, built: StackSpec, found: LayerList) -> Iterable[str]:
    if found.gaps:
        yield f"{found.prefix} lacks {found.describe_gaps()}"
    if len(built.layers) < len(wanted.layers):
        yield f"{wanted.name} has {len(built.layers)} layers, the catalog's {len(wanted.layers)}; work is scaled"
    same = wanted.layers[: len(built.layers)]
    if built.layers != same:
        before, after = (sum(layer.run_bytes for layer in layers) for layers in (same, built.layers))
        dtypes = ", ".join(sorted({layer.main_dtype for layer in found.layers} - {""}))
        as_run = (
            "as large as the catalog's as run"
            if before == after
            else f"{format_gib(after)} as run instead of {format_gib(before)}"
        )
        yield f"{wanted.name} has {format_gib(built.checkpoint_bytes)} in the file, mostly {dtypes}; {as_run}"


def _has_catalog_rest(spec: ComponentSpec, rest: Iterable[TensorEntry], unread_bytes: int) -> bool:
    """Whether all that is outside the layers is what the catalog counts, or knows to be unread."""
    rest_bytes = sum(tensor.size_bytes for tensor in rest)
    read_bytes = spec.rest_checkpoint_bytes + spec.host_table_checkpoint_bytes
    return rest_bytes in {read_bytes, read_bytes + spec.unread_checkpoint_bytes - unread_bytes}


def _with_rest_of_file(
    spec: ComponentSpec, rest: Sequence[TensorEntry], unread_bytes: int, element_bytes: int
) -> ComponentSpec:
    """``spec`` with the weights outside its layers as the file has them; tables that stay on the host are kept."""
    unlisted_unread = max(0, spec.unread_checkpoint_bytes - unread_bytes)
    checkpoint_bytes = sum(tensor.size_bytes for tensor in rest)
    if unlisted_unread >= checkpoint_bytes:
        unlisted_unread = 0
    run_bytes = sum(_run_bytes(tensor, element_bytes) for tensor in rest)
    return replace(
        spec,
        rest_run_bytes=max(0, run_bytes - spec.host_table_bytes - unlisted_unread),
        rest_checkpoint_bytes=max(0, checkpoint_bytes - spec.host_table_checkpoint_bytes - unlisted_unread),
    )


def _run_bytes(tensor: TensorEntry, element_bytes: int) -> int:
    if tensor.dtype not in PLAIN_FLOATS:
        return tensor.size_bytes
    return tensor.size_bytes // {"F64": 8, "F32": 4}.get(tensor.dtype, 2) * element_bytes


def _adapt_uses(
    facts: ModelFacts, specs: Mapping[str, ComponentSpec], blind: set[str]
) -> tuple[tuple[UseSpec, ...], tuple[UseWork, ...]]:
    """The catalog's uses with work for the layers that the file has; uses of ``blind`` components do none."""
    uses: list[UseSpec] = []
    works: list[UseWork] = []
    for use, work in zip(facts.request.uses, facts.work, strict=True):
        spec = specs[use.component]
        if use.component in blind:
            passes = max((group.passes for group in use.groups), default=0)
            built = build_blind_use(spec, passes) if passes else use
            uses.append(replace(built, purpose=use.purpose, hands_over=use.hands_over))
            works.append(replace(blind_work(built, spec), activation_bytes=work.activation_bytes))
            continue
        uses.append(use)
        works.append(replace(work, groups=tuple(_resize(group, spec) for group in work.groups)))
    return tuple(uses), tuple(works)


def _resize(group: GroupWork, spec: ComponentSpec) -> GroupWork:
    counts = {stack.name: len(stack.layers) for stack in spec.stacks}
    return replace(group, layers={stack: work[: counts[stack]] for stack, work in group.layers.items()})
