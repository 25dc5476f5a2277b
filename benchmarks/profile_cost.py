"""What profiling costs: time and memory of every catalog model, at full layer size, without a checkpoint.

Each model is profiled from nothing (no facts, no profile, no journal) in a process of its own, so that its peak is its
own, under the smallest request that its entry takes; on a processor layers of a served request would take minutes each.
Where the smallest one still takes too long, a request that no server would take stands in, and the result says so.

- ``seconds``: wall clock by phase, see ``phase_watch``; ``libraries`` is the import of the model's classes. On an
  emulated device what is estimated as the device's speed is captured once more.
- ``host_peak_bytes``: growth of the process's peak (VmHWM) over what it held before the model was asked for.
- ``device_peaks``: by phase. Activations count in one call of each piece; beside copies they do not.
- ``needed_bytes``: what profiling cannot do without: the weights of the piece that needs most, its inputs, what a call
  of it allocates, and one buffer beside it, for copies or to write through so that caches are cold.
- ``peak_to_needed_ratio``: the highest peak over that; above one only where the largest copy of the sweep, 256 MiB, is
  larger than all of it.

The table goes to stderr; the last line is one JSON object. Exit status 1 if a model could not be profiled, or if one
of its pieces failed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

import torch
from phase_watch import PhaseWatch, describe_peak
from reporting import describe_command, describe_machine, finish
from small_requests import REDUCED, ask_small
from toy_models import ROOT

from autotune.capture_cache import CACHE_DIR_VARIABLE
from autotune.catalog.entry import CatalogEntry
from autotune.catalog.registry import find_model, list_model_names
from autotune.hardware import find_device
from autotune.measurements.model_profile import MeasuredPiece, ModelProfile
from autotune.measurements.records import PieceRecord
from autotune.measurements.store import PROFILE_DIR_VARIABLE, ProfileStore
from autotune.measurements.timing import Effort
from autotune.workflows.profiled_device import EMULATED
from autotune.workflows.profiling import run_profiling
from autotune.workflows.profiling_halves import MOST_LOAD_COPY_BYTES, Surroundings
from autotune.workflows.profiling_wish import ProfilingWish
from autotune.workflows.stored_profiles import look_around
from autotune.workflows.target import DEFAULT_DEVICE
from runtime.units import format_gib

MOST_S = 900
"""For one model; beyond it the model counts as not profiled."""


def measure_cost(entry: CatalogEntry, device: str) -> dict[str, object]:
    """Profile the default request of ``entry`` from nothing in this process, and say what it took."""
    begin_s = time.perf_counter()
    entry.build(entry.configs, entry.default_workload)  # imports the model's classes
    libraries_s = time.perf_counter() - begin_s
    if device == EMULATED:
        # Its times are computed; threads beyond the idle cores would wait for each other at every operator.
        torch.set_num_threads(1)
    before_bytes = _read_status_bytes("VmRSS")
    watch = PhaseWatch()
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, {CACHE_DIR_VARIABLE: folder, PROFILE_DIR_VARIABLE: folder}),
        watch.steps_watched(),
    ):
        versions = look_around(None, datetime.now(UTC)).versions
        around = Surroundings(store=ProfileStore(Path(folder)), versions=versions)
        wish = ProfilingWish(entry=watch.watched_entry(entry), effort=Effort.QUICK)
        begin_s = time.perf_counter()
        profiled = run_profiling(wish, device, find_device(DEFAULT_DEVICE), around)
        wall_s = time.perf_counter() - begin_s
    return {
        "request": profiled.model.facts.workload.describe(),
        "notes": [*profiled.model.notes, *profiled.node.notes],
        "threads": torch.get_num_threads(),
        "wall_s": wall_s,
        "seconds": {"libraries": libraries_s, **watch.seconds, "other": wall_s - sum(watch.seconds.values())},
        **describe_pieces(profiled.model.pieces),
        "host_peak_bytes": _read_status_bytes("VmHWM") - before_bytes,
        **describe_memory(profiled.model, watch),
    }


def describe_pieces(pieces: Sequence[MeasuredPiece]) -> dict[str, object]:
    """How many there are, and which of them were not measured."""
    missing: dict[str, list[str]] = {outcome: [] for outcome in ("out_of_memory", "failed", "skipped")}
    for record in (piece.record for piece in pieces):
        if record.outcome in missing:
            missing[record.outcome].append(f"{record.component} {record.name}: {record.note}")
    return {"places": sum(len(piece.places) for piece in pieces), "distinct_pieces": len(pieces), "outcomes": missing}


def describe_memory(model: ModelProfile, watch: PhaseWatch) -> dict[str, object]:
    """What the device held by phase, beside what profiling cannot do without."""
    largest = max((piece.record for piece in model.pieces), key=count_needed_bytes)
    layers = [layer for part in model.facts.model.components for stack in part.stacks for layer in stack.layers]
    layer_bytes = max(layer.run_bytes for layer in layers)
    beside_bytes = max(min(layer_bytes, MOST_LOAD_COPY_BYTES), watch.cold_bytes)
    needed_bytes = count_needed_bytes(largest) + beside_bytes
    held_bytes = {phase: use.peak_total_bytes for phase, use in watch.peaks.items()}
    return {
        "device_peaks": {phase: describe_peak(use) for phase, use in watch.peaks.items()},
        "device_peak_bytes": max(held_bytes.values()),
        "device_peak_phase": max(held_bytes, key=lambda phase: held_bytes[phase]),
        "largest_layer_bytes": layer_bytes,
        "largest_piece": {
            "name": f"{largest.component} {largest.name}",
            "weight_bytes": largest.weight_bytes,
            "inputs_bytes": sum(map(count_input_bytes, largest.inputs)),
            "rise_bytes": largest.rise_bytes,
        },
        "needed_bytes": needed_bytes,
        "peak_to_needed_ratio": max(held_bytes.values()) / needed_bytes,
    }


def count_needed_bytes(record: PieceRecord) -> int:
    """What a piece takes while it runs alone; nothing where it was not tried."""
    if record.outcome == "skipped":
        return 0
    return record.weight_bytes + (record.rise_bytes or 0) + sum(map(count_input_bytes, record.inputs))


def count_input_bytes(described: str) -> int:
    """Bytes of a tensor as a record describes it (``bfloat16[1, 4096, 3072]``)."""
    dtype, shape = re.fullmatch(r"(\w+)\[(.*)\]", described).groups()
    return int(getattr(torch, dtype).itemsize) * math.prod(int(side) for side in shape.split(",") if side.strip())


def _read_status_bytes(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1]) * 1024


def measure_apart(name: str, device: str) -> dict[str, object]:
    """``measure_cost`` in a process of its own; what goes wrong there is the result."""
    command = [sys.executable, __file__, "--device", device, "--here", name]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=MOST_S, check=False)
    except subprocess.TimeoutExpired:
        return {"model": name, "error": f"not done after {MOST_S} s"}
    if done.returncode:
        return {"model": name, "error": "\n".join(done.stderr.strip().splitlines()[-12:])}
    return {**json.loads(done.stdout.strip().splitlines()[-1]), "model": name}


def format_row(row: Mapping[str, object]) -> str:
    """One line of the table."""
    if "error" in row:
        return f"{row['model']:<16} {row['error']}"
    phases = " ".join(f"{phase} {seconds:.1f}" for phase, seconds in row["seconds"].items() if seconds >= 0.05)
    return (
        f"{row['model']:<16} {row['wall_s']:6.1f} s  {row['distinct_pieces']:>3} of {row['places']:>4} pieces  "
        f"host {format_gib(row['host_peak_bytes'])}  device {format_gib(row['device_peak_bytes'])} "
        f"({row['device_peak_phase']}), {row['peak_to_needed_ratio']:.2f} of need  {phases}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Profile every model, one process each."""
    parser = argparse.ArgumentParser(description="Time and memory of profiling each catalog model.")
    parser.add_argument("--device", default=EMULATED, help="emulated, cpu, or a card (cuda:0)")
    parser.add_argument("--only", help="names of models, separated by commas")
    parser.add_argument("--here", metavar="MODEL", help="profile one model in this process")
    parser.add_argument("--quick", action="store_true", help="one model of a few narrow layers")
    parser.add_argument("--out", type=Path, help="where to save the result")
    settings = parser.parse_args(arguments)
    if settings.here:
        print(json.dumps(measure_cost(ask_small(settings.here), settings.device)))
        return 0
    names = [find_model(name).name for name in settings.only.split(",")] if settings.only else list_model_names()
    rows: list[dict[str, object]] = []
    for name in (REDUCED,) if settings.quick else names:
        rows.append(measure_apart(name, settings.device))
        print(format_row(rows[-1]), file=sys.stderr, flush=True)
    result = {
        "benchmark": "profile_cost",
        **describe_command(__file__, arguments),
        **describe_machine(),
        "device": settings.device,
        "models": rows,
    }
    finish(result, settings.out)
    return 1 if any("error" in row or row["outcomes"]["failed"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
