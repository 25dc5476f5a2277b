"""A plan document on the terminal."""

from __future__ import annotations

from autotune.cli.console import OUT, print_lines, print_table
from reports.markdown import summary_line
from reports.tables import comparison_table, component_table, memory_table, placement_table, what_if_table
from runtime.plan_document import PlanDocument


def show_document(document: PlanDocument, *, details: bool) -> None:
    """The assumptions first, then findings and tables; ``details`` adds memory by phase and every assumption."""
    OUT.print(summary_line(document), markup=False)
    OUT.print()
    print_lines(document.findings, bullet="- ")
    OUT.print()
    print_table(component_table(document))
    print_table(comparison_table(document))
    if document.what_ifs or document.tuning_gains:
        print_table(what_if_table(document))
    if not details:
        return
    print_table(placement_table(document))
    print_table(memory_table(document.prediction))
    OUT.print("Assumed:", markup=False)
    print_lines(document.assumptions, bullet="- ")
    OUT.print("Not modelled:", markup=False)
    print_lines(document.not_modelled, bullet="- ")
    OUT.print(f"Made by {document.program} at {document.created}: {document.command}", markup=False)
