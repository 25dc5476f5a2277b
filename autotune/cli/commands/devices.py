"""``autotune devices``: presets with their figures and sources."""

from __future__ import annotations

from typing import Annotated

import typer

from autotune.cli.console import print_json, print_lines, print_table
from autotune.cli.options import JsonOption
from autotune.hardware import DevicePreset, find_device, list_devices
from reports.tables import Table
from runtime.units import format_gib


def devices(
    name: Annotated[str | None, typer.Argument(help="One device, with the source of every figure.")] = None,
    *,
    json: JsonOption = False,
) -> None:
    """List device presets, or show one with the source of every figure."""
    if name is not None:
        _show_one(find_device(name), as_json=json)
        return
    if json:
        print_json([_as_plain(device) for device in list_devices()])
        return
    rows = tuple(
        (
            device.name,
            device.title,
            format_gib(device.usable_vram_bytes),
            f"{device.matrix_flops_per_s['bfloat16'] / 1e12:,.0f}",
            f"{device.matmul_ratio:.2f}",
            f"{device.memory_bytes_per_s / 1e9:,.0f}",
            f"gen{device.pcie_generation} x{device.pcie_lanes}",
            f"{device.pinned_bytes_per_s / 1e9:.1f} / {device.pageable_bytes_per_s / 1e9:.1f}",
        )
        for device in list_devices()
    )
    columns = (
        "name",
        "device",
        "usable VRAM",
        "bf16 TFLOP/s",
        "reached",
        "memory GB/s",
        "PCIe",
        "pinned / pageable GB/s",
    )
    print_table(
        Table(
            title="Devices",
            columns=columns,
            rows=rows,
            numeric=frozenset(columns[2:6]),
            optional=("device", "PCIe", "memory GB/s"),
        )
    )
    print_lines(
        [
            "Rates are datasheet figures; 'reached' is the share of them that large matrix products get. `autotune "
            "devices NAME` shows where every figure comes from."
        ]
    )


def _show_one(device: DevicePreset, *, as_json: bool) -> None:
    if as_json:
        print_json(_as_plain(device))
        return
    rows: list[tuple[str, str, str]] = [
        ("name", ", ".join((device.name, *device.aliases)), ""),
        ("architecture", device.architecture, ""),
        ("PCIe", f"gen{device.pcie_generation} x{device.pcie_lanes}", device.sources["pcie_generation"]),
    ]
    for figure in ("memory_bytes", "usable_vram_bytes", "context_bytes"):
        rows.append((figure.removesuffix("_bytes"), format_gib(getattr(device, figure)), device.sources[figure]))
    for dtype, rate in device.matrix_flops_per_s.items():
        rows.append((f"{dtype} rate", f"{rate / 1e12:,.1f} TFLOP/s", device.sources["matrix_flops_per_s"]))
    for figure in ("memory_bytes_per_s", "pinned_bytes_per_s", "pageable_bytes_per_s", "d2h_pinned_bytes_per_s"):
        name = figure.removesuffix("_bytes_per_s")
        rows.append((f"{name} rate", f"{getattr(device, figure) / 1e9:,.1f} GB/s", device.sources[figure]))
    for figure in ("matmul_ratio", "attention_ratio", "float32_matmul_ratio", "bandwidth_ratio"):
        rows.append((figure, f"{getattr(device, figure):.2f}", device.sources[figure]))
    columns = ("figure", "value", "source")
    foldable = frozenset({"value", "source"})
    print_table(Table(title=device.title, columns=columns, rows=tuple(rows), foldable=foldable))


def _as_plain(device: DevicePreset) -> dict[str, object]:
    plain: dict[str, object] = {name: getattr(device, name) for name in DevicePreset.__dataclass_fields__}
    plain["matrix_flops_per_s"] = dict(device.matrix_flops_per_s)
    plain["sources"] = dict(device.sources)
    plain["family_figures"] = sorted(device.family_figures)
    return plain
