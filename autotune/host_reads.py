"""What a request reads from disk: mapped layers that the page cache does not keep."""

from __future__ import annotations

from autotune.evaluate import Evaluator
from runtime.plan import Plan
from runtime.program import Op

_QUEUES = frozenset({Op.H2D, Op.H2D_BLOCKING})


def count_disk_bytes(evaluator: Evaluator, plan: Plan) -> dict[str, int]:
    """Bytes per component that a later request under ``plan`` reads from disk."""
    tiers = evaluator.costs_of(plan).tiers
    program = evaluator.lifecycle.build_program(plan)
    found = dict.fromkeys(program.components, 0)
    if tiers is None:
        return found
    for use in program.later.uses:
        seen: set[int] = set()  # what a use has read may be gone from the cache when the next one begins
        for segment in (*use.segments, use.after):
            for op, slot in segment.actions:
                if op not in _QUEUES or not tiers.is_mapped[slot]:
                    continue
                first = slot not in seen
                seen.add(slot)
                name = program.components[program.stacks[program.stack_of_slot[slot]].component]
                found[name] += tiers.first_disk_bytes[slot] * first + tiers.disk_bytes[slot] * (segment.repeat - first)
    return found
