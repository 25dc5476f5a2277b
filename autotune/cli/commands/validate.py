"""``autotune validate``: how far predictions are from what others measured."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from autotune.capture_cache import load_model_facts
from autotune.cli import options as opt
from autotune.cli.console import print_error, print_json, print_lines, print_table, show_steps
from autotune.observed.measurement_table import read_measurement_table
from autotune.profile import load_profile
from autotune.workflows.outputs import check_folder, choose_folder, write_files
from autotune.workflows.validation import validate_runs
from reports.validation import describe_result, list_misses, refusal_tables
from runtime.engines.registry import DEFAULT_ENGINE


def validate(
    *,
    against: Annotated[
        Path, typer.Option("--against", help="Table of measured runs, in the columns of public_measurements.csv.")
    ],
    model: Annotated[
        str | None, typer.Option("--model", help="Compare runs of this model alone; see `autotune models`.")
    ] = None,
    profile: opt.ProfileOption = None,
    engine: opt.EngineOption = DEFAULT_ENGINE,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for tables and pictures; runs/validation-<time> else.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a validation in --out.")] = False,
    json: opt.JsonOption = False,
) -> None:
    """Compare every measured run that can be expressed with its prediction, and say why the others cannot."""
    from autotune.workflows import validation_files as files  # noqa: PLC0415 - imports matplotlib

    check_folder(out or Path("runs"), overwrite=overwrite, is_parent=out is None, known=files.VALIDATION_FILES)
    with show_steps() as progress:
        runs = read_measurement_table(against, model)
        found = validate_runs(
            runs,
            lambda name, request, variant: load_model_facts(name, request, variant, progress=progress.notify),
            profile=load_profile(profile) if profile is not None else None,
            engine=engine,
            notify=progress.notify,
        )
        progress.notify("drawing")
        contents = files.build_files(found)
    folder = choose_folder(out, "validation", datetime.now(UTC).astimezone())
    write_files(folder, contents, overwrite=overwrite, known=files.VALIDATION_FILES)
    if json:
        print_json({"folder": str(folder), **files.describe_validation(found)})
        return
    print_lines(describe_result(found.scopes, found.under_predicted, len(found.refused)), bullet="- ")
    print_lines([""])
    for table in files.list_tables(found):
        print_table(table)
    print_lines(list_misses(found.figures, found.groups, found.exhausted), bullet="- ")
    for table in refusal_tables(found.refused, found.refusals):
        print_table(table)
    print_lines(found.notes, bullet="note: ")
    print_error(f"wrote {folder}: {', '.join(sorted(contents))}")
