"""Device bytes of streamed layers and moved components while a program runs: host order alone decides them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from autotune.replay_core import Costs
from runtime.program import Block, Op, Segment

_UP, _DOWN = int(Op.UP), int(Op.DOWN)


class LiveBytes:
    """Live bytes now, and the most since ``take_peak`` was last called."""

    __slots__ = ("_cast_bytes", "_change_bytes", "_component_bytes", "live_bytes", "peak_bytes")

    def __init__(self, costs: Costs) -> None:
        self._change_bytes = costs.change_bytes
        self._component_bytes = costs.component_bytes
        self._cast_bytes = costs.cast_bytes
        self.live_bytes = 0
        self.peak_bytes = 0

    def run(self, segments: Iterable[Segment]) -> None:
        """Perform ``segments``; a repeated pass takes and gives back the same bytes each time, so once is enough."""
        for segment in segments:
            self.run_blocks(segment.blocks)

    def run_blocks(self, blocks: Iterable[Block]) -> None:
        """Perform ``blocks`` once."""
        for block in blocks:
            self._run_block(block)

    def take_peak(self) -> int:
        """The most live bytes since the last call; the next peak starts from what is live now."""
        peak = self.peak_bytes
        self.peak_bytes = self.live_bytes
        return peak

    def _run_block(self, block: Block) -> None:
        if block.moves:
            course = list(accumulate(map(self._change_bytes.__getitem__, block.moves), initial=self.live_bytes))
            self.live_bytes = course[-1]
            self.peak_bytes = max(self.peak_bytes, *course)
        for op, component in block.moved_components:
            size = self._component_bytes[component]
            self.live_bytes += size if op == _UP else -size
            cast = self._cast_bytes[component] if op == _UP else 0
            self.peak_bytes = max(self.peak_bytes, self.live_bytes + cast)
