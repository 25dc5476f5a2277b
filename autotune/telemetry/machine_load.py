"""How busy this machine's processors have been, and what of it was this process. Reads /proc/stat; no libraries."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from autotune.host_memory.tree import ControlFiles, parse_number
from autotune.telemetry.answers import Answer, Unknown

_STAT = PurePosixPath("/proc/stat")
# user nice system idle iowait irq softirq steal: see proc_stat(5). Guests are counted in user and nice already; what a
# hypervisor steals is lost to this process, too.
_FIELDS = 8
_IDLE, _IOWAIT = 3, 4

SHORTEST_S = 0.2
"""Processor time is counted in ticks of 10 ms: over a shorter span a single tick would pass for a busy machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineLoad:
    """Processor time up to one instant.

    Attributes:
        at_s: the instant, on the monotonic clock.
        busy_s: processor time of all processes of the machine since it was started.
        own_s: processor time of this process.
        cpus: processors of the machine.
    """

    at_s: float
    busy_s: float
    own_s: float
    cpus: int

    def other_ratio(self, later: MachineLoad) -> float | None:
        """Share 0..1 of all processors that others kept busy up to ``later``; None for less than ``SHORTEST_S``."""
        elapsed_s = later.at_s - self.at_s
        if elapsed_s < SHORTEST_S:
            return None
        others_s = (later.busy_s - self.busy_s) - (later.own_s - self.own_s)
        return min(1.0, max(0.0, others_s / (elapsed_s * later.cpus)))


def read_machine_load(
    files: ControlFiles | None = None,
    *,
    clock: Callable[[], float] = time.monotonic,
    own_s: Callable[[], float] = time.process_time,
    ticks_per_s: int | None = None,
) -> Answer[MachineLoad]:
    """Read processor time now.

    Args:
        files: of the machine; None for this one's.
        clock: monotonic seconds.
        own_s: processor time of this process.
        ticks_per_s: unit of /proc/stat; None to ask the system.
    """
    text = (files or ControlFiles("")).read_text(_STAT)
    lines = [line.split() for line in (text or "").splitlines() if line.startswith("cpu")]
    figures = [parse_number(part) for part in lines[0][1 : _FIELDS + 1]] if lines else []
    cpus = len(lines) - 1
    if len(figures) < _FIELDS or None in figures or cpus < 1:
        return Unknown(reason=f"{_STAT} does not tell how busy the processors are")
    numbers = [figure or 0 for figure in figures]
    busy = sum(numbers) - numbers[_IDLE] - numbers[_IOWAIT]
    ticks = os.sysconf("SC_CLK_TCK") if ticks_per_s is None else ticks_per_s
    return MachineLoad(at_s=clock(), busy_s=busy / ticks, own_s=own_s(), cpus=cpus)
