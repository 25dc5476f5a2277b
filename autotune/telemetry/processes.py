"""Which of a card's processes is this one, where that can be told.

In a container the driver may number processes as the host does, as the container does, or hide all but the caller; so a
number that equals ours proves nothing there. Source: nvidia-docker #1483, open-gpu-kernel-modules #614, HAMi-core #112.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.host_memory.namespaces import read_namespaces
from autotune.host_memory.tree import ControlFiles
from autotune.telemetry.answers import Answer, Unknown
from autotune.telemetry.nvml_device import GpuProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnProcess:
    """This process as the driver may see it.

    Attributes:
        pid: its number.
        has_pid_namespace: whether the number is only its container's; None when unknown, which counts as True.
        has_context: whether it has opened a CUDA device, so that it must be among a card's processes.
    """

    pid: int
    has_pid_namespace: bool | None
    has_context: bool


def find_own_process(*, has_context: bool) -> OwnProcess:
    """This process; ``has_context`` says whether it has opened a CUDA device."""
    namespaces = read_namespaces(ControlFiles(""))
    return OwnProcess(pid=os.getpid(), has_pid_namespace=namespaces.has_own_pids, has_context=has_context)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The processes of a card, told apart.

    Attributes:
        own_bytes: device memory of this process.
        other_count: how many others there are.
        others: the others; unknown where this one cannot be picked out.
    """

    own_bytes: Answer[int]
    other_count: int
    others: Answer[tuple[GpuProcess, ...]]


def split_processes(listed: Sequence[GpuProcess], own: OwnProcess) -> Split:
    """Pick this process out of the ``listed`` ones."""
    by_pid = {process.pid: process for process in listed}
    processes = tuple(by_pid.values())
    if not own.has_context:
        return Split(own_bytes=0, other_count=len(processes), others=processes)
    if not processes:
        return Split(own_bytes=Unknown(reason="the driver lists no process"), other_count=0, others=())
    if own.has_pid_namespace is False and own.pid in by_pid:
        mine = by_pid[own.pid]
        others = tuple(process for process in processes if process is not mine)
    elif len(processes) == 1:
        mine, others = processes[0], ()
    else:
        unknown = Unknown(reason="this process cannot be picked out of those that the driver lists")
        return Split(own_bytes=unknown, other_count=len(processes) - 1, others=unknown)
    hidden = Unknown(reason="the driver does not tell the device memory of this process")
    return Split(
        own_bytes=hidden if mine.used_bytes is None else mine.used_bytes, other_count=len(others), others=others
    )
