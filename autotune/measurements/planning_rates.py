"""The rates of a planning profile, each with its source: measured, else of the preset, else refused. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from autotune.hardware import DevicePreset
from autotune.measurements.coverage import list_work
from autotune.measurements.links import LinkRate, derive_link_rate, weigh_copies, weigh_moves
from autotune.measurements.model_profile import DeviceKind, ModelProfile
from autotune.measurements.node_profile import NodeProfile
from autotune.measurements.records import InterferenceRecord, LinkKind
from autotune.measurements.validity import describe_kind
from autotune.model_facts import ModelFacts
from autotune.rates import DEFAULT_DISK_BYTES_PER_S, DEFAULT_DISK_SOURCE, Rates, derive_rates
from autotune.workload import list_options
from runtime.errors import ProfileError
from runtime.interference import MOST_SLOWDOWN_RATIO, Interference
from runtime.target_summary import Figure
from runtime.units import format_percent

RATE, OPERATIONS, BYTES, SHARE = "bytes/s", "operations/s", "bytes", "share"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a planning profile is made from.

    Attributes:
        facts: of the model; measured ones where ``model`` is given.
        kind: of the device.
        model: its times on that kind of device, if they were measured.
        node: this machine's links and budgets, if they were measured.
        preset: datasheet figures of the device, if there are any.
        host_bytes: memory of the host, which a device without memory of its own shares.
        now: when the plan is made.
    """

    facts: ModelFacts
    kind: DeviceKind
    model: ModelProfile | None
    node: NodeProfile | None
    preset: DevicePreset | None
    host_bytes: int | None
    now: datetime


class Figures:
    """The figures of one profile while it is put together; ``measured`` names those that were measured."""

    def __init__(self) -> None:
        self.all: dict[str, Figure] = {}
        self.measured: list[str] = []

    def add(self, name: str, value: float, unit: str, source: str, *, is_measured: bool) -> float:
        """Note ``value`` under ``name``; returns it."""
        self.all[name] = Figure(value=value, unit=unit, source=source)
        if is_measured:
            self.measured.append(name)
        return value


def derive_measured_rates(ground: Ground, figures: Figures) -> Rates:
    """The rates of ``ground``; each is added to ``figures``.

    Raises:
        ProfileError: one is neither measured nor in the preset.
    """
    memory_rate = _memory_rate(ground, figures)
    copies, moves = weigh_copies(ground.facts), weigh_moves(ground.facts)
    matmul, attention = _compute_rates(ground, figures)
    return Rates(
        pinned_bytes_per_s=_link(ground, figures, "pinned_bytes_per_s", "pinned_h2d", copies),
        pageable_bytes_per_s=_link(ground, figures, "pageable_bytes_per_s", "pageable_h2d", copies),
        d2h_bytes_per_s=_link(ground, figures, "d2h_pinned_bytes_per_s", "d2h", moves),
        disk_bytes_per_s=_disk(ground, figures, copies),
        matmul_flops_per_s=matmul,
        attention_flops_per_s=attention,
        memory_bytes_per_s=memory_rate,
        interference=_interference(ground, figures),
    )


def _compute_rates(ground: Ground, figures: Figures) -> tuple[dict[str, float], dict[str, float]]:
    """Rates for what was not measured, of matrix products and of attention, per dtype that the model computes in."""
    reached = dict(ground.model.flops_per_s) if ground.model is not None else {}
    known = derive_rates(ground.preset) if ground.preset is not None else None
    matmul: dict[str, float] = {}
    attention: dict[str, float] = {}
    for dtype in sorted({use.compute_dtype for use in ground.facts.work}):
        if dtype in reached:
            pair, is_measured = (reached[dtype], reached[dtype]), True
            source = f"{_measured_model(ground)}: what its pieces reach in all; used for what was not measured"
        elif known is not None and dtype in known.matmul_flops_per_s:
            pair, is_measured = (known.matmul_flops_per_s[dtype], known.attention_flops_per_s[dtype]), False
            source = f"datasheet rate times the share that is reached: {preset_source(ground, 'matrix_flops_per_s')}"
        elif reached and not _has_counted_work(ground.facts, dtype):
            pair, is_measured = (max(reached.values()), max(reached.values())), False
            source = "stands in: all work of this dtype was measured, so that nothing takes this rate"
        else:
            raise ProfileError(
                f"no rate is known for {dtype} on {describe_kind(ground.kind)}, as needed for "
                f"{_name_users(ground.facts, dtype)}: profile that too, with {name_remedy(ground)}"
            )
        names = (f"matmul_flops_per_s.{dtype}", f"attention_flops_per_s.{dtype}")
        matmul[dtype] = figures.add(names[0], pair[0], OPERATIONS, source, is_measured=is_measured)
        attention[dtype] = figures.add(names[1], pair[1], OPERATIONS, source, is_measured=is_measured)
    return matmul, attention


def _memory_rate(ground: Ground, figures: Figures) -> float:
    name, model, preset = "memory_bytes_per_s", ground.model, ground.preset
    if model is not None and model.memory_bytes_per_s > 0:
        source = f"{_measured_model(ground)}: what its pieces reach in all"
        return figures.add(name, model.memory_bytes_per_s, RATE, source, is_measured=True)
    if preset is not None:
        source = f"datasheet rate times the share that is reached: {preset_source(ground, name)}"
        return figures.add(name, preset.memory_bytes_per_s * preset.bandwidth_ratio, RATE, source, is_measured=False)
    raise ProfileError(
        f"the rate of device memory is unknown on {describe_kind(ground.kind)}: measure it with {name_remedy(ground)}"
    )


def _link(ground: Ground, figures: Figures, name: str, kind: LinkKind, weights: Mapping[int, int]) -> float:
    node, preset = ground.node, ground.preset
    rate = derive_link_rate(node.links, kind, weights) if node is not None else None
    if rate is not None and node is not None:
        source = _describe_link(rate, node)
        if name == "pageable_bytes_per_s":
            source += _describe_page_cache(node, weights)
        return figures.add(name, rate.bytes_per_s, RATE, source, is_measured=True)
    if preset is not None:
        return figures.add(name, getattr(preset, name), RATE, preset_source(ground, name), is_measured=False)
    if ground.kind.backend == "cpu":
        # Its copies are memory copies: each byte is read and written.
        value = figures.all["memory_bytes_per_s"].value / 2
        source = "derived: half the rate of memory, since a copy reads and writes"
        return figures.add(name, value, RATE, source, is_measured=False)
    raise ProfileError(
        f"{name} is unknown on {describe_kind(ground.kind)}: no valid profile of this machine has it, and no preset "
        f"describes the device; measure it with {name_remedy(ground)}"
    )


def _disk(ground: Ground, figures: Figures, weights: Mapping[int, int]) -> float:
    rate = derive_link_rate(ground.node.links, "disk_read", weights) if ground.node is not None else None
    if rate is None or ground.node is None:
        return figures.add("disk_bytes_per_s", DEFAULT_DISK_BYTES_PER_S, RATE, DEFAULT_DISK_SOURCE, is_measured=False)
    source = _describe_link(rate, ground.node)
    return figures.add("disk_bytes_per_s", rate.bytes_per_s, RATE, source, is_measured=True)


def _interference(ground: Ground, figures: Figures) -> Interference:
    """Nothing is added to the figures where it is unknown, and it is then taken as none."""
    node = ground.node
    if node is None or not node.interference:
        return Interference()
    own = [record for record in node.interference if record.load.startswith(f"{ground.facts.model.name} ")]
    record = max(own or node.interference, key=_total_slowdown)
    whose = "" if own else ", the largest known; this model's own was not measured"
    source = f"measured on this machine on {record.measured_at[:10] or node.measured_at[:10]} with {record.load}{whose}"
    slowdowns = {name: getattr(record, name) for name in ("compute_slowdown_ratio", "copy_slowdown_ratio")}
    return Interference(**{name: _add_slowdown(figures, name, ratio, source) for name, ratio in slowdowns.items()})


def _add_slowdown(figures: Figures, name: str, measured_ratio: float, source: str) -> float:
    """The measured slowdown, or the most that can be planned with, and then that is said."""
    ratio = min(measured_ratio, MOST_SLOWDOWN_RATIO)
    if ratio < measured_ratio:
        source += (
            f"; it was {format_percent(measured_ratio)}, more than the {format_percent(ratio)} that plans count with"
        )
    return figures.add(name, ratio, SHARE, source, is_measured=True)


def _total_slowdown(record: InterferenceRecord) -> float:
    return record.compute_slowdown_ratio + record.copy_slowdown_ratio


def _describe_link(rate: LinkRate, node: NodeProfile) -> str:
    sizes = "1 size" if rate.sizes == 1 else f"{rate.sizes} sizes"
    return (
        f"measured on this machine on {node.measured_at[:10]} at {sizes}, weighted by the bytes that a request copies; "
        f"{rate.count} samples or more, {format_percent(rate.spread_ratio)} spread at most"
    )


def _describe_page_cache(node: NodeProfile, weights: Mapping[int, int]) -> str:
    """What reads from the page cache reach, since predictions take the rate of pageable copies for them."""
    rate = derive_link_rate(node.links, "page_cache_read", weights)
    if rate is None:
        return ""
    return f"; reads from the page cache, predicted with it too, reach {rate.bytes_per_s / 1e9:.3g} GB/s by themselves"


def _measured_model(ground: Ground) -> str:
    assert ground.model is not None  # asked only where there is one
    return f"measured on {ground.kind.title} on {ground.model.measured_at[:10]}"


def preset_source(ground: Ground, name: str) -> str:
    """Where the preset has its figure ``name`` from."""
    assert ground.preset is not None  # as above
    return ground.preset.sources[name]


def _has_counted_work(facts: ModelFacts, dtype: str) -> bool:
    return any(work.flops > 0 for use in facts.work if use.compute_dtype == dtype for work in list_work(use))


def _name_users(facts: ModelFacts, dtype: str) -> str:
    return ", ".join(dict.fromkeys(use.component for use in facts.work if use.compute_dtype == dtype))


def name_remedy(ground: Ground) -> str:
    """The command that measures what is missing."""
    device = ground.node.node.device if ground.node is not None else ground.kind.backend
    return name_profiling(ground.facts.model.name, device, list_options(ground.facts.workload, None))


def name_profiling(model: str, device: str, options: Sequence[str]) -> str:
    """The command that profiles a request; ``options`` as ``list_options`` gives them."""
    return f"`{shlex.join(['autotune', 'profile', '--model', model, '--device', device, *options])}`"
