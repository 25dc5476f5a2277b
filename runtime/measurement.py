"""What one executed request measured: times by use and pass, stalls by layer, copies hidden and exposed, bytes.

All times are seconds on the request's own time line. A *stall* is a wait of compute for copies; what precedes a use's
first layer is *fill* and counted apart. A copy is *hidden* while compute runs and *exposed* otherwise.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from runtime.devices.protocol import CopySpan, Label
from runtime.timeline import Lane, Span, Stall, Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseMeasurement:
    """Device bytes in one phase of the pipeline's life; names as in a plan's prediction.

    Attributes:
        phase: ``load``, ``first request: transformer``, ``later request: idle`` and so on.
        peak_weight_bytes: most weights, streamed, resident and moved ones together.
        peak_activation_bytes: most activations; 0 where the device does not count them.
        peak_total_bytes: most of everything.
        live_weight_bytes: weights at its end.
        reserved_bytes: most that the allocator held; None where there is none.
    """

    phase: str
    peak_weight_bytes: int
    peak_activation_bytes: int
    peak_total_bytes: int
    live_weight_bytes: int
    reserved_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMeasurement:
    """One call of one layer: wanted, started (after its copy had landed), done."""

    component: str
    stack: str
    layer: int
    use: int
    pass_index: int
    wanted_s: float
    start_s: float
    end_s: float

    @property
    def stall_s(self) -> float:
        """What compute waited for this layer's copy."""
        return self.start_s - self.wanted_s


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyMeasurement:
    """One copy: of a layer, or of a whole component where ``layer`` is None."""

    component: str
    stack: str | None
    layer: int | None
    use: int
    kind: str
    size_bytes: int
    spans: tuple[CopySpan, ...]

    def lane_s(self, lane: Lane) -> float:
        """Seconds that the copy took on ``lane``."""
        return sum(span.end_s - span.start_s for span in self.spans if span.lane is lane)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassMeasurement:
    """One pass: its time, and what of it compute spent in layers and waiting."""

    group: int
    stacks: tuple[str, ...]
    start_s: float
    end_s: float
    layers_s: float
    stall_s: float

    @property
    def total_s(self) -> float:
        """From the pass's beginning to the end of its last layer."""
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True, kw_only=True)
class UseMeasurement:
    """One use.

    Attributes:
        component, title: as in the plan.
        start_s, end_s: on the request's time line.
        fill_s: what the first layer waited for.
        stall_s: all other waits of compute for copies.
        layers_s: compute inside the streamed layers.
        passes: in order.
        stall_by_layer_s: ``stack.layer`` -> waits for that layer; waits for no single layer are under the stack's name.
        copied_bytes: moved to the device in the use, by kind of copy.
        copy_s, hidden_s, exposed_s: time of the copy engine in the use, and its shares under and beside compute.
        read_s: reads of couriers.
        binding: the resource that bound the use: ``compute``, ``link``, ``read``, ``host`` (copies from memory that is
            not pinned, for which compute and host wait) or ``none`` when nothing was streamed.
    """

    component: str
    title: str
    start_s: float
    end_s: float
    fill_s: float
    stall_s: float
    layers_s: float
    passes: tuple[PassMeasurement, ...]
    stall_by_layer_s: dict[str, float]
    copied_bytes: dict[str, int]
    copy_s: float
    hidden_s: float
    exposed_s: float
    read_s: float
    binding: str

    @property
    def total_s(self) -> float:
        """Length of the use."""
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMeasurement:
    """One request.

    Attributes:
        latency_s: from its beginning to the end of its last use.
        uses: in order.
        phases: device bytes, phase by phase.
        misses: layers that came out of the expected order and had to be loaded when they were called.
        timeline: every span of compute, copies and reads, and the stalls.
    """

    latency_s: float
    uses: tuple[UseMeasurement, ...]
    phases: tuple[PhaseMeasurement, ...]
    misses: int
    timeline: Timeline


Wait = tuple[Label, int, int, float, float]
"""Label, use, pass, from when to when."""


def measure_request(
    *,
    begin_s: float,
    end_s: float,
    uses: Sequence[tuple[str, str, float, float]],
    passes: Sequence[tuple[int, int, tuple[str, ...], float, float]],
    runs: Sequence[RunMeasurement],
    waits: Sequence[Wait],
    copies: Sequence[CopyMeasurement],
    phases: tuple[PhaseMeasurement, ...],
    misses: int,
) -> RequestMeasurement:
    """Sum up one request.

    Args:
        begin_s, end_s: of the request on the device's clock.
        uses: component, title, begin and end of each.
        passes: use, pass group, stacks, begin and end of each.
        runs: of all layers, in order.
        waits: of compute for copies other than that of the layer that runs next.
        copies: in order of queueing.
        phases: device bytes.
        misses: see ``RequestMeasurement``.
    """
    compute = merge_spans([(run.start_s, run.end_s) for run in runs])
    measured = tuple(
        _measure_use(
            index,
            use,
            [(number, one) for number, one in enumerate(passes) if one[0] == index],
            [run for run in runs if run.use == index],
            [wait for wait in waits if wait[1] == index],
            [copy for copy in copies if copy.use == index],
            compute,
        )
        for index, use in enumerate(uses)
    )
    last_s = measured[-1].end_s if measured else end_s
    return RequestMeasurement(
        latency_s=last_s - begin_s,
        uses=measured,
        phases=phases,
        misses=misses,
        timeline=_build_timeline(runs, waits, copies),
    )


def _measure_use(
    index: int,
    use: tuple[str, str, float, float],
    passes: Sequence[tuple[int, tuple[int, int, tuple[str, ...], float, float]]],
    runs: Sequence[RunMeasurement],
    waits: Sequence[Wait],
    copies: Sequence[CopyMeasurement],
    compute: Sequence[tuple[float, float]],
) -> UseMeasurement:
    component, title, start_s, end_s = use
    first_s = runs[0].start_s if runs else start_s
    fill_s = sum(after - before for _, _, _, before, after in waits if after <= first_s)
    fill_s += runs[0].stall_s if runs else 0.0
    by_layer: dict[str, float] = defaultdict(float)
    for run in runs[1:]:
        if run.stall_s > 0:
            by_layer[f"{run.stack}.{run.layer}"] += run.stall_s
    for label, _, _, before, after in waits:
        if after > first_s and after > before:
            name = label.stack or label.component
            by_layer[name if label.layer is None else f"{name}.{label.layer}"] += after - before
    copied: dict[str, int] = defaultdict(int)
    for copy in copies:
        copied[copy.kind] += copy.size_bytes
    spans = [(span.start_s, span.end_s) for copy in copies for span in copy.spans if span.lane is Lane.H2D]
    copy_s = sum(end - start for start, end in spans)
    hidden_s = sum(overlap(span, compute) for span in spans)
    read_s = sum(copy.lane_s(Lane.READ) for copy in copies)
    layers_s = sum(run.end_s - run.start_s for run in runs)
    stall_s = sum(by_layer.values())
    host_s = sum(copy.lane_s(Lane.H2D) for copy in copies if copy.kind in {"pageable", "up", "down", "blocking"})
    return UseMeasurement(
        component=component,
        title=title,
        start_s=start_s,
        end_s=end_s,
        fill_s=fill_s,
        stall_s=stall_s,
        layers_s=layers_s,
        passes=tuple(_measure_pass(number, one, runs, waits) for number, one in passes),
        stall_by_layer_s=dict(by_layer),
        copied_bytes=dict(copied),
        copy_s=copy_s,
        hidden_s=hidden_s,
        exposed_s=copy_s - hidden_s,
        read_s=read_s,
        binding=_name_binding(
            copies, busy_s=end_s - start_s - fill_s - stall_s, copy_s=copy_s, host_s=host_s, read_s=read_s
        ),
    )


def _name_binding(
    copies: Sequence[CopyMeasurement], *, busy_s: float, copy_s: float, host_s: float, read_s: float
) -> str:
    """The lane that was busy longest; copies that the host waits for stop compute, so both count together."""
    if not copies:
        return "none"
    lanes = {"compute": busy_s, "link": copy_s - host_s, "read": read_s, "host": host_s}
    return max(lanes, key=lambda name: lanes[name])


def _measure_pass(
    number: int,
    one: tuple[int, int, tuple[str, ...], float, float],
    runs: Sequence[RunMeasurement],
    waits: Sequence[Wait],
) -> PassMeasurement:
    _, group, stacks, start_s, end_s = one
    own = [run for run in runs if run.pass_index == number]
    waited_s = sum(after - before for _, _, pass_index, before, after in waits if pass_index == number)
    return PassMeasurement(
        group=group,
        stacks=stacks,
        start_s=start_s,
        end_s=end_s,
        layers_s=sum(run.end_s - run.start_s for run in own),
        stall_s=waited_s + sum(run.stall_s for run in own),
    )


def _build_timeline(
    runs: Sequence[RunMeasurement], waits: Sequence[Wait], copies: Sequence[CopyMeasurement]
) -> Timeline:
    spans = [
        Span(
            lane=Lane.COMPUTE,
            start_s=run.start_s,
            end_s=run.end_s,
            component=run.component,
            stack=run.stack,
            layer=run.layer,
        )
        for run in runs
    ]
    spans += [
        Span(
            lane=span.lane,
            start_s=span.start_s,
            end_s=span.end_s,
            component=copy.component,
            stack=copy.stack,
            layer=copy.layer,
        )
        for copy in copies
        for span in copy.spans
    ]
    stalls = [
        Stall(start_s=run.wanted_s, end_s=run.start_s, component=run.component, stack=run.stack, layer=run.layer)
        for run in runs
        if run.start_s > run.wanted_s
    ]
    stalls += [
        Stall(start_s=before, end_s=after, component=label.component, stack=label.stack, layer=label.layer)
        for label, _, _, before, after in waits
        if after > before
    ]
    return Timeline(
        spans=tuple(sorted(spans, key=lambda span: span.start_s)),
        stalls=tuple(sorted(stalls, key=lambda stall: stall.start_s)),
        repeats=(),
        live=(),
    )


def merge_spans(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """``spans`` in order, those that touch or overlap as one."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def overlap(span: tuple[float, float], merged: Sequence[tuple[float, float]]) -> float:
    """Seconds of ``span`` that lie in ``merged``, which is in order and free of overlaps."""
    start, end = span
    total_s = 0.0
    for position in range(max(0, bisect_right(merged, (start, start)) - 1), len(merged)):
        other_start, other_end = merged[position]
        if other_start >= end:
            break
        total_s += max(0.0, min(end, other_end) - max(start, other_start))
    return total_s
