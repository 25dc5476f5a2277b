"""Words for factors, and for what a prediction's spread comes from. Pure."""

from __future__ import annotations

from autotune.fidelity.calibrated_profile import CALIBRATED
from autotune.fidelity.prior import MEASURED
from autotune.fidelity.spread import REPEATS
from autotune.uncertainty import ACTIVATIONS_PREFIX, COMPUTE_PREFIX, Uncertainty

_WORDS = {
    "copy": "copies from and to pinned memory",
    "pageable": "copies from pageable memory",
    "disk": "reads from disk",
    "pass_s": "what each pass takes besides its layers",
    "use_s": "what each use takes besides its passes",
    "base_bytes": "device memory besides weights and activations",
}


def describe_cause(name: str, uncertainty: Uncertainty) -> str:
    """The factor ``name``, or ``REPEATS``, and how well it is known: "compute of vae (estimated)"."""
    if name == REPEATS:
        return "what repeated runs differ by"
    source = uncertainty.sources[name]
    known = "calibrated" if source.startswith(CALIBRATED) else "measured" if source == MEASURED else "estimated"
    return f"{describe_factor(name)} ({known})"


def describe_factor(name: str) -> str:
    """A factor in words."""
    for prefix, word in ((COMPUTE_PREFIX, "compute"), (ACTIVATIONS_PREFIX, "activations")):
        if name.startswith(prefix):
            return f"{word} of {name.removeprefix(prefix)}"
    return _WORDS[name]
