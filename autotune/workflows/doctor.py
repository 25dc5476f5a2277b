"""Gathers what is known of this machine and says what a user can do about its problems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from autotune.host_memory import HostReading, Problem, read_host_memory
from autotune.telemetry.machine import MachineReport
from autotune.telemetry.reading import GpuReading
from autotune.telemetry.software import SoftwareVersion, read_software
from autotune.telemetry.survey import GpuSurvey, Missing, Surroundings, survey_gpus
from autotune.telemetry.throttling import DISTURBING
from runtime.hosting import spendable_pin_bytes
from runtime.units import format_gib, format_percent

_MOST_OTHERS_RATIO = 0.05
"""Share of a card that others may hold before it is worth a word: a judgement, not a measurement."""

_FULL_LANES = 16
_MODEL_PACKAGES = ("torch", "diffusers", "transformers")

_BUSY_RATIO = 0.1
"""From this utilisation on a card is not idle, as timing on it needs it to be: a judgement, not a measurement."""

_INSTALL_DRIVER = (
    "to use one here install NVIDIA's driver and check that `nvidia-smi` lists it (in a container: start it with the "
    "GPU passed through)"
)
_REMEDIES = {
    Missing.MODULE: "to use one here install the Python package nvidia-ml-py anew (`pip install --force-reinstall "
    "nvidia-ml-py`)",
    Missing.DRIVER: _INSTALL_DRIVER,
    Missing.CARD: _INSTALL_DRIVER,
    Missing.INSTANCE: "to use this one create an instance of it (`nvidia-smi mig -cgi PROFILE -C`), or leave MIG mode "
    "(`nvidia-smi -mig 0`)",
}
"""What to do where no GPU is known."""


def gather_machine(where: Surroundings | None = None, profiles: Sequence[str] = ()) -> MachineReport:
    """Read the machine. Never fails: what cannot be read is unknown, with its reason.

    Args:
        where: where to look; None for this process and this machine.
        profiles: sentences about stored profiles.
    """
    where = where or Surroundings()
    host = where.host or read_host_memory()
    gpus = survey_gpus(replace(where, host=host))
    software = read_software()
    problems = (*_check_gpus(gpus), *_check_host(host), *_check_software(software))
    return MachineReport(gpus=gpus, host=host, software=software, profiles=tuple(profiles), problems=problems)


def _check_gpus(gpus: GpuSurvey) -> Iterator[Problem]:
    if gpus.missing is not None:
        yield Problem(
            what=f"no GPU is known: {gpus.explanation}",
            remedy=f"plan for a card by name with --device; {_REMEDIES[gpus.missing]}",
        )
    elif not gpus.is_settled:
        yield Problem(
            what="which GPU this process would use cannot be told",
            remedy="set CUDA_VISIBLE_DEVICES to the UUID of the one you mean, as `nvidia-smi -L` prints it",
        )
    elif not gpus.used:
        yield Problem(
            what=f"this process sees no GPU: {gpus.explanation}",
            remedy="unset CUDA_VISIBLE_DEVICES, or set it to the UUID of a card listed above",
        )
    for reason in gpus.lost:
        yield Problem(
            what=f"a GPU does not answer: {reason}",
            remedy="look for Xid errors in the kernel's log; restart the machine if it has fallen off the bus",
        )
    for at in gpus.used:
        yield from _check_gpu(gpus.readings[at])


def _check_gpu(gpu: GpuReading) -> Iterator[Problem]:
    name = gpu.title or "the GPU"
    if gpu.is_unified:
        yield Problem(
            what=f"{name} shares the host's memory: there is no link to stream over",
            remedy="load the weights once; plans of this program are for cards with memory of their own",
        )
    elif gpu.total_bytes is None:
        yield Problem(
            what=f"the memory of {name} is unknown: {gpu.unknown.get('total_bytes', 'the driver does not tell it')}",
            remedy="name the nearest card with --device and what may be used of it with --vram-cap",
        )
    elif gpu.others_bytes is not None and gpu.others_bytes > _MOST_OTHERS_RATIO * gpu.total_bytes:
        pids = ", ".join(str(process.pid) for process in gpu.processes or ())
        yield Problem(
            what=f"others hold {format_gib(gpu.others_bytes)} of {name}{f' (process {pids})' if pids else ''}",
            remedy="end them before profiling or serving; otherwise plans can use only what is free",
        )
    throttled = sorted(DISTURBING.intersection(gpu.throttle_reasons or ()))
    if throttled:
        yield Problem(
            what=f"{name} is throttled: {', '.join(throttled)}",
            remedy="improve cooling or raise its power limit (`nvidia-smi -q -d PERFORMANCE,POWER`) before profiling",
        )
    if gpu.utilization_ratio is not None and gpu.utilization_ratio >= _BUSY_RATIO:
        yield Problem(
            what=f"{name} is {format_percent(gpu.utilization_ratio)} busy",
            remedy="wait until it is idle before profiling: times taken now would not be its own",
        )
    if gpu.link_max is not None and gpu.link_max.lanes < _FULL_LANES:
        yield Problem(
            what=f"{name} has a PCIe link of {gpu.link_max.lanes} lanes at the most",
            remedy="if the card has 16, move it to a slot that has them: streamed layers take as long as the link does",
        )


def _check_host(host: HostReading) -> Iterator[Problem]:
    yield from host.problems
    if host.memlock.binds:
        yield Problem(
            what=f"locked memory is limited ({host.memlock.describe()})",
            remedy="drivers differ in whether pins count against it; where they are refused although memory is free, "
            "raise it: `ulimit -l unlimited`, in a container `--ulimit memlock=-1`",
        )
    available_bytes = host.safe_available_bytes
    if available_bytes and not spendable_pin_bytes(available_bytes):
        yield Problem(
            what=f"of {format_gib(available_bytes)} available host memory nothing may be pinned, all is reserve",
            remedy="end other programs, or raise the memory limit of this container",
        )


def _check_software(software: Sequence[SoftwareVersion]) -> Iterator[Problem]:
    missing = [each.name for each in software if each.version is None and each.name in _MODEL_PACKAGES]
    if missing:
        yield Problem(
            what=f"not installed: {', '.join(missing)}",
            remedy="catalog models and profiles need them (`pip install 'layerstream-autotune[models]'`); planning "
            "from a saved profile does not",
        )
