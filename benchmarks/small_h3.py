"""The tests' MiniMax-H3 of a few narrow layers as an entry of the catalog, with a request of a few frames."""

from __future__ import annotations

from dataclasses import replace

import toy_models  # noqa: F401 - puts the tests' builders on the path
from profiling_builders import H3

from autotune.catalog.entry import CatalogEntry, SettledWorkload
from autotune.workload import Workload

SMALL_H3: CatalogEntry = replace(
    H3,
    default_workload=Workload(width=64, height=64, frames=22, steps=3, prompt_tokens=12),
    settle=lambda workload: SettledWorkload(workload=workload, notes=("a reduced model: its request is not settled",)),
)
"""Its request is taken as it is: a server would refuse so small a one."""
