"""The half of a profile that stays with one machine: links, disk, budgets, neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from autotune.measurements.model_profile import DeviceKind
from autotune.measurements.records import InterferenceRecord, LinkRecord, Record
from autotune.measurements.timing import Effort
from runtime.documents import DocumentKind
from runtime.errors import ProfileError
from runtime.target_summary import Figure

FORMAT = "layerstream-node-profile"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFingerprint:
    """What tells one machine with one of its devices from all others.

    Attributes:
        machine: a digest of the system's own identity; never the identity itself.
        cpu: title of the processor.
        kernel: release of the system.
        device: how the device is named there (``cuda:0``, ``cpu``, ``emulated``).
        device_uuid: of the card; empty where there is none.
        kind: of the device.
    """

    machine: str
    cpu: str
    kernel: str
    device: str
    device_uuid: str
    kind: DeviceKind


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeProfile:
    """Facts about one machine and one of its devices.

    Attributes:
        node: which.
        versions: of the software that was running, ``driver`` among them.
        effort: how long was measured.
        links: copies and reads, by kind and size.
        interference: what compute and copies do to each other, one record per load.
        figures: budgets and constants by name (``vram_total_bytes``, ``context_bytes``, ``host_available_bytes``,
            ``pin_s_per_byte``...), each with its source.
        unknown: figures that could not be read, each with the reason.
        neighbours: what else uses the device or its link, one sentence each.
        warnings: what a user should act on, one sentence each.
        measured_at: when the oldest of its timings was made, ISO 8601 in UTC.
        notes: what limits it, one sentence each.
    """

    format: Literal["layerstream-node-profile"] = "layerstream-node-profile"
    version: Literal[1] = 1
    node: NodeFingerprint
    versions: dict[str, str]
    effort: Effort
    links: tuple[LinkRecord, ...]
    interference: tuple[InterferenceRecord, ...]
    figures: dict[str, Figure]
    measured_at: str
    unknown: dict[str, str] = field(default_factory=dict)
    neighbours: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        seen = [(link.kind, link.size_bytes) for link in self.links]
        if len(set(seen)) != len(seen):
            raise ProfileError("a node profile holds two figures for the same link and size: keep the later one")
        if both := sorted(set(self.figures) & set(self.unknown)):
            raise ProfileError(f"{', '.join(both)} cannot be both known and unknown")


def carry_over(profile: NodeProfile, earlier: NodeProfile, is_usable: Callable[[Record], bool]) -> NodeProfile:
    """``profile`` with the links and the interference of ``earlier`` that are usable still and were not measured again.

    They are of other models' layers, or of a disk that was not named this time.
    """
    sizes = {(link.kind, link.size_bytes) for link in profile.links}
    loads = {record.load for record in profile.interference}
    kept = (link for link in earlier.links if (link.kind, link.size_bytes) not in sizes and is_usable(link))
    links = sorted(
        (*profile.links, *(replace(link, is_layer_size=False) for link in kept)), key=lambda link: -link.size_bytes
    )
    interference = (record for record in earlier.interference if record.load not in loads and is_usable(record))
    return replace(profile, links=tuple(links), interference=(*profile.interference, *interference))


NODE_PROFILE_KIND = DocumentKind(
    noun="node profile",
    format=FORMAT,
    version=VERSION,
    holds=NodeProfile,
    error=ProfileError,
    remedy="measure it again with autotune profile",
)


def load_node_profile(path: str | Path) -> NodeProfile:
    """Read a node profile.

    Raises:
        ProfileError: the file cannot be read, is none, or is of another version.
    """
    return NODE_PROFILE_KIND.load(path)
