"""The half of a profile that travels with a kind of device: how long a model's layers take, and what they need."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from autotune.measurements.records import PieceRecord
from autotune.measurements.timing import Effort
from autotune.model_facts import ModelFacts
from runtime.documents import DocumentKind
from runtime.errors import ProfileError
from runtime.units import MAX_BYTES

FORMAT = "layerstream-model-profile"
VERSION = 1

Backend = Literal["cuda", "cpu", "emulated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceKind:
    """What two devices share on which a model takes the same time.

    Attributes:
        backend: how it is driven.
        title: what the driver calls it.
        memory_bytes: all of it; 0 where the device has none of its own.
        capability: compute capability of a CUDA card; empty elsewhere.
    """

    backend: Backend
    title: str
    memory_bytes: int
    capability: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.memory_bytes <= MAX_BYTES:
            raise ProfileError(f"{self.title} has {self.memory_bytes} bytes of memory: bytes lie between 0 and 2^60")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How the layers were run.

    Attributes:
        attention: the backend of scaled dot-product attention that torch was held to; ``auto`` for its own choice.
        autocast: dtype of torch's autocast; ``none`` for none.
        compiled: whether every piece was compiled by torch.
    """

    attention: str = "auto"
    autocast: str = "none"
    compiled: bool = False

    def describe(self) -> str:
        """The options in a few words."""
        compiled = "compiled" if self.compiled else "not compiled"
        return f"attention {self.attention}, autocast {self.autocast}, {compiled}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPiece:
    """A record, and where the model has the piece.

    Attributes:
        record: what was measured.
        places: names of all places that are alike (``blocks[0]``, ``blocks[1]``, ...).
        calls: how often all of them together are called in ``passes`` passes of their component.
        passes: as above.
    """

    record: PieceRecord
    places: tuple[str, ...]
    calls: int
    passes: int

    def __post_init__(self) -> None:
        if self.calls < 1 or self.passes < 1 or not self.places:
            raise ProfileError(f"{self.record.component} {self.record.name} is called nowhere: it belongs to no model")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """Times and memory of one model under one workload on one kind of device.

    Attributes:
        facts: bytes, order of use and work of the model; seconds where they were measured, counts where not.
        facts_key: identifies what the facts depend on: configurations, workload, library versions, capture code.
        kind: of the device.
        versions: of the software that was running: ``torch``, ``diffusers``, ``transformers``, ``driver`` and so on.
        options: how layers were run.
        effort: asked for by the last run: parts kept from an earlier one may have less.
        pieces: every piece of every profiled component, in order of first use.
        components: names of the components that were profiled; the times of others are estimates.
        flops_per_s: per dtype, what the measured pieces reach in all; the rate for what was not measured.
        memory_bytes_per_s: the same for device memory.
        measured_at: when the oldest of its timings was made, ISO 8601 in UTC.
        notes: what limits it, one sentence each.
    """

    format: Literal["layerstream-model-profile"] = "layerstream-model-profile"
    version: Literal[1] = 1
    facts: ModelFacts
    facts_key: str
    kind: DeviceKind
    versions: dict[str, str]
    options: RunOptions
    effort: Effort
    pieces: tuple[MeasuredPiece, ...]
    components: tuple[str, ...]
    flops_per_s: dict[str, float]
    memory_bytes_per_s: float
    measured_at: str
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known = {component.name for component in self.facts.model.components}
        strange = sorted(({piece.record.component for piece in self.pieces} | set(self.components)) - known)
        if strange:
            raise ProfileError(
                f"the profile of {self.facts.model.name} has pieces of {', '.join(strange)}, no part of it"
            )
        unlike = sorted({piece.record.component for piece in self.pieces} ^ set(self.components))
        if unlike or not self.components:
            raise ProfileError(
                f"the profile of {self.facts.model.name} has pieces of other components than it says were profiled "
                f"({', '.join(unlike) or 'none at all'}): every profiled component has some, and no other has any"
            )


MODEL_PROFILE_KIND = DocumentKind(
    noun="model profile",
    format=FORMAT,
    version=VERSION,
    holds=ModelProfile,
    error=ProfileError,
    remedy="measure it again with autotune profile",
)


def load_model_profile(path: str | Path) -> ModelProfile:
    """Read a model profile.

    Raises:
        ProfileError: the file cannot be read, is none, or is of another version.
    """
    return MODEL_PROFILE_KIND.load(path)
