"""Whose streamed layers and moved components are on the device at the peak of every phase of a pipeline's life."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from autotune.replay_core import Costs
from runtime.program import Block, Op, Program, Segment

_UP = int(Op.UP)


def walk_owners(program: Program, costs: Costs) -> tuple[dict[str, int], ...]:
    """Per phase, in the order of ``autotune.phases.phase_names``, device bytes by component when they are most.

    The bytes of one phase add up to what ``autotune.live_bytes`` finds as its peak.
    """
    walk = _OwnerWalk(program, costs)
    peaks = [walk.take_peak([program.load])]
    for request in (program.first, program.later):
        for use in request.uses:
            peaks += [walk.take_peak(use.segments), walk.take_peak([use.after])]
        peaks.append(walk.take_peak([request.ending]))
    return tuple(peaks)


class _OwnerWalk:
    """Live bytes by component now."""

    def __init__(self, program: Program, costs: Costs) -> None:
        self._costs = costs
        self._names = program.components
        self._owner_of_slot = [program.stacks[stack].component for stack in program.stack_of_slot]
        self._live: Counter[int] = Counter()
        self._peak: dict[int, int] = {}
        self._total = self._most = 0

    def take_peak(self, segments: Iterable[Segment]) -> dict[str, int]:
        """Perform ``segments``, each once, and return what was live when it was most; what was there before counts."""
        self._most, self._peak = self._total, dict(self._live)
        for segment in segments:
            for block in segment.blocks:
                self._run(block)
        return {self._names[index]: size for index, size in sorted(self._peak.items()) if size}

    def _run(self, block: Block) -> None:
        for move in block.moves:
            slot = abs(move) - 1
            self._change(self._owner_of_slot[slot], self._costs.change_bytes[move])
        for op, component in block.moved_components:
            size = self._costs.component_bytes[component]
            if op == _UP:
                # While it is moved up it is cast, which takes more for a moment.
                cast_bytes = self._costs.cast_bytes[component]
                self._change(component, size + cast_bytes)
                self._change(component, -cast_bytes)
            else:
                self._change(component, -size)

    def _change(self, component: int, size_bytes: int) -> None:
        self._live[component] += size_bytes
        self._total += size_bytes
        if self._total > self._most:
            self._most, self._peak = self._total, dict(self._live)
