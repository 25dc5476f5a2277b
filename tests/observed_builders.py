"""Logs and dumps in the formats of SGLang-diffusion 0.5.23, of a server that follows a plan, or does not."""

import json

from autotune.observed.perf_dump import parse_perf_dump
from autotune.observed.read_server_log import parse_server_log
from autotune.workflows.verification_figures import derive_expected
from runtime.residency import Mode
from runtime.units import GIB, MIB

STAMP = "[09-21 14:13:20] "


def format_ready(component, stacks, *, prefetch=1, resident=0, policy="leading", lifetime=" (forward)"):
    """What the server logs when ``component`` is set up to stream; ``stacks`` maps names to layer counts."""
    total = sum(stacks.values())
    kept = sum(min(resident, layers) for layers in stacks.values())
    ahead = ", ".join(str(size) for size in sorted({min(prefetch, layers) for layers in stacks.values()}))
    listed = ", ".join(f"{stack} ({layers} layers)" for stack, layers in stacks.items())
    return [
        f"{STAMP}Configuring layerwise offload for {component} (Toy): {listed}",
        f"{STAMP}Layerwise offload ready for {component} (Toy) in 1.50s: groups={len(stacks)}, layers={total}, "
        f"prefetch/group={ahead}, resident={kept}/{total}{lifetime}, policy={policy}",
    ]


def format_pins(name, pinned, pageable, mapped, *, spendable_bytes=GIB):
    """What the server logs of a stack of which not every layer is pinned."""
    return (
        f"{STAMP}Layerwise offload: {name} pins {pinned} of {pinned + pageable + mapped} layers (1.00 GiB of "
        f"{spendable_bytes / GIB:.2f} GiB spendable). Of the rest, {pageable} are copied into pageable host memory and "
        f"{mapped} stay on the checkpoint mapping. Pinning every layer would need 9.00 GiB."
    )


def format_loaded(component, where):
    """What the server logs when ``component`` is loaded; ``where`` is ``vram`` or ``host mmap``."""
    return (
        f"{STAMP}Loaded {component}: Toy (sgl-diffusion version). model size: 1.0 GB, {where}: 1.00 GB. "
        "avail GPU mem: 20.00 GB"
    )


def format_log(document, *, model=None, pins=None, **knobs):
    """Lines of a start that follows ``document``'s plan, and of one request; arguments change what is logged.

    Args:
        document: the plan.
        model: the model path; the plan's model's name unless given.
        pins: pinned layers of every stack; as predicted unless given.
        knobs: settings of every streamed component that replace the plan's.
    """
    arguments = {"model_path": model or document.model.name, "component_residency": {}}
    lines = [f"{STAMP}server_args: {json.dumps(arguments)}", f"{STAMP}Loading pipeline modules..."]
    for component in document.model.components:
        placement = document.plan.placement(component.name)
        streams = placement.mode is Mode.LAYERWISE_OFFLOAD
        lines.append(format_loaded(component.name, "vram" if placement.mode is Mode.RESIDENT else "host mmap"))
        if streams:
            stacks = {stack.name: len(stack.layers) for stack in component.stacks}
            own = {"prefetch": placement.prefetch, "resident": placement.resident, "policy": str(placement.policy)}
            lines += format_ready(component.name, stacks, **(own | knobs))
    for item in document.prediction.hosting:
        pinned = item.pinned if pins is None else pins
        if pinned < item.layers:
            lines.append(format_pins(f"{item.component}.{item.stack}", pinned, 0, item.layers - pinned))
    return [*lines, f"{STAMP}The server is fired up and ready to roll!", *format_request(document)]


def format_request(document, *, width=None):
    """What the server logs of one request of the plan's workload."""
    workload = document.workload
    return [
        f"{STAMP}Sampling params:",
        f"                       width: {width or workload['width']}",
        f"                      height: {workload['height']}",
        f"                  num_frames: {workload['frames']}",
        f"                 infer_steps: {derive_expected(document).steps}",
        f"{STAMP}[TextEncodingStage] finished in 0.1000 seconds",
    ]


def build_log(document, **changes):
    """The log that ``format_log`` writes, as read."""
    return parse_server_log(format_log(document, **changes), "server.log")


def write_dump(document, *, time_ratio=1.0, peak_ratio=1.0, steps=None, **fields):
    """A dump as the server writes it of a request that takes ``time_ratio`` of what the plan predicts."""
    expected = derive_expected(document)
    count = expected.steps if steps is None else steps
    step_ms = expected.step_s * time_ratio * 1e3
    peaks = {
        "peak_allocated_mb": expected.allocated_bytes * peak_ratio / MIB,
        "peak_reserved_mb": expected.reserved_bytes * peak_ratio / MIB,
    }
    content = {
        "tag": "server_perf_dump",
        "total_duration_ms": document.prediction.latency_s * time_ratio * 1e3,
        "steps": [{"name": "DenoisingStage", "duration_ms": step_ms * count}],
        "denoise_steps_ms": [{"step": index, "duration_ms": step_ms} for index in range(count)],
        "memory_checkpoints": {"after_forward": peaks},
        "meta": {"model": document.model.name},
    }
    return json.dumps(content | fields).encode()


def build_dump(document, **changes):
    """The dump that ``write_dump`` writes, as read."""
    return parse_perf_dump(write_dump(document, **changes), "dump.json")
