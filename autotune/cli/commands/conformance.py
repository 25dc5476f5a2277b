"""``autotune conformance``: does the simulated engine do what the recorded server did?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.console import OUT, print_json
from autotune.cli.options import JsonOption
from autotune.conformance import check_file


def conformance(
    files: Annotated[list[Path], typer.Argument(help="Recorded behaviour, JSON Lines.")],
    *,
    show: Annotated[int, typer.Option("--show", help="Differences to print per file.", min=1)] = 5,
    json: JsonOption = False,
) -> None:
    """Reproduce every record of FILES; exit with 0 only if all match."""
    reports = [check_file(path) for path in files]
    if json:
        print_json(reports)
    else:
        for report in reports:
            OUT.print(f"{report.path}: {report.kind}: {report.matched}/{report.total} records match", markup=False)
            for difference in report.differences[:show]:
                OUT.print(f"  {difference}", markup=False)
            if len(report.differences) > show:
                OUT.print(f"  and {len(report.differences) - show} more", markup=False)
    if any(report.matched != report.total for report in reports):
        raise typer.Exit(1)
