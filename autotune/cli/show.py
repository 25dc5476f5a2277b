"""A plan document on the terminal."""

from __future__ import annotations

from autotune.cli.console import print_lines, print_table
from reports.markdown import summary_line
from reports.tables import (
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
from runtime.plan_document import PlanDocument


def show_document(document: PlanDocument, *, details: bool) -> None:
    """The assumptions first, then findings and tables; ``details`` adds memory by phase and every assumption."""
    print_lines([summary_line(document), ""])
    print_lines(document.findings, bullet="- ")
    print_lines([""])
    print_table(component_table(document))
    print_table(comparison_table(document))
    if describe_hosting(document.prediction):
        print_table(host_table(document.prediction))
        print_lines(describe_hosting(document.prediction), bullet="- ")
    if document.what_ifs:
        print_table(what_if_table(document))
    if document.tuning_gains:
        print_table(tuning_table(document))
    if advice_table(document).rows:
        print_table(advice_table(document))
    print_lines(describe_unmodelled(document), bullet="- ")
    if not details:
        return
    print_table(placement_table(document))
    print_table(memory_table(document.prediction))
    print_lines(["", "Assumed:"])
    print_lines(document.assumptions, bullet="- ")
    print_lines(["", "Not modelled:"])
    print_lines(document.not_modelled, bullet="- ")
    print_lines(["", f"Made by {document.program} at {document.created}: {document.command}"])
