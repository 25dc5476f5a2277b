"""``autotune conformance``: does the simulated engine do what the recorded server did?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.console import print_json
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
            typer.echo(f"{report.path}: {report.kind}: {report.matched}/{report.total} records match")
            for difference in report.differences[:show]:
                typer.echo(f"  {difference.describe()}")
            if len(report.differences) > show:
                typer.echo(f"  and {len(report.differences) - show} more")
    if not all(report.agrees for report in reports):
        raise typer.Exit(1)
