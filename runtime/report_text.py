"""A session's report as text for people: what was measured, beside what was predicted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from runtime.host_store import HostUse
from runtime.measurement import Binding, PhaseMeasurement, RequestMeasurement, UseMeasurement
from runtime.prediction import PhasePrediction
from runtime.report_data import ReportData
from runtime.units import GIB, format_gib, format_seconds

_TOP_STALLS = 5
_MOST_REFUSED = 5
_ENDS_IN_TEXT = frozenset({0, 5})

BINDING_WORDS = {
    Binding.COMPUTE: "compute",
    Binding.LINK: "link",
    Binding.READ: "file reads",
    Binding.HOST: "host copies",
    Binding.NONE: "nothing",
}
"""What bound a use, in words; the report explains them."""

_LEGEND = (
    "What binds is what was busy longest: compute; the link, with copies that go on beside compute; reads from the",
    "checkpoint file; host copies, for which compute waits (pageable memory, loads at once, whole components). Nothing",
    "binds a use of which no weights were copied. Exposed: copies while compute waited for some; hidden: the others.",
)


def render_text(report: ReportData) -> str:
    """The report as lines of at most 120 characters, names permitting."""
    return "\n".join(_list_lines(report)) + "\n"


def _list_lines(report: ReportData) -> Iterator[str]:
    how = "Emulated" if report.is_emulated else "Measured"
    yield f"{how} under the engine {report.engine} on the device {report.device}."
    if report.is_emulated:
        yield "All times are emulated: seconds of the device that is emulated, not of this machine."
    yield from (f"  {component}: {placement}" for component, placement in report.placements.items())
    typical = report.typical
    if typical is None:
        yield "No request has ended yet."
    else:
        yield from _describe_requests(report, how.lower())
        which = "the later request of median latency" if report.later else "the first request"
        yield from _lay_out(f"Uses of {which}, {how.lower()}", _list_uses(typical.uses), text=_ENDS_IN_TEXT)
        copies = _list_copies(typical.uses)
        yield from _lay_out("Copies during each use (sizes in GiB)", copies, text=frozenset({0, 1, 5}))
        yield from (f"  {line}" for line in _LEGEND)
        yield from _describe_stalls(typical)
    yield from _lay_out("Device memory at the peak of each phase, GiB", _list_phases(report))
    yield from _describe_host(report.host)


def _describe_requests(report: ReportData, how: str) -> Iterator[str]:
    prediction = report.prediction
    rows: list[tuple[str, ...]] = [("", how, "lowest", "highest", "predicted", "misses")]
    groups = (
        ("first request after load", report.requests[:1], None if prediction is None else prediction.first_latency_s),
        (f"later requests ({len(report.later)})", report.later, None if prediction is None else prediction.latency_s),
    )
    for name, requests, predicted_s in groups:
        if requests:
            times_s = [request.latency_s for request in requests]
            figures = (median(times_s), min(times_s), max(times_s))
            predicted = "" if predicted_s is None else format_seconds(predicted_s)
            misses = str(max(request.misses for request in requests))
            rows.append((name, *map(format_seconds, figures), predicted, misses))
    yield from _lay_out("Latency: the median, the lowest and the highest, and what was predicted", rows)
    if any(request.misses for request in report.requests):
        yield "Misses are layers that came out of the planned order and were loaded when they were called."


def _list_uses(uses: Sequence[UseMeasurement]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        ("use", "time", "fill", "stalls", "in layers", "passes: count x median (lowest to highest)")
    ]
    for use in uses:
        times = map(format_seconds, (use.total_s, use.fill_s, use.stall_s, use.layers_s))
        rows.append((use.title, *times, _describe_passes(use)))
    return rows


def _describe_passes(use: UseMeasurement) -> str:
    parts = []
    for group in sorted({one.group for one in use.passes}):
        count = sum(one.group == group for one in use.passes)
        times_s = use.pass_times_s(group)
        text = f"{count} x {format_seconds(median(times_s))}"
        if len(times_s) > 1:
            text += f" ({format_seconds(min(times_s))} to {format_seconds(max(times_s))})"
        parts.append(text if group >= 0 else f"{text} outside the request")
    return ", ".join(parts) or "nothing runs"


def _list_copies(uses: Sequence[UseMeasurement]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("use", "copied", "hidden", "exposed", "reads", "what binds")]
    for use in uses:
        copied = ", ".join(f"{kind} {size / GIB:,.2f}" for kind, size in sorted(use.copied_bytes.items()))
        times = map(format_seconds, (use.hidden_s, use.exposed_s, use.read_s))
        rows.append((use.title, copied or "nothing", *times, BINDING_WORDS[use.binding]))
    return rows


def _describe_stalls(request: RequestMeasurement) -> Iterator[str]:
    waits = [(time_s, use.title, layer) for use in request.uses for layer, time_s in use.stall_by_layer_s.items()]
    if not waits:
        return
    yield ""
    yield "Longest stalls (waits for the copies of one layer, stack or component, in all passes of a use)"
    for time_s, title, layer in sorted(waits, key=lambda wait: (-wait[0], *wait[1:]))[:_TOP_STALLS]:
        yield f"  {format_seconds(time_s)}: {layer} ({title})"


def _list_phases(report: ReportData) -> list[tuple[str, ...]]:
    """Load, the worst phase of the first request, the phases of a later one."""
    predicted = {} if report.prediction is None else {phase.phase: phase for phase in report.prediction.phases}
    rows: list[tuple[str, ...]] = [("phase", "weights", "predicted", "activations", "predicted", "all", "predicted")]
    found = report.peak_phases()
    first = max(
        (phase for phase in found.values() if phase.phase.startswith("first request")),
        key=lambda phase: phase.peak_total_bytes,
        default=None,
    )
    for name, phase in found.items():
        is_listed = not name.startswith("first request") and ": after " not in name
        if phase is first or is_listed:
            rows.append(_describe_phase(phase, predicted.get(name)))
    return rows


def _describe_phase(phase: PhaseMeasurement, predicted: PhasePrediction | None) -> tuple[str, ...]:
    measured = (phase.peak_weight_bytes, phase.peak_activation_bytes, phase.peak_total_bytes)
    if predicted is None:
        expected: tuple[int | None, ...] = (None, None, None)
    else:
        weights = predicted.streamed_bytes + predicted.standing_bytes
        expected = (weights, predicted.activation_bytes, predicted.live_bytes)
    pairs = (figure for pair in zip(measured, expected, strict=True) for figure in pair)
    return (phase.phase, *("" if size is None else f"{size / GIB:,.3f}" for size in pairs))


def _describe_host(host: HostUse) -> Iterator[str]:
    yield ""
    yield "Host memory"
    requested = format_gib(host.requested_pin_bytes)
    yield f"  pinned {format_gib(host.pinned_bytes)} of {requested} asked for ({host.pinning})"
    yield (
        f"  pageable {format_gib(host.pageable_bytes)}, mapped {format_gib(host.mapped_bytes)}, slots of couriers "
        f"{format_gib(host.courier_bytes)}"
    )
    yield f"  host copies while attaching: {format_gib(host.peak_attach_bytes)} at the most"
    for refused in host.refused_pins[:_MOST_REFUSED]:
        yield f"  not pinned: {refused}"
    if len(host.refused_pins) > _MOST_REFUSED:
        yield f"  not pinned: {len(host.refused_pins) - _MOST_REFUSED} more"


def _lay_out(title: str, rows: Sequence[Sequence[str]], *, text: frozenset[int] = frozenset({0})) -> Iterator[str]:
    """A table under ``title``: columns in ``text`` to the left, all others, which are figures, to the right."""
    yield ""
    yield title
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    for row in rows:
        cells = (
            cell.ljust(width) if index in text else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield f"  {'  '.join(cells)}".rstrip()
