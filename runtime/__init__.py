"""Plans, the document they are kept in, and sessions that run live modules under them. Imports nothing until asked."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.describe_module import describe_module
    from runtime.plan import Placement, Plan
    from runtime.plan_document import PlanDocument, load_plan, save_plan
    from runtime.residency import Lifetime, Mode, Policy
    from runtime.session import Executable, Session

_HOMES = {
    "Executable": "runtime.session",
    "Lifetime": "runtime.residency",
    "Mode": "runtime.residency",
    "Placement": "runtime.plan",
    "Plan": "runtime.plan",
    "PlanDocument": "runtime.plan_document",
    "Policy": "runtime.residency",
    "Session": "runtime.session",
    "describe_module": "runtime.describe_module",
    "load_plan": "runtime.plan_document",
    "save_plan": "runtime.plan_document",
}

__all__ = [
    "Executable",
    "Lifetime",
    "Mode",
    "Placement",
    "Plan",
    "PlanDocument",
    "Policy",
    "Session",
    "describe_module",
    "load_plan",
    "save_plan",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'runtime' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
