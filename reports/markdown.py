"""A plan document in sentences, and tables in Markdown. Pure: text in, text out."""

from __future__ import annotations

from collections.abc import Mapping

from reports.differences import describe_latency, describe_peak, describe_spread
from reports.tables import Table
from runtime.plan_document import PlanDocument
from runtime.prediction import Prediction, is_estimate
from runtime.units import format_gib, format_seconds


def summary_line(document: PlanDocument) -> str:
    """What was planned for, and the figures of the plan, in one paragraph. What the figures rest on comes first."""
    prediction = document.prediction
    return (
        f"{describe_source(prediction.source)} {describe_workload(document.workload, document.variant)} A later "
        f"request takes {describe_latency(prediction)} (the first one after load "
        f"{format_seconds(prediction.first_latency_s)}) and is charged {format_gib(prediction.peak.charged_bytes)} of "
        f"VRAM{describe_cards(document.tp_size)}{describe_peak(prediction)}; the plan holds "
        f"{format_gib(prediction.total_host_bytes * document.tp_size)} of host memory{_disk_reads(prediction)}. "
        f"{describe_spread(prediction)}{' ' * bool(describe_spread(prediction))}Cap: {document.cap.reason}. "
        f"Host: {document.host.origin}. Device: {document.device.origin}."
    )


def describe_cards(tp_size: int) -> str:
    """On how many cards the device bytes before these words are needed; nothing for one."""
    return f" on each of {tp_size} GPUs" if tp_size > 1 else ""


def describe_source(source: str) -> str:
    """The provenance of a prediction, as its first sentence."""
    return "Estimated, not measured." if is_estimate(source) else f"{source[:1].upper()}{source[1:]}."


def _disk_reads(prediction: Prediction) -> str:
    if not prediction.disk_read_bytes:
        return ""
    return f" and reads {format_gib(prediction.disk_read_bytes)} from disk"


def describe_workload(work: Mapping[str, int | str], variant: str = "") -> str:
    """The request in one sentence, and in another one which variant of the model answers it."""
    text = (
        f"{work['width']}x{work['height']}, {_count(work['frames'], 'frame')}, {work['steps']} steps, "
        f"{work['prompt_tokens']} prompt tokens, batch {work['batch']}, recipe {work['recipe']}."
    )
    return f"{text} Variant {variant}." if variant else text


def _count(number: int | str, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def figure_table(document: PlanDocument) -> Table:
    """Every figure that entered the prediction, with its source."""
    rows = tuple(
        (name, f"{figure.value:,.4g}", figure.unit, figure.source) for name, figure in document.device.figures.items()
    )
    return Table(title="", columns=("figure", "value", "unit", "source"), rows=rows, numeric=frozenset({"value"}))


def render_table(table: Table) -> str:
    """``table`` in Markdown, under its title."""
    head = "| " + " | ".join(table.columns) + " |"
    rule = "| " + " | ".join("---:" if name in table.numeric else "---" for name in table.columns) + " |"
    rows = ["| " + " | ".join(_escape(cell) for cell in row) + " |" for row in table.rows]
    text = "\n".join([head, rule, *rows])
    return f"## {table.title}\n\n{text}" if table.title else text


def _escape(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")
