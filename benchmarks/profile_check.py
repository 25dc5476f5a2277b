"""The profiler's part of ``gpu_check``: does a profile take a minute, repeat itself, and predict what the runtime does?

1. H3 is profiled from nothing, quickly: no facts, no profile, no journal. ``wall_s`` is all of it, the capture on the
   meta device and every import that is still to be made included.
2. The same once more, back to back; ``changed`` are the figures that ``autotune profile diff`` would call changed.
3. Some of its blocks, at their real size with random weights, are executed under plans that differ in what they wait
   for. Predicted is the replay of the plan with the seconds of the layers, the rate of the link and the interference
   of the first profile; both are the time of a steady pass, from the start of one to the start of the next.

Without a card the model is a reduced one, and the device the emulated one that ``autotune profile`` uses: its times are
computed, and outside the layers none passes, so that predictions leave out what is there.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

from heavy_stack import Bench
from profiled_blocks import execute_plans
from reporting import CheckError

from autotune.capture_cache import CACHE_DIR_VARIABLE
from autotune.catalog.entry import CatalogEntry
from autotune.catalog.minimax_h3 import H3
from autotune.hardware import find_device
from autotune.measurements.difference import Difference, compare_model_profiles, compare_node_profiles
from autotune.measurements.store import ProfileStore
from autotune.measurements.timing import Effort
from autotune.workflows.profiling import Profiled, run_profiling
from autotune.workflows.profiling_halves import Surroundings
from autotune.workflows.profiling_wish import ProfilingWish
from autotune.workflows.stored_profiles import look_around
from autotune.workflows.target import DEFAULT_DEVICE

PROFILED_WITHIN_S = 60.0
"""What the profiler promises for MiniMax-H3 at 864x480."""
PREDICTED_WITHIN_RATIO = 0.10
"""The target for predictions from measurements."""
PLANS_S = 50
"""Kept free for the plans, as estimated for an H200: no second profile is begun when less would be left, which is after
a first one of 47 s or more."""


def check_profile(bench: Bench) -> dict[str, object]:
    """Profile twice, then execute plans; on a card the first profile's time is judged, the predictions everywhere."""
    entry = _choose_entry(bench)
    found: dict[str, object] = {"model": entry.name, "request": entry.default_workload.describe()}
    left_out: list[str] = []
    with tempfile.TemporaryDirectory() as cache, mock.patch.dict(os.environ, {CACHE_DIR_VARIABLE: cache}):
        first, first_s = profile_anew(bench, entry)
        found["profile"] = {"wall_s": first_s, **summarize_profile(first)}
        if not bench.is_quick and bench.deadline_s - time.perf_counter() > first_s + PLANS_S:
            second, second_s = profile_anew(bench, entry)
            found["second"] = {"wall_s": second_s, **compare_profiles(first, second)}
        else:
            left_out.append("a second profile")
    found["plans"], plans_left_out = execute_plans(bench, entry, first)
    found |= {"left_out": [*left_out, *plans_left_out], "missed": (missed := list(_list_missed(bench, found)))}
    if missed:
        raise CheckError("; ".join(missed), found)
    return found


def _choose_entry(bench: Bench) -> CatalogEntry:
    if bench.is_emulated:
        from small_h3 import SMALL_H3  # noqa: PLC0415 - its classes take seconds to import

        return SMALL_H3
    width, height = H3.smaller_canvas
    return replace(H3, default_workload=replace(H3.default_workload, width=width, height=height))


def _list_missed(bench: Bench, found: Mapping[str, object]) -> list[str]:
    """The promises that were not kept, one sentence each."""
    profile, plans = found["profile"], found["plans"]
    missed = [f"not measured: {name}" for name in profile["failed"]]
    if profile["wall_s"] > PROFILED_WITHIN_S and not bench.is_emulated:
        missed.append(f"profiling took {profile['wall_s']:.0f} s, more than {PROFILED_WITHIN_S:.0f}")
    for row in plans:
        if abs(row["error_ratio"]) > PREDICTED_WITHIN_RATIO:
            missed.append(f"{row['plan']}: a pass takes {1 + row['error_ratio']:.2f} times what was predicted")
    if len(plans) < 3:
        missed.append(f"there was time for {len(plans)} plans, of three at least")
    return missed


def profile_anew(bench: Bench, entry: CatalogEntry) -> tuple[Profiled, float]:
    """Profile the default request of ``entry``, recalling nothing, and the seconds that it took."""
    begin_s = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        versions = look_around(None, datetime.now(UTC)).versions
        around = Surroundings(store=ProfileStore(Path(folder)), versions=versions)
        wish = ProfilingWish(entry=entry, effort=Effort.QUICK)
        profiled = run_profiling(wish, bench.device.name, find_device(DEFAULT_DEVICE), around)
    took_s = time.perf_counter() - begin_s
    bench.drop_caches()
    return profiled, took_s


def summarize_profile(profiled: Profiled) -> dict[str, object]:
    """What became of the pieces, and how far their samples lie apart."""
    records = [piece.record for piece in profiled.model.pieces]
    spreads = {f"{one.component} {one.name}": one.timing.spread_ratio for one in records if one.timing is not None}
    widest = max(spreads, key=lambda name: spreads[name])
    outcomes = [record.outcome for record in records]
    return {
        "pieces": {outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))},
        "failed": [
            f"{one.component} {one.name} ({one.note})" for one in records if one.outcome in ("failed", "out_of_memory")
        ],
        "disturbed": sum(bool(record.disturbances) for record in records),
        "not_settled": sum(record.timing is not None and not record.timing.is_settled for record in records),
        "spread_ratio": {"median": statistics.median(spreads.values()), "most": spreads[widest], "most_of": widest},
        "links": len(profiled.node.links),
        "interference": {
            record.load: {"compute": record.compute_slowdown_ratio, "copy": record.copy_slowdown_ratio}
            for record in profiled.node.interference
        },
        "notes": [*profiled.model.notes, *profiled.node.notes],
    }


def compare_profiles(first: Profiled, second: Profiled) -> dict[str, object]:
    """Which figures of two profiles are called changed."""
    return {
        "model": _describe_difference(compare_model_profiles(first.model, second.model)),
        "node": _describe_difference(compare_node_profiles(first.node, second.node)),
    }


def _describe_difference(difference: Difference) -> dict[str, object]:
    changed = {change.name: change.change_ratio for change in difference.changes}
    return {"compared": len(difference.comparisons), "changed_count": len(changed), "changed": changed}
