"""Facts of a pipeline that is in no catalog: bytes from its files, compute unknown and counted as none.

Without compute nothing hides a copy, so the planner's latency is the time of all copies that a plan makes: exposed
bytes over the link's rate. The plan with the least is the one that streams the fewest bytes under the cap.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from autotune.checkpoint.dtypes import PLAIN_FLOATS, RUN_BYTES_PER_ELEMENT
from autotune.checkpoint.pipeline import CheckpointComponent, CheckpointInventory
from autotune.checkpoint.stacks import LayerList, LayerSplit
from autotune.model_facts import ModelFacts
from autotune.work import GroupWork, UseWork, Work
from autotune.workload import Workload
from runtime.files import as_text
from runtime.model_spec import ComponentSpec, LayerSpec, ModelSpec, PassGroup, RequestSpec, StackSpec, UseSpec
from runtime.residency import Mode

COMPUTE_UNKNOWN = (
    "compute is unknown: the checkpoint is no catalog model, so times are those of exposed copies alone (bytes over "
    "the link's rate) and the plan is the one with the fewest; a real request takes longer"
)
DEFAULT_WORKLOAD = Workload(width=1024, height=1024, frames=1, steps=50, prompt_tokens=512)
_OUTPUT_BYTES_PER_PIXEL = 3 * 4
"""Three colours in float32, as the server keeps decoded frames."""

_DIT_NAME = re.compile(r"transformer.*|(\w+_)?(transformer|unet|dit)(_\d+)?")
_FIRST, _MIDDLE, _LAST = range(3)
_DECODER_NAME = re.compile(r"vae|vocoder|decoder|upsampl|upscal")

# ``layer_names`` of SGLang-diffusion 0.5.23 for classes of which a file may hold more lists than the server streams:
# runtime/models/vaes/common.py and encoders/base.py, with the wrapper names that checkpoints put before them.
_SERVER_LISTS = re.compile(
    r"(encoder\.down_blocks|decoder\.up_blocks|encoder\.down|decoder\.up|decoder\.transformer_blocks"
    r"|(?:model\.|language_model\.|text_model\.|vision_model\.|visual\.)*(?:encoder\.)?(?:layers|block|blocks))"
)


def build_unknown_facts(inventory: CheckpointInventory, shape: Mapping[str, Any]) -> ModelFacts:
    """Facts from the files alone.

    Args:
        inventory: what was read.
        shape: fields of the workload, each may be None for its default (1024x1024, one frame, 50 steps, 512 tokens).

    Raises:
        InputError: an impossible shape.
    """
    workload = replace(DEFAULT_WORKLOAD, **{name: value for name, value in shape.items() if value is not None})
    dits = find_dits(inventory.components)
    names = {dit.name for dit in dits}
    # Within a stage what prepares the conditions comes before the transformers that use them.
    order = sorted(inventory.components, key=lambda part: (_stage_of_name(part.name), part.name in names))
    splits = {component.name: split_component(component) for component in inventory.components}
    specs = {
        component.name: build_component_spec(component, splits[component.name], is_dit=component.name in names)
        for component in inventory.components
    }
    passes = _share_steps(workload.steps, dits)
    uses = tuple(build_blind_use(specs[component.name], passes.get(component.name, 1)) for component in order)
    frames_bytes = _OUTPUT_BYTES_PER_PIXEL * workload.width * workload.height * workload.frames * workload.batch
    work = [blind_work(use, specs[use.component]) for use in uses]
    # Some work, however little, keeps a ratio of two latencies a number where every weight stays on the device.
    work[-1] = replace(work[-1], outside=Work(other_bytes=float(frames_bytes)))
    return ModelFacts(
        model=ModelSpec(name=as_text(inventory.path), components=tuple(specs.values())),
        workload=workload,
        request=RequestSpec(uses=uses),
        work=tuple(work),
        output_frames_bytes=frames_bytes,
        source="checkpoint",
        notes=(*_list_notes(workload, dits, specs), *list_gaps(splits), *inventory.warnings),
    )


def find_dits(components: Sequence[CheckpointComponent]) -> list[CheckpointComponent]:
    """The diffusion transformers: by name, or else the largest component that is no encoder and no decoder."""
    named = [component for component in components if _DIT_NAME.fullmatch(component.name)]
    others = [component for component in components if _stage_of_name(component.name) == _MIDDLE]
    return named or sorted(others, key=lambda component: component.total_bytes)[-1:]


def split_component(component: CheckpointComponent) -> LayerSplit:
    """Lists that a server can stream, and the rest.

    Where the file has lists of the names that the server's own encoders and VAEs declare, only those; elsewhere every
    list, unless it is a sequence of single modules beside lists of blocks (the steps of an embedding).
    """
    lists = component.split.lists
    if _DECODER_NAME.search(component.name) or "encoder" in component.name:
        lists = tuple(found for found in lists if _SERVER_LISTS.fullmatch(found.prefix)) or lists
    largest = max(lists, key=lambda found: found.checkpoint_bytes, default=None)
    kept = tuple(found for found in lists if found is largest or _is_of_blocks(found))
    inside = {id(tensor) for found in kept for layer in found.layers for tensor in layer.tensors}
    return LayerSplit(lists=kept, rest=tuple(tensor for tensor in component.tensors if id(tensor) not in inside))


def _is_of_blocks(found: LayerList) -> bool:
    last = found.prefix.rpartition(".")[2]
    if "block" in last or "layer" in last:
        return True
    depth = found.prefix.count(".") + 2
    return any(tensor.name.count(".") > depth for layer in found.layers for tensor in layer.tensors)


def build_component_spec(component: CheckpointComponent, split: LayerSplit, *, is_dit: bool) -> ComponentSpec:
    """A component as its file has it: run in the dtypes of the file, each layer in the server's aligned buffers."""
    rest_bytes = sum(tensor.size_bytes for tensor in split.rest)
    return ComponentSpec(
        name=component.name,
        class_name=component.class_name or "unknown",
        stacks=tuple(
            StackSpec(
                name=found.prefix,
                layers=tuple(
                    LayerSpec(checkpoint_bytes=layer.checkpoint_bytes, run_bytes=layer.buffer_bytes)
                    for layer in found.layers
                ),
            )
            for found in split.lists
        ),
        rest_run_bytes=rest_bytes,
        rest_checkpoint_bytes=rest_bytes,
        offload_host_bytes=sum(round_to_power_of_two(tensor.size_bytes) for tensor in component.tensors),
        run_dtype=choose_run_dtype(component),
        is_dit=is_dit,
        default_mode=Mode.LAYERWISE_OFFLOAD if split.lists else Mode.RESIDENT,
    )


def choose_run_dtype(component: CheckpointComponent) -> str:
    """The dtype of most bytes, where a device computes in it; bfloat16 for quantised weights."""
    named = PLAIN_FLOATS.get(next(iter(component.dtype_bytes), ""), "")
    return named if named in RUN_BYTES_PER_ELEMENT else "bfloat16"


def build_blind_use(spec: ComponentSpec, passes: int) -> UseSpec:
    """A use that traverses every list of the component in each of ``passes`` passes; none when it has no list."""
    stacks = tuple(stack.name for stack in spec.stacks)
    return UseSpec(component=spec.name, groups=(PassGroup(stacks=stacks, passes=passes),) if stacks else ())


def blind_work(use: UseSpec, spec: ComponentSpec) -> UseWork:
    """Work of nothing for each layer of a use."""
    return UseWork(
        component=use.component,
        compute_dtype=spec.run_dtype,
        groups=tuple(
            GroupWork(layers={stack: (Work(),) * len(spec.stack(stack).layers) for stack in group.stacks})
            for group in use.groups
        ),
    )


def list_gaps(splits: Mapping[str, LayerSplit]) -> list[str]:
    """A sentence for each list that lacks indices."""
    return [
        f"{name}: {found.prefix} has {len(found.layers)} layers and lacks {found.describe_gaps()}"
        for name, split in splits.items()
        for found in split.lists
        if found.gaps
    ]


def round_to_power_of_two(size_bytes: int) -> int:
    """What torch's pinned allocator locks for one block."""
    return 1 << (size_bytes - 1).bit_length() if size_bytes > 0 else 0


def _stage_of_name(name: str) -> int:
    """Encoders run first, decoders last."""
    if _DECODER_NAME.search(name):
        return _LAST
    return _FIRST if "encoder" in name else _MIDDLE


def _share_steps(steps: int, dits: Sequence[CheckpointComponent]) -> dict[str, int]:
    """Passes of each transformer: experts take their turns, so together they make one pass a step."""
    share, more = divmod(steps, max(1, len(dits)))
    return {dit.name: max(1, share + (number < more)) for number, dit in enumerate(dits)}


def _list_notes(
    workload: Workload, dits: Sequence[CheckpointComponent], specs: Mapping[str, ComponentSpec]
) -> list[str]:
    names = " and ".join(dit.name for dit in dits) or "no component"
    notes = [
        COMPUTE_UNKNOWN,
        f"{names} is taken to run one pass in each of {workload.steps} steps, every other component one a request: "
        "guidance with two forwards doubles the former, tiled decoding multiplies the decoder's passes",
        "activations are unknown and counted as none besides the decoded frames: leave room for them with --reserve",
        "every list of layers is taken as one that the server streams, in the dtypes of the file",
    ]
    if len(dits) > 1:
        notes.append(
            f"{names} are taken as experts that share the steps evenly: the files do not say where they switch"
        )
    whole = [spec.name for spec in specs.values() if not spec.stacks]
    if whole:
        notes.append(
            f"no list of layers was found in {', '.join(whole)}: such a component cannot be streamed, only kept on the "
            "device or moved whole"
        )
    return notes
