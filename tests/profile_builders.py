"""Measured profiles of toy models from the one field that a test cares about."""

import random
from dataclasses import replace
from datetime import UTC, datetime

from builders import build_component, build_facts

from autotune.machine import read_machine
from autotune.measurements.model_profile import DeviceKind, MeasuredPiece, ModelProfile, RunOptions
from autotune.measurements.node_profile import NodeFingerprint, NodeProfile
from autotune.measurements.records import InterferenceRecord, LinkRecord, PieceRecord
from autotune.measurements.timing import Effort, summarize_samples
from autotune.work import Work
from runtime.documents import encode_document
from runtime.target_summary import Figure

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
GIB = 2**30
EMULATED = DeviceKind(backend="emulated", title="emulated card", memory_bytes=24 * GIB)
CARD = DeviceKind(backend="cuda", title="NVIDIA GeForce RTX 4090", memory_bytes=24_564 * 2**20, capability="8.9")
TOY = build_facts({"transformer": build_component(4, is_dit=True, passes=3)})


def timed(median_s, *, noise_ratio=0.0, count=15, seed=0):
    """A timing of ``count`` samples that differ from ``median_s`` by a share of up to some ``noise_ratio``."""
    rng = random.Random(seed)
    samples = [median_s * (1 + rng.gauss(0, noise_ratio)) for _ in range(count)]
    return summarize_samples(samples, is_settled=True)


def build_record(name="blocks[0]", median_s=3e-3, *, component="transformer", **changes):
    """One piece; ``changes`` replace fields, a timing of None needs an outcome."""
    record = PieceRecord(
        key=f"{component} {name}",
        component=component,
        name=name,
        class_name="Block",
        inputs=("bfloat16[1, 16, 64]",),
        weight_bytes=6000,
        outcome="measured",
        timing=timed(median_s),
        rise_bytes=1000,
        flops=3000.0,
        moved_bytes=6000.0,
        measured_at=NOW.isoformat(),
    )
    return replace(record, **changes)


def build_pieces(times_s, *, noise_ratio=0.0, seed=0):
    """Pieces of ``blocks``, one per time; layers whose time is the same share one measurement."""
    places = {}
    for index, time_s in enumerate(times_s):
        places.setdefault(time_s, []).append(f"blocks[{index}]")
    return tuple(
        MeasuredPiece(
            record=build_record(names[0], timing=timed(time_s, noise_ratio=noise_ratio, seed=seed)),
            places=tuple(names),
            calls=3 * len(names),
            passes=3,
        )
        for time_s, names in places.items()
    )


def one_piece_each(*components):
    """Fields of a model profile that has one piece of each of the components."""
    records = [build_record(component=name) for name in components]
    pieces = tuple(MeasuredPiece(record=record, places=(record.name,), calls=1, passes=1) for record in records)
    return {"components": components, "pieces": pieces}


def with_measured_work(facts, layer_s):
    """``facts`` in which every layer took ``layer_s`` when it was measured."""
    work = []
    for use in facts.work:
        groups = tuple(
            replace(
                group,
                layers={name: tuple(Work(measured_s=layer_s) for _ in layers) for name, layers in group.layers.items()},
            )
            for group in use.groups
        )
        work.append(replace(use, groups=groups))
    return replace(facts, work=tuple(work), source="measured")


def build_model_profile(*, times_s=(3e-3,) * 4, noise_ratio=0.0, seed=0, **changes):
    """A profile of the toy model, whose layers took ``times_s``."""
    profile = ModelProfile(
        facts=with_measured_work(TOY, times_s[0]),
        facts_key="key",
        kind=EMULATED,
        versions={},
        options=RunOptions(),
        effort=Effort.DEFAULT,
        pieces=build_pieces(times_s, noise_ratio=noise_ratio, seed=seed),
        components=("transformer",),
        flops_per_s={"bfloat16": 1e6},
        memory_bytes_per_s=1e6,
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return replace(profile, **changes)


def build_fingerprint(**changes):
    """This machine with an emulated device."""
    machine = read_machine()
    node = NodeFingerprint(
        machine=machine.digest,
        cpu=machine.cpu,
        kernel=machine.kernel,
        device="emulated",
        device_uuid="",
        kind=EMULATED,
    )
    return replace(node, **changes)


def build_link(kind="pinned_h2d", size_bytes=6000, bytes_per_s=1e6, **changes):
    """Copies of one size at one rate."""
    record = LinkRecord(kind=kind, size_bytes=size_bytes, timing=timed(size_bytes / bytes_per_s))
    return replace(record, **changes)


def build_interference(load="toy transformer blocks[0]", *, compute_ratio=0.1, copy_ratio=0.2):
    """Compute and copies that slow each other down by these shares."""
    return InterferenceRecord(
        load=load,
        compute_alone=timed(1.0),
        compute_under_copies=timed(1 + compute_ratio),
        copy_alone=timed(1.0),
        copy_under_compute=timed(1 + copy_ratio),
        measured_at=NOW.isoformat(),
    )


def build_links(*, pinned=2e6, pageable=1e6, d2h=2e6):
    """All links that a plan needs, each timed at the toy layer's size."""
    rates = {"pinned_h2d": pinned, "pageable_h2d": pageable, "d2h": d2h}
    return tuple(build_link(kind, bytes_per_s=rate) for kind, rate in rates.items())


def build_node_profile(**changes):
    """This machine's emulated device with links."""
    profile = NodeProfile(
        node=build_fingerprint(),
        versions={},
        effort=Effort.DEFAULT,
        links=build_links(),
        interference=(),
        figures={
            "vram_usable_bytes": Figure(value=23.5 * GIB, unit="bytes", source="read from the device"),
            "context_bytes": Figure(value=4e8, unit="bytes", source="read before and after"),
        },
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return replace(profile, **changes)


def save(profile, path):
    """``profile`` as the file ``path``; returns it."""
    path.write_bytes(encode_document(profile))
    return path
