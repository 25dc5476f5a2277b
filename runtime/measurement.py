"""What one executed request measured: times by use and pass, stalls by layer, copies hidden and exposed, bytes.

All times are seconds on the request's own time line. A *stall* is a wait of compute for copies; what precedes a use's
first layer is *fill* and counted apart. A copy is *exposed* while compute waits for copies and *hidden* otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from runtime.devices.protocol import CopySpan
from runtime.timeline import Lane, Span, Stall, Timeline


class Binding(StrEnum):
    """The resource that a use kept busy longest; ``none`` when nothing of its component was copied in it."""

    COMPUTE = "compute"
    LINK = "link"
    READ = "read"
    HOST = "host"
    NONE = "none"


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
    """One call of one layer: wanted, started (after its copy had landed), done; ``pass_index`` counts over all uses."""

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
    """One copy: of a layer, or of a whole component where ``layer`` is None; ``use`` is the one that queued it."""

    component: str
    stack: str | None
    layer: int | None
    use: int
    kind: str
    size_bytes: int
    spans: tuple[CopySpan, ...]

    @property
    def landed_s(self) -> float:
        """When it was over; 0 where it was over when the time line began."""
        return max((span.end_s for span in self.spans), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassMeasurement:
    """One pass: its time, and what of it compute spent in layers and waiting.

    ``group`` is the pass group of the request's use, -1 for a traversal that the request does not name.
    """

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
        fill_s: what compute waited for copies before the first layer ran.
        stall_s: all other waits of compute for copies.
        layers_s: compute inside the streamed layers.
        passes: in order.
        stall_by_layer_s: ``stack.layer`` -> waits for that layer; waits for no single layer are under the name of the
            stack, or of the component.
        copied_bytes: what landed in the use, or between the one before and it, by kind of copy.
        copy_s: time of the copy engine since the use before has ended.
        hidden_s, exposed_s: the shares of ``copy_s``.
        read_s: time of couriers' reads since then.
        binding: the resource that bound the use.
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
    binding: Binding

    @property
    def total_s(self) -> float:
        """Length of the use."""
        return self.end_s - self.start_s

    def pass_times_s(self, group: int) -> tuple[float, ...]:
        """Time of each pass of a group, up to the beginning of the next one: work outside the layers lies in between.

        The last of several passes has no next one and is left out; a single pass ends with its last layer.
        """
        own = [one for one in self.passes if one.group == group]
        if len(own) == 1:
            return (own[0].total_s,)
        return tuple(after.start_s - before.start_s for before, after in pairwise(own))

    def steady_pass_s(self, group: int) -> float | None:
        """Mean of the later half of a group's passes; None when there are too few to have settled."""
        times_s = self.pass_times_s(group)
        later = times_s[len(times_s) // 2 :]
        return sum(later) / len(later) if len(times_s) > 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMeasurement:
    """One request.

    Attributes:
        latency_s: from its beginning to the end of its last use.
        uses: in order.
        phases: device bytes, phase by phase.
        misses: layers that came out of the expected order and had to be loaded when they were called.
        runs: every call of a streamed layer, in order.
        copies: every copy, in the order of queueing.
        stalls: every wait of compute for copies, in order, none overlapping another.
    """

    latency_s: float
    uses: tuple[UseMeasurement, ...]
    phases: tuple[PhaseMeasurement, ...]
    misses: int
    runs: tuple[RunMeasurement, ...]
    copies: tuple[CopyMeasurement, ...]
    stalls: tuple[Stall, ...]

    @property
    def timeline(self) -> Timeline:
        """Every span of compute, copies and reads, and the stalls; live bytes are in ``phases``."""
        spans = [
            Span(
                lane=Lane.COMPUTE,
                start_s=run.start_s,
                end_s=run.end_s,
                component=run.component,
                stack=run.stack,
                layer=run.layer,
            )
            for run in self.runs
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
            for copy in self.copies
            for span in copy.spans
        ]
        ordered = tuple(sorted(spans, key=lambda span: span.start_s))
        return Timeline(spans=ordered, stalls=self.stalls, repeats=(), live=())
