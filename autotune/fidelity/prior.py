"""How far predictions may be off before any run of the server was observed. Pure.

The spreads are judgements, checked against the public measurements: ``docs/decisions/011`` says how many of these lie
within the intervals that follow from them.

====================  =========  =====================================================================================
copies, estimated     25 %       one card's pinned rate on several hosts: 36 to 51 GB/s (RTX 5090), 11 GB/s where rented
copies, measured      3 %        the profiler's own repeats of large copies
pageable, estimated   50 %       2.6 to 6 GB/s on one host (FastVideo #1836)
disk, estimated       60 %       3.4 to 10 GB/s for NVMe drives (sglang #35816, #38441)
compute, estimated    25 + 20 %  efficiency ratios of the presets, common to all components; and each one's own
compute, measured     10 %       sums of measured pieces against whole runs, 0.94 to 1.16 (``results/pieces.json``)
each pass, each use   5 %, 20 ms host-side work, which no prediction has; of a pass's compute
activations           6 + 8 %    graphs of the library against the server's code, common and of each component: whole
                                 peaks of single cards are off by 0 to 6 % (PM093, PM108, PM266, PM302 to PM306)
base                  640 MiB    contexts, workspaces, what servers keep beside: 0.2 to 0.7 GiB (PM004, PM108)
====================  =========  =====================================================================================
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autotune.fidelity.surrogate import Matrix
from autotune.model_facts import ModelFacts
from autotune.profile import Profile
from autotune.rates import Rates
from autotune.uncertainty import ACTIVATIONS_PREFIX, COMPUTE_PREFIX, Uncertainty
from runtime.target_summary import DeviceSummary
from runtime.units import MIB

REPEAT_RATIO = 0.02
"""The spread that public repeats of one configuration show: 269.5 and 273.8 s (PM045), 19.95 and 19.97 s (PM100)."""

_COPY, _COPY_MEASURED = 0.25, 0.03
_PAGEABLE, _PAGEABLE_MEASURED = 0.5, 0.1
_DISK, _DISK_MEASURED = 0.6, 0.15
_COMPUTE_COMMON, _COMPUTE_OWN, _COMPUTE_MEASURED = 0.25, 0.2, 0.1
_PASS_SHARE, _USE_S = 0.05, 0.02
_ACTIVATIONS_COMMON, _ACTIVATIONS_OWN = 0.06, 0.08
_BASE_BYTES = 640 * MIB

_ESTIMATED = "judged from public measurements of other machines and runs"
MEASURED = "what the profiler's own repeats and sums differ by"


def derive_uncertainty(facts: ModelFacts, rates: Rates, device: DeviceSummary) -> Uncertainty:
    """What is known of the factors of ``facts`` on ``device`` from where its figures come from."""
    names: list[str] = []
    sds: list[float] = []
    sources: dict[str, str] = {}

    def add(name: str, sd: float, *, is_measured: bool = False) -> None:
        names.append(name)
        sds.append(sd)
        sources[name] = MEASURED if is_measured else _ESTIMATED

    for name, figure, estimated, repeated in (
        ("copy", "pinned_bytes_per_s", _COPY, _COPY_MEASURED),
        ("pageable", "pageable_bytes_per_s", _PAGEABLE, _PAGEABLE_MEASURED),
        ("disk", "disk_bytes_per_s", _DISK, _DISK_MEASURED),
    ):
        is_measured = figure in device.measured
        add(name, repeated if is_measured else estimated, is_measured=is_measured)
    add("pass_s", max(_PASS_SHARE * _main_pass_s(facts, rates), 1e-4))
    add("use_s", _USE_S)
    add("base_bytes", _BASE_BYTES)
    components = list(dict.fromkeys(work.component for work in facts.work if work.groups or work.outside.flops))
    measured = {work.component for work in facts.work if _is_measured(facts, work.component)}
    for component in components:
        is_measured = component in measured
        common = 0.0 if is_measured else _COMPUTE_COMMON
        own = _COMPUTE_MEASURED if is_measured else _COMPUTE_OWN
        add(COMPUTE_PREFIX + component, float(np.hypot(common, own)), is_measured=is_measured)
    for component in components:
        add(ACTIVATIONS_PREFIX + component, float(np.hypot(_ACTIVATIONS_COMMON, _ACTIVATIONS_OWN)))
    covariance = np.diag(np.square(sds))
    estimated_compute = [COMPUTE_PREFIX + component for component in components if component not in measured]
    _correlate(covariance, [names.index(name) for name in estimated_compute], _COMPUTE_COMMON)
    activations = [index for index, name in enumerate(names) if name.startswith(ACTIVATIONS_PREFIX)]
    _correlate(covariance, activations, _ACTIVATIONS_COMMON)
    return Uncertainty(
        names=tuple(names),
        covariance=tuple(tuple(float(value) for value in row) for row in covariance),
        repeat_ratio=REPEAT_RATIO,
        sources=sources,
    )


def find_own_uncertainty(profile: Profile | None, facts: ModelFacts, device: str) -> Uncertainty | None:
    """What ``profile`` says of the factors of ``facts`` on ``device``.

    None without a profile, or where it is of another device, model, variant, request or number of ranks: a spread that
    was fitted to one request says nothing of the compute of another.
    """
    if profile is None or profile.device.name != device:
        return None
    theirs, own = ((item.model.name, item.variant, item.workload, item.tp_size) for item in (profile.facts, facts))
    return profile.uncertainty if theirs == own else None


def forget_factor(uncertainty: Uncertainty, name: str, prior: Uncertainty) -> Uncertainty:
    """``uncertainty`` with what ``prior`` says of the factor ``name``, alone: its figure was replaced by another."""
    if name not in uncertainty.names:
        return uncertainty
    index = uncertainty.names.index(name)
    covariance = np.asarray(uncertainty.covariance, dtype=np.float64)
    covariance[index, :] = covariance[:, index] = 0.0
    covariance[index, index] = prior.sd_of(name) ** 2
    return replace(
        uncertainty,
        covariance=tuple(tuple(float(value) for value in row) for row in covariance),
        sources={**uncertainty.sources, name: prior.sources.get(name, _ESTIMATED)},
    )


def _correlate(covariance: Matrix, indices: list[int], common: float) -> None:
    """Make the factors at ``indices`` share a part with standard deviation ``common``."""
    for first in indices:
        for second in indices:
            if first != second:
                covariance[first, second] = common**2


def _main_pass_s(facts: ModelFacts, rates: Rates) -> float:
    """Compute of a pass of the pass group that has most of them."""
    found = [
        (group.passes, use_index, index)
        for use_index, use in enumerate(facts.request.uses)
        for index, group in enumerate(use.groups)
    ]
    if not found:
        return 0.0
    _, use_index, index = max(found)
    work = facts.work[use_index]
    group = work.groups[index]
    layers = (layer for stack in group.layers.values() for layer in stack)
    return sum(rates.estimate_work_s(layer, work.compute_dtype) for layer in (*layers, group.outside))


def _is_measured(facts: ModelFacts, component: str) -> bool:
    """Whether most of the compute of ``component`` is measured seconds instead of counts."""
    pieces = [
        piece
        for use in facts.work
        if use.component == component
        for group in use.groups
        for piece in (*(layer for stack in group.layers.values() for layer in stack), group.outside)
    ]
    return any(piece.measured_s > 0 for piece in pieces) and not any(piece.flops > 0 for piece in pieces)
