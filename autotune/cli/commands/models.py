"""``autotune models``: what the catalog knows."""

from __future__ import annotations

from dataclasses import asdict

from autotune.catalog.registry import CATALOG
from autotune.cli.console import print_json, print_lines, print_table
from autotune.cli.options import JsonOption
from reports.tables import Table


def models(*, json: JsonOption = False) -> None:
    """List the models of the catalog, their aliases, default workloads and variants."""
    if json:
        print_json(
            [
                {
                    "name": entry.name,
                    "aliases": entry.aliases,
                    "title": entry.title,
                    "default_workload": asdict(entry.default_workload),
                    "sources": entry.sources,
                    "variants": entry.variants,
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
    print_table(_variant_table())
    for entry in CATALOG:
        for variant in entry.variants:
            print_lines(["", f"{entry.name} --variant {variant.name}: {variant.note}."])
            print_lines([f"server: {' '.join(variant.flags)}"], bullet="- ")
    for entry in CATALOG:
        print_lines(["", f"{entry.name}, where its configuration comes from:"])
        print_lines(entry.sources, bullet="- ")


def _variant_table() -> Table:
    """Every variant of every model: whether it changes the output, and what it needs."""
    rows = tuple(
        (
            entry.name,
            variant.name,
            "same" if variant.same_output else "changes",
            "another" if variant.needs_checkpoint else "released",
            ", ".join(variant.dtypes) or "any",
            variant.title,
        )
        for entry in CATALOG
        for variant in entry.variants
    )
    columns = ("model", "--variant", "output", "checkpoint", "card computes in", "what it is")
    return Table(title="Variants", columns=columns, rows=rows, foldable=frozenset({"what it is"}))
