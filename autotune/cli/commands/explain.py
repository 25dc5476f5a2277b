"""``autotune explain``: a saved plan in words and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.console import print_json
from autotune.cli.options import JsonOption
from autotune.cli.show import show_document
from runtime.plan_document import load_plan


def explain(
    plan: Annotated[Path, typer.Argument(help="plan.json of a search.")],
    *,
    json: JsonOption = False,
) -> None:
    """Say what a plan does, what it is expected to cost, and what that rests on."""
    document = load_plan(plan)
    if json:
        print_json(document)
        return
    show_document(document, details=True)
