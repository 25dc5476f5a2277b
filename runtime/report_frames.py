"""A session's report as data frames, one row per request, use, pass, layer run, copy and phase. Imports pandas."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pandas as pd

from runtime.measurement import CopyMeasurement
from runtime.report_data import ReportData
from runtime.timeline import Lane

Row = dict[str, Any]

_COLUMNS = {
    "requests": ("request", "latency_s", "misses"),
    "uses": (
        "request", "use", "component", "title", "start_s", "end_s", "total_s", "fill_s", "stall_s", "layers_s",
        "copy_s", "hidden_s", "exposed_s", "read_s", "binding",
    ),
    "passes": ("request", "use", "component", "group", "stacks", "start_s", "end_s", "layers_s", "stall_s"),
    "layers": (
        "request", "use", "pass", "component", "stack", "layer", "wanted_s", "start_s", "end_s", "stall_s",
    ),
    "copies": (
        "request", "use", "component", "stack", "layer", "kind", "size_bytes", "read_start_s", "read_end_s",
        "h2d_start_s", "h2d_end_s",
    ),
    "phases": (
        "phase", "peak_weight_bytes", "peak_activation_bytes", "peak_total_bytes", "live_weight_bytes",
        "reserved_bytes", "predicted_weight_bytes", "predicted_activation_bytes", "predicted_total_bytes",
    ),
}  # fmt: skip


def make_frames(report: ReportData) -> dict[str, pd.DataFrame]:
    """See ``SessionReport.frames``. Bytes and seconds are in the names; indices count from 0."""
    rows: dict[str, list[Row]] = {name: [] for name in _COLUMNS}
    for number, request in enumerate(report.requests):
        key: Row = {"request": number}
        rows["requests"].append(key | {"latency_s": request.latency_s, "misses": request.misses})
        for index, use in enumerate(request.uses):
            place = key | {"use": index, "component": use.component}
            names = _COLUMNS["uses"][3:]
            rows["uses"].append(place | {name: getattr(use, name) for name in names} | {"binding": str(use.binding)})
            for one in use.passes:
                rows["passes"].append(place | asdict(one) | {"stacks": " ".join(one.stacks)})
        for run in request.runs:
            noted = asdict(run)
            rows["layers"].append(key | noted | {"pass": noted["pass_index"], "stall_s": run.stall_s})
        rows["copies"] += [key | _describe_copy(copy) for copy in request.copies]
    rows["phases"] = _list_phases(report)
    return {name: pd.DataFrame(rows[name], columns=list(columns)) for name, columns in _COLUMNS.items()}


def _describe_copy(copy: CopyMeasurement) -> Row:
    row: Row = {name: getattr(copy, name) for name in ("use", "component", "stack", "layer", "kind", "size_bytes")}
    for name, lane in (("read", Lane.READ), ("h2d", Lane.H2D)):
        own = [span for span in copy.spans if span.lane is lane]
        row[f"{name}_start_s"] = own[0].start_s if own else None
        row[f"{name}_end_s"] = own[-1].end_s if own else None
    return row


def _list_phases(report: ReportData) -> list[Row]:
    predicted = {} if report.prediction is None else {phase.phase: phase for phase in report.prediction.phases}
    rows = []
    for phase in report.phases:
        row: Row = asdict(phase)
        if (known := predicted.get(phase.phase)) is not None:
            row |= {
                "predicted_weight_bytes": known.streamed_bytes + known.standing_bytes,
                "predicted_activation_bytes": known.activation_bytes,
                "predicted_total_bytes": known.live_bytes,
            }
        rows.append(row)
    return rows
