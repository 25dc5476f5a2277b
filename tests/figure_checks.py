"""What a person would see wrong with the labels of a figure: texts over each other, or cut off at the edge."""

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from run_data_builders import PLACEMENTS, build_document, build_run_data

from reports.run_data import CurvePoint, MemoryPhase, Owner
from runtime.plan_document import Comparison
from runtime.target_summary import CapSummary

LAYOUTS = json.loads((Path(__file__).parent / "data" / "figure_layouts.json").read_text())
"""The catalog's models at 12, 16, 24 and 32 GiB, as planned once: marks, nine corners of the curve, phases."""

_PX_PER_INCH = 96


class _TextRecorder(RendererAgg):
    """Notes every text that is really drawn; ticks out of view are not."""

    def __init__(self, width, height, dpi):
        super().__init__(width, height, dpi)
        self.texts = {}

    def draw_text(self, gc, x, y, s, prop, angle, ismath=False, mtext=None):  # noqa: PLR0917 - as overridden
        if mtext is not None and s.strip():
            self.texts[id(mtext)] = mtext
        super().draw_text(gc, x, y, s, prop, angle, ismath, mtext)


def find_label_faults(figure):
    """One line per pair of texts that touch, and per text that is not wholly inside the figure."""
    figure.set_dpi(_PX_PER_INCH)
    FigureCanvasAgg(figure).draw()
    width, height = figure.bbox.size
    recorder = _TextRecorder(width, height, _PX_PER_INCH)
    figure.draw(recorder)
    boxes = [(text.get_text(), text.get_window_extent(recorder)) for text in recorder.texts.values()]
    assert len(boxes) > 5, "a figure has labels"
    faults = [
        f"{text!r} is cut off"
        for text, box in boxes
        if not (box.x0 >= -0.5 and box.y0 >= -0.5 and box.x1 <= width + 0.5 and box.y1 <= height + 0.5)
    ]
    for (one, first), (other, second) in combinations(boxes, 2):
        overlap_px = min(first.x1, second.x1) - max(first.x0, second.x0)
        if overlap_px > 0.5 and min(first.y1, second.y1) - max(first.y0, second.y0) > 0.5:
            faults.append(f"{one!r} touches {other!r}")
    return faults


def build_catalog_run(layout):
    """The toy run with a catalog model's curve, compared plans, cap and device memory."""
    document = replace(
        build_document(),
        cap=CapSummary(asked_bytes=None, effective_bytes=layout["cap_bytes"], reason="asked for"),
        comparisons=tuple(
            Comparison(name=name, meaning=name, latency_s=time_s, charged_bytes=size, fits=fits, placements=None)
            for name, time_s, size, fits in layout["comparisons"]
        ),
    )
    curve = tuple(
        CurvePoint(charged_bytes=size, latency_s=time_s, fits=size <= layout["cap_bytes"], placements=PLACEMENTS)
        for size, time_s in layout["curve"]
    )
    return build_run_data(plan=document, curve=curve, memory=tuple(map(_build_phase, layout.get("memory", ()))))


def _build_phase(row):
    phase, seconds, by_component, (standing, activations, overhead, reserve) = row
    parts = {
        Owner.STANDING: standing,
        Owner.STREAMED: sum(by_component.values()),
        Owner.ACTIVATIONS: activations,
        Owner.OVERHEAD: overhead,
        Owner.RESERVE: reserve,
    }
    return MemoryPhase(phase=phase, seconds=seconds, by_component=by_component, parts=parts)
