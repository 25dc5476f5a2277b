"""The content of a report on one run, in the order in which a person acts: decide, run, understand, check. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from reports.markdown import figure_table, summary_line
from reports.measurement import measurement_table
from reports.page.blocks import Block, Bullets, Code, Page, Paragraph, Section
from reports.page.missing import missing_table
from reports.page.pictures import illustrate
from reports.run_data import RunData
from reports.tables import (
    Table,
    advice_table,
    comparison_table,
    component_table,
    describe_hosting,
    describe_unmodelled,
    host_table,
    memory_table,
    placement_table,
    tuning_table,
    what_if_table,
)
from reports.uses import uses_table
from runtime.engines.topup import TopupEngine
from runtime.measurement_document import MeasurementDocument
from runtime.plan_document import PlanDocument
from runtime.units import format_seconds

NO_PLAN = "There is no plan to report on: see what is missing"


def build_page(data: RunData) -> Page:
    """Everything that ``data`` gives; parts that it lacks are left out and named at the end."""
    plan = data.plan
    lead: list[Block] = []
    if plan is not None:
        lead.append(Paragraph(text=summary_line(plan)))
        lead.append(Bullets(lines=plan.findings[1:]))
    if data.gaps:
        files = ", ".join(gap.file for gap in data.gaps)
        lead.append(Paragraph(text=f"Parts of this report are left out ({files}): see what is missing, at the end."))
    sections = [*_decision(data), *_reasons(data), *_grounds(data)]
    return Page(
        title=_title(data),
        headline=_headline(data),
        lead=tuple(filter(_is_full, lead)),
        sections=tuple(section for section in sections if section.blocks),
    )


def _title(data: RunData) -> str:
    if data.plan is not None:
        return f"{data.plan.model.name} on {data.plan.device.title}"
    if data.measurement is not None:
        return f"{data.measurement.model} on {data.measurement.device_title}"
    return data.name


def _headline(data: RunData) -> str:
    if data.plan is not None and data.plan.findings:
        return data.plan.findings[0]
    if data.plan is not None:
        return f"A later request takes {format_seconds(data.plan.prediction.latency_s)}"
    if data.measurement is not None:
        return f"A later request took {format_seconds(data.measurement.latency.median_s)}"
    return NO_PLAN


def _decision(data: RunData) -> Iterator[Section]:
    """What to run, and what it does."""
    if (plan := data.plan) is not None:
        yield _section("run", "What to run", _commands(plan, data.serve_script))
        yield _section("components", "Components", (component_table(plan), placement_table(plan)))
    yield _section("trade-off", "Time for device memory", illustrate("trade-off", data))
    yield _section("passes", "A pass of the component that takes most of a request", illustrate("passes", data))
    yield _section("waits", "Waits by layer", illustrate("waits", data))


def _commands(plan: PlanDocument, serve_script: str) -> Iterator[Block]:
    if plan.plan.engine == TopupEngine.name:
        yield Paragraph(text="The plan is for the executor, not for a server. This runs it and measures what it takes:")
        yield Code(text="autotune run plan.json")
        return
    if not serve_script:
        yield Paragraph(text="The run folder has no script for a server. This prints the command for one:")
        yield Code(text="autotune export plan.json")
        return
    yield Paragraph(text="This starts the server with the plan; it is serve.sh in the run folder:")
    yield Code(text=serve_script.strip())


def _reasons(data: RunData) -> Iterator[Section]:
    """What the decision was compared with, what would change it, and where its bytes are."""
    memory, changes, hosts = (illustrate(key, data) for key in ("memory", "changes", "hosts"))
    if (plan := data.plan) is None:
        yield _section("device-memory", "Device memory over the life of a request", memory)
        yield _section("host-memory", "Host memory", hosts)
        return
    yield _section("comparisons", "Comparisons", (comparison_table(plan),))
    others = Bullets(lines=describe_unmodelled(plan))
    tables = (what_if_table(plan), tuning_table(plan), advice_table(plan), others)
    yield _section("changes", "What would change it", (*changes, *tables))
    phases = memory_table(plan.prediction)
    yield _section("device-memory", "Device memory over the life of a request", (*memory, phases))
    hosting = Bullets(lines=(*describe_hosting(plan.prediction), *plan.host.warnings))
    yield _section("host-memory", "Host memory", (*hosts, host_table(plan.prediction), hosting))


def _grounds(data: RunData) -> Iterator[Section]:
    """What the figures are worth: measurements, the search, assumptions, sources, and what the folder lacks."""
    if data.measurement is not None:
        compared = illustrate("measured", data)
        yield _section("measured", "Measured", (*compared, *_measured(data.measurement)))
    yield _section("search", "Progress of the search", illustrate("search", data))
    if (plan := data.plan) is not None:
        title, folds = "What the prediction rests on", frozenset({"source"})
        figures = replace(figure_table(plan), title=title, foldable=folds)
        made_by = Paragraph(text=f"{plan.program} at {plan.created}, profile {plan.profile_id}:")
        yield _section("assumptions", "What this rests on", (Bullets(lines=plan.assumptions),))
        yield _section("not-modelled", "What is not modelled", (Bullets(lines=plan.not_modelled),))
        yield _section("figures", "Figures of the device and their sources", (figures,))
        yield _section("made-by", "Made by", (made_by, Code(text=plan.command)))
    yield _section("missing", "What is missing", (missing_table(data),))


def _measured(measurement: MeasurementDocument) -> Iterator[Block]:
    yield Paragraph(
        text=f"Executed on {measurement.device_title} with times of the {measurement.clock} clock, "
        f"{measurement.created}, by:"
    )
    yield Code(text=measurement.command)
    yield uses_table(measurement)
    yield measurement_table(measurement)
    yield Bullets(lines=measurement.notes)


def _section(key: str, heading: str, blocks: Iterable[Block]) -> Section:
    return Section(key=key, heading=heading, blocks=tuple(filter(_is_full, blocks)))


def _is_full(block: Block) -> bool:
    if isinstance(block, Bullets):
        return bool(block.lines)
    return not isinstance(block, Table) or bool(block.rows)
