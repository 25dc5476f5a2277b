"""Measures a node: links, interference and budgets of this machine with one of its devices. Imports torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from autotune.measure.bench import Bench
from autotune.measure.interference import ComputeLoad, measure_interference
from autotune.measure.link_ceiling import derive_pcie_bytes_per_s, describe_share
from autotune.measure.links import SWEEP_BYTES, LinkFindings, measure_links
from autotune.measure.node_figures import FigureSheet, take_device_memory, take_host, take_pins
from autotune.measure.node_readings import NodeReadings, derive_fingerprint, list_neighbours, list_warnings
from autotune.measure.pin_cost import CeilingKind, PinCost
from autotune.measure.pins import choose_pin_target, measure_pins
from autotune.measure.workspace import measure_workspace
from autotune.measurements.model_profile import DeviceKind
from autotune.measurements.node_profile import NodeProfile
from autotune.measurements.timing import Effort
from autotune.telemetry.answers import Answer, Unknown
from runtime.errors import DeviceError
from runtime.units import format_gib

_HOST_SHARE = 8
"""Copies take up to five times their size of host memory while they are measured; the rest stays for others."""

_DEVICE_SHARE = 2
"""Copies take their size of the card's memory; leaving as much again free is a judgement."""


def measure_node(
    bench: Bench,
    kind: DeviceKind,
    readings: NodeReadings,
    *,
    effort: Effort,
    versions: Mapping[str, str],
    layer_sizes: Iterable[int],
    loads: Sequence[tuple[ComputeLoad, int]] = (),
    path: Path | None = None,
) -> NodeProfile:
    """Measure the node that ``readings`` are of. Whatever is refused is left out and named in the notes.

    Nothing may have computed on the device before: see ``measure_workspace``. Links and interference are recalled where
    they are known; budgets are of this moment and are always measured anew.

    Args:
        bench: what is measured with.
        kind: of the bench's device.
        readings: of the machine, read with the bench's device open.
        effort: of the bench's protocol.
        versions: of the software that is running.
        layer_sizes: bytes of the model's layers as they are copied.
        loads: each with the bytes of the copies beside it, a layer's as a rule.
        path: a file on the disk that checkpoints lie on; None to measure no reads.
    """
    sheet, device = FigureSheet(), bench.device
    take_device_memory(sheet, readings, device.memory())
    take_host(sheet, readings)
    bench.notify("workspace of matrix products")
    sheet.take("workspace_bytes", measure_workspace(device))
    bench.notify("what pinned memory costs")
    cost = _measure_pins(bench, readings)
    take_pins(sheet, cost)
    links = measure_links(bench, layer_sizes, most_bytes=choose_most_bytes(sheet, readings), path=path)
    met = [measure_interference(bench, load, copy_bytes) for load, copy_bytes in loads]
    driver = {} if isinstance(readings.gpu, Unknown) or readings.gpu.driver is None else {"driver": readings.gpu.driver}
    return NodeProfile(
        node=derive_fingerprint(device, kind, readings),
        versions={**versions, **driver},
        effort=effort,
        links=links.records,
        interference=tuple(found.record for found in met if found.record is not None),
        figures=sheet.figures,
        unknown=sheet.unknown,
        neighbours=tuple(list_neighbours(readings)),
        warnings=(*list_warnings(readings), *_warn_of_pins(cost)),
        measured_at=bench.watch.now(),
        notes=(
            *_judge_links(links, readings),
            *links.left_out,
            *(reason for found in met for reason in found.left_out),
        ),
    )


def choose_most_bytes(sheet: FigureSheet, readings: NodeReadings) -> int:
    """The largest copy to try: small enough for the host and the device as they are now.

    What is available to the host is enough to go by, though a file that may hold a limit is unknown: the buffers are a
    fraction of it and are given back as soon as they are timed.
    """
    free, available_bytes = sheet.figures.get("vram_free_bytes"), readings.host.available_bytes
    on_host = SWEEP_BYTES[-1] if available_bytes is None else available_bytes // _HOST_SHARE
    return on_host if free is None else min(on_host, int(free.value) // _DEVICE_SHARE)


def _measure_pins(bench: Bench, readings: NodeReadings) -> Answer[PinCost]:
    target_bytes = choose_pin_target(readings.host.safe_available_bytes)
    if not target_bytes:
        return Unknown(reason="too little host memory is known to be available to try pins")
    try:
        return measure_pins(bench.device, target_bytes)
    except DeviceError as error:
        return Unknown(reason=f"pins could not be measured: {error}")


def _warn_of_pins(cost: Answer[PinCost]) -> Iterator[str]:
    for ceiling in () if isinstance(cost, Unknown) else cost.ceilings:
        granted, refused = format_gib(ceiling.granted_bytes), format_gib(ceiling.refused_bytes)
        if ceiling.kind is CeilingKind.TOTAL:
            yield (
                f"no more than {granted} could be pinned in all ({ceiling.reason}): plan with --host-memory so that "
                "pins stay below, or raise the limit"
            )
        elif ceiling.kind is CeilingKind.SINGLE_CALL:
            yield f"a pin of {refused} was refused and one of {granted} was not ({ceiling.reason}): pin in parts"
        else:
            yield f"a pin of {refused} was refused once and taken the next time: pins may fail here ({ceiling.reason})"


def _judge_links(links: LinkFindings, readings: NodeReadings) -> Iterator[str]:
    """The largest copies each way beside what the link can carry."""
    if isinstance(readings.gpu, Unknown):
        return
    link = readings.gpu.link_max
    ceiling = None if link is None else derive_pcie_bytes_per_s(link.generation, link.lanes)
    for kind in ("pinned_h2d", "d2h"):
        record = next((record for record in links.records if record.kind == kind), None)
        if record is not None:
            name = "the link" if link is None else f"PCIe {link.describe()}"
            yield f"{kind}: {describe_share(record.bytes_per_s, ceiling, name)}"
