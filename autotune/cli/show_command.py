"""The report of a server's command on the terminal."""

from __future__ import annotations

from autotune.cli.console import print_lines, print_table
from autotune.workflows.command_report import CommandReport
from reports.command import compared_placements_table, compared_plans_table


def show_understood(report: CommandReport) -> None:
    """What was understood of the command, before what it costs."""
    left = ", ".join(report.chosen_by_server) or "nothing"
    print_lines(
        [
            f"The command serves {report.model_path} in performance mode {report.performance_mode}; left to the "
            f"server: {left}."
        ]
    )
    print_lines(report.unknown, bullet="warning: ")
    print_lines(report.notes, bullet="note: ")
    if report.ignored:
        print_lines([f"Without effect on the prediction: {', '.join(report.ignored)}."])
    print_lines([""])


def show_comparison(report: CommandReport) -> None:
    """The command's plan beside the server's own choice and the best plan."""
    print_table(compared_plans_table(report.plans))
    print_table(compared_placements_table(report.plans, report.chosen_by_server))
