"""Notes what the executor does while it runs, at the cost of a few marks a layer, and measures it when a request ends.

Nothing is read from the device while a request runs: marks and copies are kept, and asked for their times after the
device has been synchronised once, at the end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from runtime.devices.protocol import Device, Label, Mark, MemoryKind, QueuedCopy
from runtime.measure_request import measure_request
from runtime.measurement import CopyMeasurement, PhaseMeasurement, RequestMeasurement, RunMeasurement

KEPT_REQUESTS = 64
"""A request of a large model takes some hundred kilobytes of notes; a server makes thousands of them."""


class CopyKind(StrEnum):
    """How a copy was made."""

    PINNED = "pinned"
    PAGEABLE = "pageable"
    MAPPED = "mapped"
    BLOCKING = "blocking"
    UP = "up"
    DOWN = "down"


@dataclass(slots=True)
class _UseNotes:
    component: str
    title: str
    begin: Mark
    end: Mark | None = None


@dataclass(slots=True)
class _PassNotes:
    use: int
    stacks: tuple[str, ...]
    group: int
    begin: Mark
    end: Mark | None = None


@dataclass(slots=True)
class _RunNotes:
    label: Label
    use: int
    pass_index: int
    before: Mark
    ready: Mark
    done: Mark | None = None


@dataclass(slots=True)
class _WaitNotes:
    label: Label
    use: int
    pass_index: int
    before: Mark
    after: Mark


@dataclass(slots=True)
class _Notes:
    """Everything of one request."""

    begin: Mark | None = None
    uses: list[_UseNotes] = field(default_factory=list)
    passes: list[_PassNotes] = field(default_factory=list)
    runs: list[_RunNotes] = field(default_factory=list)
    waits: list[_WaitNotes] = field(default_factory=list)
    copies: list[tuple[Label, QueuedCopy, CopyKind, int]] = field(default_factory=list)
    phases: list[PhaseMeasurement] = field(default_factory=list)


class Telemetry:
    """Notes of the request that runs, and the measurements of those that are over.

    Attributes:
        requests: one measurement per request that ended, in order; of many, the last ``KEPT_REQUESTS``.
    """

    def __init__(self, device: Device) -> None:
        self.requests: deque[RequestMeasurement] = deque(maxlen=KEPT_REQUESTS)
        self._load_phases: list[PhaseMeasurement] = []
        self._device = device
        self._notes = _Notes()
        self._pass = -1

    @property
    def phases(self) -> list[PhaseMeasurement]:
        """Device bytes phase by phase: load, the requests that are kept, and the one that runs."""
        ended = [phase for request in self.requests for phase in request.phases]
        return [*self._load_phases, *ended, *self._notes.phases]

    def begin_request(self) -> None:
        """A request begins on a new time line."""
        self._device.synchronize()
        self._device.start_clock()
        self._notes = _Notes(begin=self._device.mark())

    def drop_request(self) -> None:
        """The request failed: nothing of it is measured."""
        self._notes = _Notes()
        self._device.reset_peaks()

    def begin_use(self, component: str, title: str) -> None:
        """A component comes into use."""
        self._notes.uses.append(_UseNotes(component, title, self._device.mark()))
        self._pass = -1

    def end_use(self) -> None:
        """The use that began last and is not over yet has ended."""
        for use in reversed(self._notes.uses):
            if use.end is None:
                use.end = self._device.mark()
                break
        self._pass = -1

    def begin_pass(self, stacks: tuple[str, ...], group: int) -> None:
        """A pass of one of the use's pass groups begins."""
        self._notes.passes.append(_PassNotes(len(self._notes.uses) - 1, stacks, group, self._device.mark()))
        self._pass = len(self._notes.passes) - 1

    def end_pass(self) -> None:
        """It has ended."""
        if 0 <= self._pass < len(self._notes.passes):
            self._notes.passes[self._pass].end = self._device.mark()

    def run_begins(self, label: Label, before: Mark, ready: Mark) -> None:
        """A layer is about to run; compute waited for it from ``before`` to ``ready``."""
        self._notes.runs.append(_RunNotes(label, len(self._notes.uses) - 1, self._pass, before, ready))

    def run_ended(self, done: Mark) -> None:
        """It has run."""
        self._notes.runs[-1].done = done

    def waited(self, label: Label, before: Mark, after: Mark) -> None:
        """Compute waited for copies other than that of the layer that runs next."""
        self._notes.waits.append(_WaitNotes(label, len(self._notes.uses) - 1, self._pass, before, after))

    def copy_queued(self, label: Label, copy: QueuedCopy, kind: CopyKind) -> None:
        """A copy was queued."""
        self._notes.copies.append((label, copy, kind, len(self._notes.uses) - 1))

    def end_phase(self, name: str) -> None:
        """A phase of the pipeline's life is over: its peaks are noted, the next one counts from what is live."""
        memory = self._device.memory()
        phase = PhaseMeasurement(
            phase=name,
            peak_weight_bytes=memory.peak_bytes[MemoryKind.WEIGHTS],
            peak_activation_bytes=memory.peak_bytes[MemoryKind.ACTIVATIONS],
            peak_total_bytes=memory.peak_total_bytes,
            live_weight_bytes=memory.live_bytes[MemoryKind.WEIGHTS],
            reserved_bytes=memory.reserved_bytes,
        )
        (self._notes.phases if self._notes.begin is not None else self._load_phases).append(phase)
        self._device.reset_peaks()

    def end_request(self, misses: int) -> RequestMeasurement:
        """The request is over: synchronise once and measure it."""
        end = self._device.mark()
        self._device.synchronize()
        notes, time_of = self._notes, self._device.time_of
        assert notes.begin is not None
        measured = measure_request(
            begin_s=time_of(notes.begin),
            uses=[
                (use.component, use.title, time_of(use.begin), time_of(use.end if use.end is not None else end))
                for use in notes.uses
            ],
            passes=[
                (one.use, one.group, one.stacks, time_of(one.begin), time_of(one.end if one.end is not None else end))
                for one in notes.passes
            ],
            runs=[self._measure_run(run, time_of) for run in notes.runs if run.done is not None],
            waits=[
                (wait.label, wait.use, wait.pass_index, time_of(wait.before), time_of(wait.after))
                for wait in notes.waits
            ],
            copies=[
                CopyMeasurement(
                    component=label.component,
                    stack=label.stack,
                    layer=label.layer,
                    use=use,
                    kind=str(kind),
                    size_bytes=copy.size_bytes,
                    spans=copy.spans(),
                )
                for label, copy, kind, use in notes.copies
            ],
            phases=tuple(notes.phases),
            misses=misses,
        )
        self.requests.append(measured)
        self._notes = _Notes()
        return measured

    @staticmethod
    def _measure_run(run: _RunNotes, time_of: Callable[[Mark], float]) -> RunMeasurement:
        assert run.done is not None
        return RunMeasurement(
            component=run.label.component,
            stack=run.label.stack or "",
            layer=run.label.layer or 0,
            use=run.use,
            pass_index=run.pass_index,
            wanted_s=time_of(run.before),
            start_s=time_of(run.ready),
            end_s=time_of(run.done),
        )
