"""The phases of a pipeline's life, and one component's share of device memory in each.

A life is load, the first request, and any later request; a request has two phases per use, the use itself and what is
queued once it has ended, and closes with an idle phase. Within one phase every component but the one in use only adds
layers before the first of the used component's layers runs, so the components' own peaks add up to the peak of the
phase: the planner compares millions of plans by adding vectors. Only the moment in which a whole component is cast
while it moves up can lie before the others' additions; the sum is then an upper limit, never too small.
"""

from __future__ import annotations

from autotune.live_bytes import LiveBytes
from autotune.replay_core import Costs
from runtime.engines.lifecycle import ComponentScript
from runtime.model_spec import RequestSpec

REQUEST_LABELS = ("first request", "later request")


def phase_names(request: RequestSpec) -> tuple[str, ...]:
    """Names of all phases in the order of life, e.g. ``later request: transformer``."""
    names = ["load"]
    for label in REQUEST_LABELS:
        for use in request.uses:
            names += [f"{label}: {use.title}", f"{label}: after {use.title}"]
        names.append(f"{label}: idle")
    return tuple(names)


def phase_uses(request: RequestSpec) -> tuple[int | None, ...]:
    """Per phase, the position of the use whose activations are live in it; None where none is."""
    positions: list[int | None] = [None]
    for _ in REQUEST_LABELS:
        for position in range(len(request.uses)):
            positions += [position, None]
        positions.append(None)
    return tuple(positions)


def walk_component(script: ComponentScript, costs: Costs, use_count: int) -> tuple[int, ...]:
    """Peak device bytes of one component's streamed layers and moves, phase by phase."""
    live = LiveBytes(costs)
    live.run_blocks((script.load,))
    peaks = [live.take_peak()]
    for request in script.requests:
        for position in range(use_count):
            if position in request.begin:
                live.run_blocks((request.begin[position],))
                live.run(request.visits[position])
            if position in request.ahead:
                live.run_blocks((request.ahead[position],))
            peaks.append(live.take_peak())
            if position in request.after:
                live.run_blocks((request.after[position],))
            peaks.append(live.take_peak())
        if request.ending is not None:
            live.run_blocks((request.ending,))
        peaks.append(live.take_peak())
    return tuple(peaks)
