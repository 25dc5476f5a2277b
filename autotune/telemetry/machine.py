"""Everything that is known of this machine, in one value."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.host_memory import HostReading, Problem
from autotune.telemetry.software import SoftwareVersion
from autotune.telemetry.survey import GpuSurvey


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineReport:
    """The machine as this process sees it.

    Attributes:
        gpus: its devices.
        host: its memory.
        software: what is installed.
        profiles: sentences about stored profiles.
        problems: what gets in the way, with remedies.
    """

    gpus: GpuSurvey
    host: HostReading
    software: tuple[SoftwareVersion, ...]
    profiles: tuple[str, ...]
    problems: tuple[Problem, ...]
