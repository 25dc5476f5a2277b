"""``autotune compare``: runs, plans, profiles and measurements side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.commands.report import show_gaps
from autotune.cli.console import print_json, print_lines, print_table
from autotune.cli.options import JsonOption
from autotune.workflows.sides import read_side
from reports.comparison import describe_rest, figures_table, placements_table, put_side_by_side
from runtime.errors import InputError
from runtime.files import as_text


def compare(
    paths: Annotated[
        list[Path],
        typer.Argument(help="Run folders, plan.json, profile.json or measurement.json; two or more.", metavar="A B"),
    ],
    *,
    json: JsonOption = False,
) -> None:
    """Put runs, plans, profiles or measurements side by side, differences first."""
    if len(paths) < 2:
        raise InputError(f"compare takes two or more, and {as_text(paths[0])} is one: name another one beside it")
    sides = []
    for path, name in zip(paths, _name_sides(paths), strict=True):
        side, gaps = read_side(path, name)
        show_gaps(gaps, as_text(path))
        sides.append(side)
    found = put_side_by_side(sides)
    if json:
        print_json(found)
        return
    kinds = (f"{name} (a {kind})" for name, kind in zip(found.sides, found.kinds, strict=True))
    print_lines([f"Compared: {', '.join(kinds)}"])
    for table in (placements_table(found), figures_table(found)):
        if table.rows:
            print_table(table)
    print_lines(describe_rest(found))


def _name_sides(paths: list[Path]) -> list[str]:
    """The shortest ends of the paths that tell them apart; numbered where the same one was named twice."""
    resolved = [path.resolve() for path in paths]
    for length in range(1, max(len(path.parts) for path in resolved) + 1):
        names = ["/".join(path.parts[-length:]) for path in resolved]
        if len(set(names)) == len(set(resolved)):
            break
    return [
        as_text(name if names.count(name) == 1 else f"{name} ({names[: index + 1].count(name)})")
        for index, name in enumerate(names)
    ]
