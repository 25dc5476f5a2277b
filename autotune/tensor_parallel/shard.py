"""The facts of one rank, from the facts of the whole model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from autotune.model_facts import ModelFacts
from autotune.tensor_parallel.minimax_h3 import H3_SPLIT
from autotune.tensor_parallel.splits import ComponentSplit, ModelSplit, StackSplit, TileSplit
from autotune.work import GroupWork, UseWork, Work
from autotune.workload import Workload
from runtime.errors import InputError, UnsupportedError
from runtime.model_spec import ComponentSpec, LayerSpec, PassGroup, RequestSpec, StackSpec, UseSpec

SPLITS: Mapping[str, ModelSplit] = {split.model: split for split in (H3_SPLIT,)}
"""Models whose division between ranks is known."""


def shard_facts(facts: ModelFacts, tp_size: int) -> ModelFacts:
    """What the rank that has most to do holds and computes when ``tp_size`` cards run ``facts`` in tensor parallel.

    Layers, rest, work and passes are a rank's; the request, its output frames and ``tp_size`` = 1 are as they were.
    ``Work.exchange_bytes`` holds what the ranks exchange. Bytes are rounded up.

    Raises:
        InputError: fewer than one rank, or facts that are a rank's already, of another number of ranks.
        UnsupportedError: how the server divides the model, this variant of it or a component is not known, the ranks do
            not divide its heads and widths, or its times were measured or calibrated on one card.
    """
    if tp_size < 1:
        raise InputError(f"--tp-size is {tp_size}: at least one card runs; leave it out for one")
    if tp_size == facts.tp_size:
        return facts
    if facts.tp_size > 1:
        raise InputError(
            f"--tp-size is {tp_size}, and these figures are of one of {facts.tp_size} ranks: leave it out, or plan anew"
        )
    split = _find_split(facts, tp_size)
    components = tuple(_shard_component(spec, split, tp_size) for spec in facts.model.components)
    pairs = [
        _shard_use(use, work, facts, split, tp_size) for use, work in zip(facts.request.uses, facts.work, strict=True)
    ]
    return replace(
        facts,
        model=replace(facts.model, components=components),
        request=RequestSpec(uses=tuple(use for use, _ in pairs)),
        work=tuple(work for _, work in pairs),
        notes=(*facts.notes, *split.notes),
        tp_size=tp_size,
    )


def _find_split(facts: ModelFacts, tp_size: int) -> ModelSplit:
    name, without = facts.model.name, "leave out --tp-size to plan for one card"
    known = ", ".join(sorted(SPLITS))
    if name not in SPLITS or facts.source == "checkpoint":
        what = f"the checkpoint {name}" if facts.source == "checkpoint" else name
        raise UnsupportedError(
            f"--tp-size {tp_size}: how the server divides {what} between cards is not known here, only {known} of the "
            f"catalog; {without}"
        )
    if facts.variant:
        raise UnsupportedError(
            f"--tp-size {tp_size}: {name} is divided as released, not as its variant {facts.variant}; leave out "
            f"--variant, or {without}"
        )
    if _has_own_times(facts):
        raise UnsupportedError(
            f"--tp-size {tp_size}: these times are of whole layers on one card, measured or calibrated; name the card "
            f"with --device, e.g. rtx-5090, to plan from datasheet figures, or {without}"
        )
    split = SPLITS[name]
    unknown = {spec.name for spec in facts.model.components} - {*split.divided, *split.tiled, *split.whole}
    if unknown:
        names = ", ".join(sorted(unknown))
        raise UnsupportedError(f"--tp-size {tp_size}: how the server divides {names} of {name} is not known; {without}")
    for component, rule in split.divided.items():
        for width, size in rule.widths.items():
            if size % tp_size:
                raise UnsupportedError(
                    f"--tp-size {tp_size} does not divide the {size} {width} of {component}: "
                    f"take one of {', '.join(map(str, _list_sizes(split)))}"
                )
    return split


def _has_own_times(facts: ModelFacts) -> bool:
    """Whether anything stands in seconds, which nobody can divide between ranks, instead of counted operations."""
    groups = [group for use in facts.work for group in use.groups]
    layers = (layer for group in groups for stack in group.layers.values() for layer in stack)
    outside = (*(use.outside for use in facts.work), *(group.outside for group in groups))
    return any(work.measured_s for work in (*layers, *outside))


def _list_sizes(split: ModelSplit) -> list[int]:
    """Numbers of cards, two or more, that divide every width."""
    widths = math.gcd(*(size for rule in split.divided.values() for size in rule.widths.values()))
    return [size for size in range(2, widths + 1) if widths % size == 0]


def _share(size: int, kept: int, ranks: int) -> int:
    """A rank's part of ``size`` of which ``kept`` is whole on every rank, rounded up."""
    return kept + -(-(size - kept) // ranks)


def _shard_component(spec: ComponentSpec, split: ModelSplit, ranks: int) -> ComponentSpec:
    rule = split.divided.get(spec.name)
    if rule is None:
        return spec
    stacks = tuple(_shard_stack(stack, rule, spec.name, ranks) for stack in spec.stacks)
    kept_rest = spec.rest_run_bytes if rule.kept_rest_bytes is None else min(rule.kept_rest_bytes, spec.rest_run_bytes)
    rest = _share(spec.rest_run_bytes, kept_rest, ranks)
    held = spec.host_table_bytes + rest + sum(stack.run_bytes for stack in stacks)
    return replace(
        spec,
        stacks=stacks,
        rest_run_bytes=rest,
        rest_checkpoint_bytes=math.ceil(spec.rest_checkpoint_bytes * _ratio(rest, spec.rest_run_bytes)),
        offload_host_bytes=math.ceil(spec.offload_host_bytes * _ratio(held, spec.run_bytes)),
        cast_bytes=math.ceil(spec.cast_bytes * _ratio(held, spec.run_bytes)),
        unread_checkpoint_bytes=-(-spec.unread_checkpoint_bytes // ranks),
    )


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def _shard_stack(stack: StackSpec, rule: ComponentSplit, component: str, ranks: int) -> StackSpec:
    if stack.name not in rule.stacks:
        raise UnsupportedError(f"how the server divides {component}.{stack.name} is not known: leave out --tp-size")
    kept = rule.stacks[stack.name].kept_bytes
    if any(layer.run_bytes < kept for layer in stack.layers):
        raise UnsupportedError(
            f"a layer of {component}.{stack.name} is smaller than the {kept} bytes that every rank holds whole: it is "
            "not the released model; leave out --tp-size"
        )
    return replace(stack, layers=tuple(_shard_layer(layer, kept, ranks) for layer in stack.layers))


def _shard_layer(layer: LayerSpec, kept: int, ranks: int) -> LayerSpec:
    """A rank's layer. Its slices are copies that the loader makes, so nothing of it can stay mapped."""
    run_bytes = _share(layer.run_bytes, kept, ranks)
    return LayerSpec(
        checkpoint_bytes=math.ceil(layer.checkpoint_bytes * run_bytes / layer.run_bytes),
        run_bytes=run_bytes,
        transformed_bytes=run_bytes,
    )


def _shard_use(
    use: UseSpec, work: UseWork, facts: ModelFacts, split: ModelSplit, ranks: int
) -> tuple[UseSpec, UseWork]:
    """One use of a rank, and its work, from the use of the whole model."""
    if use.component in split.tiled:
        return _share_tiles(use, work, split.tiled[use.component], facts.workload, ranks)
    rule = split.divided.get(use.component)
    if rule is None:
        return use, work
    ratio = rule.activation_ratios.get(ranks, 1.0)
    spec = facts.model.component(use.component)
    groups = tuple(_shard_group(group, spec, rule, facts.workload, ranks) for group in work.groups)
    return use, replace(work, groups=groups, activation_bytes=math.ceil(work.activation_bytes * ratio))


def _shard_group(
    group: GroupWork, spec: ComponentSpec, rule: ComponentSplit, workload: Workload, ranks: int
) -> GroupWork:
    layers = {
        name: tuple(
            _shard_work(work, layer, rule.stacks[name], workload, ranks)
            for work, layer in zip(works, spec.stack(name).layers, strict=True)
        )
        for name, works in group.layers.items()
    }
    gathered = sum(count(workload) for name, count in rule.gathered_bytes.items() if name in group.layers)
    # An all-gather brings each rank what the others have.
    exchanged = Work(exchange_bytes=gathered * (ranks - 1) / ranks)
    return replace(group, layers=layers, outside=group.outside + exchanged)


def _shard_work(work: Work, layer: LayerSpec, split: StackSplit, workload: Workload, ranks: int) -> Work:
    weights = min(work.matmul_bytes, layer.run_bytes)
    product_share = split.kept_product_ratio + (1 - split.kept_product_ratio) / ranks
    other_share = split.kept_other_ratio + (1 - split.kept_other_ratio) / ranks
    reduced = split.reductions * split.reduced_bytes(workload) if split.reduced_bytes is not None else 0
    return Work(
        matmul_flops=work.matmul_flops / ranks,
        attention_flops=work.attention_flops / ranks,
        matmul_bytes=weights / ranks + (work.matmul_bytes - weights) * product_share,
        other_bytes=work.other_bytes * other_share,
        # In a ring each rank sends, and receives, every N-th part twice but once less than there are ranks.
        exchange_bytes=reduced * 2 * (ranks - 1) / ranks,
    )


def _share_tiles(
    use: UseSpec, work: UseWork, split: TileSplit, workload: Workload, ranks: int
) -> tuple[UseSpec, UseWork]:
    """One use of a tiled decoder on the rank that decodes most tiles; whole where there are more ranks than tiles."""
    tiles, at_once = split.tiles(workload), split.tiles_per_pass(workload)
    if ranks > tiles:
        return use, work
    own = -(-tiles // ranks)
    before, after = -(-tiles // at_once), -(-own // at_once)
    share = (own / after) / (tiles / before)
    groups = tuple(replace(group, passes=_count_passes(group, before, after)) for group in use.groups)
    works = tuple(
        GroupWork(
            layers={name: tuple(layer.scaled(share) for layer in layers) for name, layers in group.layers.items()},
            outside=group.outside.scaled(share),
        )
        for group in work.groups
    )
    return replace(use, groups=groups), replace(work, groups=works)


def _count_passes(group: PassGroup, before: int, after: int) -> int:
    """Passes of all windows when each takes ``after`` instead of ``before``."""
    if group.passes % before:
        raise UnsupportedError(
            f"{group.passes} decoder passes are no multiple of the {before} of a window: leave out --tp-size"
        )
    return group.passes // before * after
