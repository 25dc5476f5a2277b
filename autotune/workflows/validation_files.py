"""A validation as files: every figure as CSV, everything as JSON and Markdown, a picture for each kind of figure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pandas as pd

from autotune.fidelity.comparison import ComparedFigure, Kind
from autotune.fidelity.summary import summarize_kind
from autotune.workflows.validation import Validation
from reports.figures.png import encode_png
from reports.figures.scatter import draw_scatter
from reports.markdown import render_table
from reports.tables import Table
from reports.validation import (
    describe_result,
    exhausted_table,
    figure_table,
    group_tables,
    list_misses,
    refusal_tables,
    summary_table,
)

_PX_PER_INCH = 160
_COLUMNS = (
    "outcome",
    "run",
    "where",
    "family",
    "tp_size",
    "kind",
    "figure",
    "unit",
    "measured",
    "predicted",
    "error_ratio",
    "low",
    "high",
    "calibrated",
    "calibrated_error_ratio",
    "calibrated_on",
    "reasons",
)
PICTURES = {kind: f"validation-{kind}.png" for kind in Kind}
VALIDATION_FILES = frozenset({"validation.csv", "validation.json", "validation.md", *PICTURES.values()})


def build_files(found: Validation) -> dict[str, bytes]:
    """Contents by file name; no picture of a kind of which nothing was measured."""
    pictures = {
        PICTURES[kind]: encode_png(draw_scatter(found.figures, summarize_kind(found.figures, kind)), _PX_PER_INCH)
        for kind in Kind
        if any(figure.kind is kind for figure in found.figures)
    }
    described = msgspec.json.format(msgspec.json.encode(describe_validation(found)), indent=2)
    return {
        "validation.csv": _build_frame(found).to_csv(index=False).encode(),
        "validation.json": described + b"\n",
        "validation.md": _render(found, tuple(pictures)).encode(),
        **pictures,
    }


def list_tables(found: Validation) -> list[Table]:
    """Errors, figures, groups and runs out of memory; what could not be compared is not among them."""
    groups = [table for group in found.groups for table in group_tables(group)]
    exhausted = [exhausted_table(found.exhausted)] if found.exhausted else []
    return [summary_table(found.scopes), figure_table(found.figures), *groups, *exhausted]


def describe_validation(found: Validation) -> dict[str, object]:
    """Everything that was found, with what follows from it."""
    return {
        "engine": found.engine,
        "scopes": [
            {
                "what": scope,
                "runs": runs,
                "summaries": [{**_plain(item), "within_ratio": item.within_ratio} for item in summaries],
            }
            for scope, runs, summaries in found.scopes
        ],
        "figures": [_describe_figure(figure) for figure in found.figures],
        "groups": [
            {
                **_plain(group),
                "figures": [_describe_figure(figure) for figure in group.figures],
                "differences": [{**_plain(item), "verdict": str(item.verdict)} for item in group.differences],
            }
            for group in found.groups
        ],
        "ran_out": [{**_plain(item), "is_confirmed": item.is_confirmed} for item in found.exhausted],
        "refusals": {str(reason): count for reason, count in found.refusals.items()},
        "refused": found.refused,
        "assumed": found.assumed,
        "notes": found.notes,
    }


def _plain(value: object) -> dict[str, object]:
    found: Mapping[str, object] = msgspec.to_builtins(value)
    return dict(found)


def _describe_figure(figure: ComparedFigure) -> dict[str, object]:
    return {
        **_plain(figure),
        "unit": _unit(figure),
        "error_ratio": figure.error_ratio,
        "calibrated_error_ratio": figure.calibrated_error_ratio,
        "is_within": figure.is_within,
    }


def _unit(figure: ComparedFigure) -> str:
    return "s" if figure.kind is Kind.LATENCY else "bytes"


def _build_frame(found: Validation) -> pd.DataFrame:
    """A row for every compared figure, every run that ran out and every run that could not be compared."""
    rows: list[dict[str, object]] = [
        {
            "outcome": "compared",
            "run": figure.run,
            "where": figure.where,
            "family": figure.family,
            "tp_size": figure.tp_size,
            "kind": str(figure.kind),
            "figure": figure.what,
            "unit": _unit(figure),
            "measured": figure.observed,
            "predicted": figure.predicted,
            "error_ratio": figure.error_ratio,
            "low": figure.low,
            "high": figure.high,
            "calibrated": figure.calibrated,
            "calibrated_error_ratio": figure.calibrated_error_ratio,
            "calibrated_on": "; ".join(figure.fitted_on),
            "reasons": "; ".join(figure.reasons),
        }
        for figure in found.figures
    ]
    rows += [
        {
            "outcome": "ran out, as predicted" if item.is_confirmed else "ran out, not predicted",
            "run": item.run,
            "kind": str(Kind.PEAK),
            "unit": "bytes",
            "measured": item.had_bytes,
            "predicted": item.predicted_bytes,
            "reasons": "; ".join(item.reasons),
        }
        for item in found.exhausted
    ]
    rows += [
        {"outcome": f"not compared: {row.reason}", "run": row.name, "where": row.where, "reasons": row.text}
        for row in found.refused
    ]
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def _render(found: Validation, pictures: tuple[str, ...]) -> str:
    sentences = describe_result(found.scopes, found.under_predicted, len(found.refused))
    misses = list_misses(found.figures, found.groups, found.exhausted)
    parts = [
        "# Predictions beside measured runs",
        f"Engine: {found.engine}.",
        _bullets(sentences),
        *(f"![{name}]({name})" for name in pictures),
        *(render_table(table) for table in list_tables(found)),
        f"## Why figures are off\n\n{_bullets(misses)}" if misses else "",
        *(render_table(table) for table in refusal_tables(found.refused, found.refusals)),
        f"## Notes\n\n{_bullets(found.notes)}" if found.notes else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _bullets(lines: list[str] | tuple[str, ...]) -> str:
    return "\n".join(f"- {line}" for line in lines)
