"""The content of a report on one run, in the order in which a person acts: decide, run, understand, check. Pure."""

from __future__ import annotations

from collections.abc import Iterable
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
    sections = [*_decision(data), *illustrate(data), *_reasons(data), *_grounds(data)]
    return Page(
        title=f"{plan.model.name} on {plan.device.title}" if plan else data.name,
        headline=_headline(plan),
        lead=tuple(filter(_is_full, lead)),
        sections=tuple(section for section in sections if section.blocks),
    )


def _headline(plan: PlanDocument | None) -> str:
    if plan is None:
        return NO_PLAN
    if plan.findings:
        return plan.findings[0]
    return f"A later request takes {format_seconds(plan.prediction.latency_s)}"


def _decision(data: RunData) -> tuple[Section, ...]:
    plan = data.plan
    if plan is None:
        return ()
    return (
        _section("run", "What to run", _commands(data.serve_script)),
        _section("components", "Components", (component_table(plan), placement_table(plan))),
    )


def _commands(serve_script: str) -> Iterable[Block]:
    if not serve_script:
        yield Paragraph(text="The run folder has no script for a server. This prints the command for one:")
        yield Code(text="autotune export plan.json")
        return
    yield Paragraph(text="This starts the server with the plan; it is serve.sh in the run folder:")
    yield Code(text=serve_script.strip())


def _reasons(data: RunData) -> tuple[Section, ...]:
    """What the decision was compared with, and where its bytes are."""
    plan = data.plan
    if plan is None:
        return ()
    hosting = Bullets(lines=(*describe_hosting(plan.prediction), *plan.host.warnings))
    others = Bullets(lines=describe_unmodelled(plan))
    return (
        _section("comparisons", "Comparisons", (comparison_table(plan),)),
        _section(
            "changes",
            "What would change it",
            (what_if_table(plan), tuning_table(plan), advice_table(plan), others),
        ),
        _section("device-memory", "Device memory by phase", (memory_table(plan.prediction),)),
        _section("host-memory", "Host memory", (host_table(plan.prediction), hosting)),
    )


def _grounds(data: RunData) -> tuple[Section, ...]:
    """What the figures are worth: measurements, assumptions, sources, and what the folder lacks."""
    sections = []
    if data.measurement is not None:
        sections.append(_section("measured", "Measured", _measured(data.measurement)))
    if (plan := data.plan) is not None:
        figures = replace(figure_table(plan), title="What the prediction rests on")
        sections += [
            _section("assumptions", "What this rests on", (Bullets(lines=plan.assumptions),)),
            _section("not-modelled", "What is not modelled", (Bullets(lines=plan.not_modelled),)),
            _section("figures", "Figures of the device and their sources", (figures,)),
            _section(
                "made-by",
                "Made by",
                (
                    Paragraph(text=f"{plan.program} at {plan.created}, profile {plan.profile_id}:"),
                    Code(text=plan.command),
                ),
            ),
        ]
    return (*sections, _section("missing", "What is missing", (missing_table(data),)))


def _measured(measurement: MeasurementDocument) -> Iterable[Block]:
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
