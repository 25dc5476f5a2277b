"""Plans for layer-streamed pipelines: search, execute on the emulated accelerator, compare with measured runs.

Imports nothing until asked. ``reports.figures`` draw what a ``Run`` or a run folder holds; ``runtime`` applies plans.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autotune.planner import Run, execute, save, search, validate
    from autotune.workflows.planned import NothingFits
    from autotune.workflows.run_collection import collect_run

_HOMES = {
    "NothingFits": "autotune.workflows.planned",
    "Run": "autotune.planner",
    "collect_run": "autotune.workflows.run_collection",
    "execute": "autotune.planner",
    "save": "autotune.planner",
    "search": "autotune.planner",
    "validate": "autotune.planner",
}

__all__ = ["NothingFits", "Run", "collect_run", "execute", "save", "search", "validate"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'autotune' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
