"""Plans, the programs that engines make of them, and the document they are kept in. Imports nothing until asked."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.plan import Placement, Plan
    from runtime.plan_document import PlanDocument, load_plan, save_plan
    from runtime.residency import Lifetime, Mode, Policy

_HOMES = {
    "Lifetime": "runtime.residency",
    "Mode": "runtime.residency",
    "Placement": "runtime.plan",
    "Plan": "runtime.plan",
    "PlanDocument": "runtime.plan_document",
    "Policy": "runtime.residency",
    "load_plan": "runtime.plan_document",
    "save_plan": "runtime.plan_document",
}

__all__ = ["Lifetime", "Mode", "Placement", "Plan", "PlanDocument", "Policy", "load_plan", "save_plan"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'runtime' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
