"""How far the figures of a prediction may be off, as one normal distribution over a few factors. Pure.

Each factor changes a figure of the prediction; what is known of the factors is their covariance, so that what varies
together cancels in differences.

===========================  =======================================================================================
``copy``                     logarithm of the seconds per byte copied from and to pinned memory
``pageable``                 logarithm of the seconds per byte of pageable memory, or of the page cache
``disk``                     logarithm of the seconds per byte read from disk
``compute.<component>``      logarithm of the seconds of all compute of one component
``pass_s``                   seconds that each pass takes outside its layers besides what is predicted
``use_s``                    seconds that each use takes besides what is predicted
``base_bytes``               device bytes besides weights and activations, besides what is predicted
``activations.<component>``  logarithm of the bytes of activations in its uses, and of what is reserved for them
===========================  =======================================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from runtime.errors import InputError

COMPUTE_PREFIX = "compute."
ACTIVATIONS_PREFIX = "activations."
_PLAIN_FACTORS = ("copy", "pageable", "disk", "pass_s", "use_s", "base_bytes")


def is_factor(name: str) -> bool:
    """Whether ``name`` is one of the factors."""
    prefixed = any(name.startswith(prefix) and name != prefix for prefix in (COMPUTE_PREFIX, ACTIVATIONS_PREFIX))
    return prefixed or name in _PLAIN_FACTORS


def is_memory_factor(name: str) -> bool:
    """Whether ``name`` changes bytes; the others change times."""
    return name == "base_bytes" or name.startswith(ACTIVATIONS_PREFIX)


def is_added_time(name: str) -> bool:
    """Whether ``name`` adds seconds, which are never less than nothing."""
    return name in {"pass_s", "use_s"}


def is_logarithmic(name: str) -> bool:
    """Whether ``name`` multiplies by its exponential; the others add."""
    return not is_added_time(name) and name != "base_bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncertainty:
    """Covariance of the factors that are not exact.

    Attributes:
        names: of the factors.
        covariance: square, in the order of ``names``, each in its unit above.
        repeat_ratio: standard deviation of repeated runs of one configuration, as a share of their latency.
        sources: factor -> where its spread comes from.
    """

    names: tuple[str, ...]
    covariance: tuple[tuple[float, ...], ...]
    repeat_ratio: float
    sources: dict[str, str]

    def __post_init__(self) -> None:
        if strange := [name for name in self.names if not is_factor(name) or self.names.count(name) > 1]:
            raise InputError(f"{', '.join(strange)}: no uncertain factor, or named twice")
        size = len(self.names)
        if len(self.covariance) != size or any(len(row) != size for row in self.covariance):
            raise InputError(f"the covariance of {size} factors has {size} rows of {size}")
        for index, row in enumerate(self.covariance):
            if not all(math.isfinite(value) for value in row) or row[index] < 0:
                raise InputError(f"the variance of {self.names[index]} is {row[index]}: it is finite and not negative")
        if not (math.isfinite(self.repeat_ratio) and 0 <= self.repeat_ratio < 1):
            raise InputError(f"repeat_ratio is {self.repeat_ratio}: a share from 0 to below 1")
        if missing := [name for name in self.names if not self.sources.get(name, "").strip()]:
            raise InputError(f"the spread of {', '.join(missing)} needs a source")

    def sd_of(self, name: str) -> float:
        """Standard deviation of one factor; 0 for one that is exact."""
        if name not in self.names:
            return 0.0
        index = self.names.index(name)
        return math.sqrt(self.covariance[index][index])
