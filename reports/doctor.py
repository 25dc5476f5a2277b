"""The machine as tables and sentences. Pure: a report in, text out."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from autotune.host_memory import HostReading
from autotune.telemetry.machine import MachineReport
from autotune.telemetry.reading import GpuReading
from reports.tables import Table
from runtime.units import format_gib, format_percent

_COLUMNS = ("figure", "value", "where it comes from")
_UNKNOWN = "unknown"
# "GPU-" and eight digits: what people tell cards by, and CUDA takes a unique beginning for the whole.
_UUID_BEGINNING = 12


def gpu_tables(report: MachineReport) -> tuple[Table, ...]:
    """A list where there are several devices, and every figure of the one that this process would use."""
    readings, used = report.gpus.readings, report.gpus.used
    tables = [_gpu_list(report)] if len(readings) > 1 else []
    shown = used[0] if used else 0 if len(readings) == 1 else None
    if shown is not None:
        gpu = readings[shown]
        mark = ", one of several that are alike" if len(used) > 1 else ""
        title = ", ".join(part for part in (f"GPU {gpu.title or 'without a name'}", gpu.uuid) if part)
        tables.append(_table(f"{title}{mark}", _gpu_rows(gpu)))
    return tuple(tables)


def _gpu_list(report: MachineReport) -> Table:
    used = report.gpus.used
    mark = "perhaps" if len(used) > 1 else "yes"
    rows = tuple(
        (
            gpu.title or "without a name",
            mark if at in used else "",
            _gib(gpu.total_bytes),
            _gib(gpu.free_bytes),
            _UNKNOWN if gpu.uuid is None else gpu.uuid[:_UUID_BEGINNING],
        )
        for at, gpu in enumerate(report.gpus.readings)
    )
    columns = ("GPU", "used", "VRAM", "free", "UUID begins with")
    return Table(title="GPUs", columns=columns, rows=rows, numeric=frozenset(columns[2:4]), foldable=frozenset({"GPU"}))


def host_table(report: MachineReport) -> Table:
    """Host memory with the limit that binds, and what of the machine this process cannot see."""
    return _table("Host memory", _host_rows(report.host))


def software_table(report: MachineReport) -> Table:
    """Installed versions."""
    rows = tuple((each.name, each.version or "not installed") for each in report.software)
    return Table(title="Software", columns=("program", "version"), rows=rows)


def describe_choice(report: MachineReport) -> str:
    """Which device this process would use, in one sentence."""
    gpus = report.gpus
    if not gpus.used:
        return f"GPU of this process: {'none' if gpus.is_settled else _UNKNOWN}, {gpus.explanation}."
    titles = sorted({gpus.readings[at].title or "a card without a name" for at in gpus.used})
    return f"GPU of this process: {', '.join(titles)}; {gpus.explanation}."


def describe_problems(report: MachineReport) -> tuple[str, ...]:
    """Every problem with its remedy."""
    return tuple(f"{problem.what}. What to do: {problem.remedy}." for problem in report.problems)


def build_plain(report: MachineReport) -> dict[str, object]:
    """The report as plain values for JSON, with the figures that are derived from others."""
    plain: dict[str, object] = msgspec.to_builtins(report)
    host, binding = report.host, report.host.binding
    derived: dict[str, object] = {"safe_available_bytes": host.safe_available_bytes, "limit_bytes": host.limit_bytes}
    if binding is not None:
        derived |= {"binding_file": f"{binding.directory}/{binding.file}", "binding_throttles": binding.throttles}
    return {**plain, "host": {**msgspec.to_builtins(host), **derived}}


def _table(title: str, rows: Iterator[tuple[str, str, str]]) -> Table:
    return Table(title=title, columns=_COLUMNS, rows=tuple(rows), foldable=frozenset(_COLUMNS[1:]))


def _gpu_rows(gpu: GpuReading) -> Iterator[tuple[str, str, str]]:
    """Figures that are known or should be; the title has the UUID, and what does not apply has no row."""
    if gpu.uuid is None:
        yield "UUID", _UNKNOWN, gpu.unknown.get("uuid", "")
    for field, name in _GPU_FIGURES.items():
        if gpu.is_unified and field.startswith("link_"):
            continue
        value = getattr(gpu, field)
        if value is not None:
            yield name, _format(field, value), gpu.sources[field]
        elif field in gpu.unknown:
            yield name, _UNKNOWN, gpu.unknown[field]


_GPU_FIGURES = {
    "bus_id": "PCI address",
    "compute_capability": "compute capability",
    "driver": "driver",
    "mig_profile": "MIG profile",
    "is_unified": "memory",
    "shared_capacity_bytes": "shared memory",
    "shared_available_bytes": "shared, available",
    "total_bytes": "VRAM",
    "usable_bytes": "VRAM, usable",
    "free_bytes": "VRAM, free",
    "own_bytes": "VRAM, this process",
    "context_bytes": "VRAM, its context",
    "others_bytes": "VRAM, others",
    "processes": "other processes",
    "link_max": "PCIe, at most",
    "link_current": "PCIe, now",
    "sm_clock_mhz": "clock",
    "max_sm_clock_mhz": "clock, at most",
    "memory_clock_mhz": "memory clock",
    "temperature_c": "temperature",
    "power_w": "power",
    "throttle_reasons": "clock limited by",
    "utilization_ratio": "busy",
}


def _format(field: str, value: object) -> str:
    if isinstance(value, bool):
        return "shared with the host" if value else "of its own"
    if isinstance(value, tuple):
        return _format_tuple(field, value)
    if isinstance(value, int | float):
        return _format_number(field, value)
    describe = getattr(value, "describe", None)
    return str(value) if describe is None else str(describe())


def _format_number(field: str, value: float) -> str:
    if field.endswith("_bytes"):
        return format_gib(value)
    if field.endswith("_ratio"):
        return format_percent(value)
    units = {"_mhz": "MHz", "_c": "°C", "_w": "W"}
    return next(f"{value:,.0f} {unit}" for ending, unit in units.items() if field.endswith(ending))


def _format_tuple(field: str, value: tuple[object, ...]) -> str:
    if field == "compute_capability":
        return ".".join(map(str, value))
    if field == "processes":
        return ", ".join(f"{process.pid}" for process in value if hasattr(process, "pid")) or "none"
    return ", ".join(map(str, value)) or "nothing"


def _host_rows(host: HostReading) -> Iterator[tuple[str, str, str]]:
    yield "total", _gib(host.total_bytes), "/proc/meminfo"
    yield "available to the system", _gib(host.os_available_bytes), "/proc/meminfo; blind to every cgroup"
    yield "binding limit", *_describe_binding(host)
    if host.binding is not None:
        rule = "limit - (usage - inactive_file): inactive page cache counts as free"
        yield "headroom", _gib(host.headroom_bytes), rule
        yield "headroom, strictly", _gib(host.strict_headroom_bytes), "limit - usage, the least over all limits"
    yield "available", _gib(host.available_bytes), "the smallest of the known figures"
    if host.unknown:
        yield "safe to plan with", _gib(host.safe_available_bytes), "nothing, while a limit may be unknown"
    server = "the server's own rule: one mount point, tightest limit - usage, no page cache credited"
    yield "available to the server", _gib(host.server_available_bytes), server
    yield "namespaces", host.namespaces.describe(), "/proc/self/ns"
    yield "locked memory", host.memlock.describe(), "/proc/self/limits and /proc/self/status"
    wsl = _UNKNOWN if host.is_wsl is None else "yes" if host.is_wsl else "no"
    yield "WSL", wsl, "/proc/sys/kernel/osrelease"


def _describe_binding(host: HostReading) -> tuple[str, str]:
    if host.binding is not None:
        return _gib(host.limit_bytes), f"{host.binding.file} of {host.binding.directory}"
    if host.unknown:
        return _UNKNOWN, "; ".join(host.unknown)
    if not host.has_cgroups:
        return _UNKNOWN, "no cgroup was found"
    return "none", "every cgroup of this process that can be seen"


def _gib(size_bytes: int | None) -> str:
    return _UNKNOWN if size_bytes is None else format_gib(size_bytes)
