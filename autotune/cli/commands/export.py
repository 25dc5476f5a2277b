"""``autotune export``: a saved plan as flags for a server version."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.console import print_error, print_json
from autotune.cli.options import JsonOption
from autotune.export.dialects import DIALECTS, RECORDED_TARGET
from autotune.workflows.export_run import export_document
from runtime.plan_document import load_plan


def export(
    plan: Annotated[Path, typer.Argument(help="plan.json of a search.")],
    *,
    target: Annotated[
        str, typer.Option("--target", help=f"One of: {', '.join(dialect.target for dialect in DIALECTS)}.")
    ] = RECORDED_TARGET,
    model_path: Annotated[str | None, typer.Option("--model-path", help="Model path of the server.")] = None,
    allow_loss: Annotated[
        bool, typer.Option("--allow-loss", help="Export even if the target runs a component differently.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Print the command that makes a server run the plan; what the target cannot express goes to standard error."""
    document = load_plan(plan)
    exported, path = export_document(document, target=target, allow_loss=allow_loss, model_path=model_path)
    if json:
        print_json(
            {
                "target": exported.target,
                "argv": exported.argv,
                "command": exported.command_line(path),
                "notes": exported.notes,
            }
        )
        return
    for note in exported.notes:
        print_error(f"note: {note}")
    typer.echo(exported.command_line(path))
