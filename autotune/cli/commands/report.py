"""``autotune report``: a run folder as a page, Markdown or a PDF."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.console import print_error, print_lines
from autotune.workflows.reporting import REPORT_STEM, ReportFormat, choose_format, write_report
from autotune.workflows.run_collection import collect_run
from reports.run_data import Gap


def report(
    run_dir: Annotated[Path, typer.Argument(help="Folder of a search or a run.", metavar="RUN_DIR")],
    *,
    form: Annotated[
        ReportFormat | None,
        typer.Option("--format", help="What to write; by the name of --out unless given, else html."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="File to write; report.<format> in the folder.")] = None,
) -> None:
    """Write what a run found, with pictures; what its folder lacks is left out and said."""
    data = collect_run(run_dir)
    chosen = choose_format(form, out)
    path = out or run_dir / f"{REPORT_STEM}.{chosen}"
    write_report(data, path, chosen)
    show_gaps(data.gaps)
    print_lines([f"Written to {path}"])


def show_gaps(gaps: tuple[Gap, ...], folder: str = "") -> None:
    """Say what could not be read, file by file, on standard error."""
    for gap in gaps:
        name = f"{folder}/{gap.file}" if folder else gap.file
        print_error(f"note: {name} {gap.problem}. Left out: {gap.lost}")
