"""The profile: facts about one model, workload and device that a plan is made from, as one versioned document."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import msgspec

from autotune.model_facts import ModelFacts
from autotune.rates import Rates
from autotune.uncertainty import Uncertainty
from runtime.documents import DocumentKind
from runtime.errors import ProfileError
from runtime.target_summary import DeviceSummary
from runtime.units import MAX_BYTES

FORMAT = "layerstream-profile"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Everything that predictions rest on.

    Attributes:
        facts: bytes, order of use and work of the model under its workload.
        rates: effective rates of the device and its link.
        context_bytes: CUDA context and kernel modules of a serving process.
        device: the device, its figures and their sources.
        uncertainty: how far predictions may be off, where runs of a server were observed; None where that follows from
            where the figures come from (``autotune.fidelity.prior``).
    """

    format: Literal["layerstream-profile"] = "layerstream-profile"
    version: Literal[1] = 1
    facts: ModelFacts
    rates: Rates
    context_bytes: int
    device: DeviceSummary
    uncertainty: Uncertainty | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.context_bytes <= MAX_BYTES:
            raise ProfileError(f"context_bytes is {self.context_bytes}: bytes lie between 0 and 2^60")
        dtypes = {work.compute_dtype for work in self.facts.work if work.groups}
        missing = sorted(dtypes - set(self.rates.matmul_flops_per_s))
        if missing:
            raise ProfileError(f"the rates lack {', '.join(missing)}, in which the model computes")

    @property
    def digest(self) -> str:
        """Identifies the facts: equal profiles have equal digests, however old they are when they are used."""
        facts = replace(self, device=replace(self.device, origin=""))
        return hashlib.sha256(msgspec.json.encode(facts, order="deterministic")).hexdigest()[:16]


PROFILE_KIND = DocumentKind(
    noun="profile",
    format=FORMAT,
    version=VERSION,
    holds=Profile,
    error=ProfileError,
    remedy="save it anew with autotune search",
)


def load_profile(path: str | Path) -> Profile:
    """Read a saved profile.

    Raises:
        ProfileError: the file cannot be read, is no profile, or is of a version that this program does not know.
    """
    return PROFILE_KIND.load(path)


def encode_profile(profile: Profile) -> bytes:
    """``profile`` as JSON."""
    return msgspec.json.encode(profile) + b"\n"
