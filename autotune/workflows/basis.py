"""Says what a prediction rests on: what was measured of it, and what is estimated. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.fidelity.calibrated_profile import ACTIVATIONS_RATIO, CALIBRATED, COMPUTE_RATIO
from autotune.measurements.coverage import find_coverage
from autotune.model_facts import ModelFacts
from runtime.target_summary import DeviceSummary

ESTIMATED = "estimated: work read from the model's classes, rates from datasheets and public measurements"

INTERFERENCE_FIGURE = "compute_slowdown_ratio"

_LINKS = {
    "pinned_bytes_per_s": "copies from pinned memory",
    "pageable_bytes_per_s": "copies from pageable memory",
    "disk_bytes_per_s": "reads from disk",
    INTERFERENCE_FIGURE: "how copies and compute slow each other down",
}


def describe_basis(facts: ModelFacts, device: DeviceSummary) -> str:
    """The provenance of predictions for ``facts`` on ``device``, as documents keep it."""
    if facts.source == CALIBRATED:
        return _describe_calibrated(device)
    coverage = find_coverage(facts)
    measured = [f"compute of {_join(coverage.measured)}"] if coverage.measured else []
    measured += [f"part of the compute of {_join(coverage.partly)}"] if coverage.partly else []
    measured += [words for name, words in _LINKS.items() if name in device.measured]
    if not measured:
        return ESTIMATED
    unmeasured = [f"compute of {_join(coverage.estimated)}"] if coverage.estimated else []
    unmeasured += [f"the rest of {_join(coverage.partly)}"] if coverage.partly else []
    unmeasured += [words for name, words in _LINKS.items() if name in device.figures and name not in device.measured]
    return (
        f"predicted from measurements ({'; '.join(measured)}); estimated: {'; '.join([*unmeasured, 'device memory'])}"
    )


def _describe_calibrated(device: DeviceSummary) -> str:
    words = {
        f"{figure}.{name.partition('.')[2]}": f"{word} of {name.partition('.')[2]}"
        for figure, word in ((COMPUTE_RATIO, "compute"), (ACTIVATIONS_RATIO, "activations"))
        for name in device.figures
        if name.startswith(f"{figure}.")
    }
    words |= {**_LINKS, "context_bytes": "device memory besides weights and activations"}
    fitted = [text for name, text in words.items() if _is_fitted(device, name)]
    others = [text for name, text in words.items() if name in device.figures and not _is_fitted(device, name)]
    return f"calibrated: fitted to observed runs of a server ({'; '.join(fitted)}); estimated: {'; '.join(others)}"


def _is_fitted(device: DeviceSummary, name: str) -> bool:
    return name in device.figures and device.figures[name].source.startswith(CALIBRATED)


def _join(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
