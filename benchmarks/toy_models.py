"""The toy models of the tests for benchmarks, and an emulated device that spends what was predicted for them."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT), str(ROOT / "tests")]

import builders  # noqa: E402
import toy_modules  # noqa: E402

from autotune.evaluate import Evaluator  # noqa: E402
from runtime.devices.emulated import ClockKind, EmulatedDevice  # noqa: E402
from runtime.devices.link_rates import LinkRates  # noqa: E402
from runtime.devices.protocol import Label  # noqa: E402
from runtime.plan import Plan  # noqa: E402

__all__ = ["ROOT", "builders", "open_paced", "toy_modules"]


def open_paced(
    evaluator: Evaluator,
    plan: Plan,
    *,
    clock: ClockKind = ClockKind.REAL,
    rates: LinkRates = toy_modules.TOY_LINK,
    time_scale: float = 1.0,
) -> EmulatedDevice:
    """An emulated device that spends, on either clock, what the cost model expects of ``plan``.

    ``time_scale`` are wall seconds per emulated second, for the real clock.
    """
    costs = evaluator.costs_of(plan)
    stacks = {(ref.component, ref.name): ref for ref in evaluator.lifecycle.stacks}
    names = [component.name for component in evaluator.lifecycle.model.components]

    def compute_s(label: Label) -> float:
        ref = stacks[names.index(label.component), label.stack or ""]
        return costs.compute_s[ref.first_slot + (label.layer or 0)]

    return EmulatedDevice(
        rates=rates,
        clock=clock,
        compute_s=compute_s,
        work_s=lambda index: costs.work_s[index],
        time_scale=time_scale,
    )
