"""``autotune models``: what the catalog knows."""

from __future__ import annotations

from dataclasses import asdict

from autotune.catalog.registry import CATALOG
from autotune.cli.console import print_json, print_lines, print_table
from autotune.cli.options import JsonOption
from reports.tables import Table


def models(*, json: JsonOption = False) -> None:
    """List the models of the catalog, their aliases and default workloads."""
    if json:
        print_json(
            [
                {
                    "name": entry.name,
                    "aliases": entry.aliases,
                    "title": entry.title,
                    "default_workload": asdict(entry.default_workload),
                    "sources": entry.sources,
                }
                for entry in CATALOG
            ]
        )
        return
    rows = tuple(
        (entry.name, ", ".join(entry.aliases), entry.title, entry.default_workload.describe()) for entry in CATALOG
    )
    columns = ("name", "aliases", "what it is", "default workload")
    print_table(Table(title="Models", columns=columns, rows=rows, foldable=frozenset(columns[2:])))
    for entry in CATALOG:
        print_lines(["", f"{entry.name}, where its configuration comes from:"])
        print_lines(entry.sources, bullet="- ")
