"""What one plan costs: times of the first and of later requests, and device bytes at every phase of its life."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from autotune.clock_choice import make_clock
from autotune.cost_model import CostModel, view_hosting
from autotune.live_bytes import LiveBytes
from autotune.memory_model import MemoryModel
from autotune.phases import phase_names, walk_component
from autotune.recorder import Recorder
from autotune.replay_core import Clock, Costs
from autotune.replay_passes import PassTimes, join_passes, perform, run_segment
from runtime.engines.host_rules import PlanHosting, always_pins, host_plan, never_runs_short
from runtime.engines.registry import Engine
from runtime.hosting import COPY_RESERVE_BYTES, HostMemory
from runtime.plan import Placement, Plan
from runtime.prediction import PhasePrediction
from runtime.program import Op, Program, RequestProgram, Segment, UseProgram

_RUN = int(Op.RUN)


AMPLE_HOST = HostMemory(available_bytes=2**50)
"""A host on which every layer is pinned, whatever the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UseTimes:
    """Times of one use.

    Attributes:
        component: the component in use.
        start_s, end_s: on the request's time line; the next use starts where this one ends.
        fill_s: what the first layer waited for its weights.
        passes: one entry per pass group of the use.
    """

    component: str
    start_s: float
    end_s: float
    fill_s: float
    passes: tuple[PassTimes, ...]

    @property
    def total_s(self) -> float:
        """Length of the use."""
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Predicted times and memory of one plan.

    Attributes:
        plan: what was evaluated.
        latency_s: a later request, from its start to the end of its last use.
        first_latency_s: the first request after load.
        uses, first_uses: the same, use by use.
        phases: peaks phase by phase, in the order of life.
        host_bytes: host memory per component that cannot be dropped.
        hosting: where the host copies wait.
    """

    plan: Plan
    latency_s: float
    first_latency_s: float
    uses: tuple[UseTimes, ...]
    first_uses: tuple[UseTimes, ...]
    phases: tuple[PhasePrediction, ...]
    host_bytes: dict[str, int]
    hosting: PlanHosting

    @property
    def peak(self) -> PhasePrediction:
        """The phase that needs the most."""
        return max(self.phases, key=lambda phase: phase.charged_bytes)

    def fits(self, cap_bytes: int) -> bool:
        """Whether the plan runs: within the cap, and on this host."""
        return self.peak.charged_bytes <= cap_bytes and not self.hosting.short_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What the search compares: seconds of a later request, bytes charged against the cap, and what the host lacks."""

    latency_s: float
    charged_bytes: int
    host_short_bytes: int = 0


class Evaluator:
    """Predicts plans of one model, workload, device, host and engine.

    Attributes:
        always_pins: whether the host has pinned memory for every layer under any plan.
        never_runs_short: whether it has memory for the copies of any plan.
    """

    def __init__(
        self, cost_model: CostModel, memory_model: MemoryModel, engine: Engine, host: HostMemory = AMPLE_HOST
    ) -> None:
        self.cost_model = cost_model
        self.memory_model = memory_model
        self.engine = engine
        facts = cost_model.facts
        self.host_rule = engine.host_rule(facts.model, facts.request, host)
        self.always_pins = always_pins(self.host_rule, facts.model)
        self.never_runs_short = never_runs_short(self.host_rule, facts.model)
        self.lifecycle = engine.lifecycle(facts.model, facts.request)
        self.phase_names = phase_names(facts.request)
        self._names = tuple(component.name for component in facts.model.components)
        self.component_phases = lru_cache(maxsize=65536)(self._component_phases)

    def evaluate(self, plan: Plan, recorder: Recorder | None = None) -> Evaluation:
        """Replay load, a first and a later request; ``recorder`` receives the later request.

        Raises:
            PlanError: the plan was made for another model.
        """
        program = self.lifecycle.build_program(plan)
        hosting = self.hosting_of(plan)
        clock = make_clock(self.costs_of(plan, hosting), fresh=True)
        clock.run(program.load.actions)
        first = self._replay_request(clock, program, program.first, None)
        later = self._replay_request(clock, program, program.later, recorder)
        return Evaluation(
            plan=plan,
            latency_s=later[-1].end_s if later else 0.0,
            first_latency_s=first[-1].end_s if first else 0.0,
            uses=later,
            first_uses=first,
            phases=self._walk_memory(program, plan),
            host_bytes={
                name: component.held_bytes for name, component in zip(self._names, hosting.components, strict=True)
            },
            hosting=hosting,
        )

    def hosting_of(self, plan: Plan) -> PlanHosting:
        """Where the host copies of ``plan`` wait."""
        return host_plan(self.host_rule, self.lifecycle.model, plan)

    def costs_of(self, plan: Plan, hosting: PlanHosting | None = None) -> Costs:
        """Costs of the actions of any program for ``plan``; ``hosting`` saves asking where its copies wait."""
        if self.always_pins:
            return self.cost_model.costs_of(plan)
        return self.cost_model.costs_of(plan, view_hosting(hosting or self.hosting_of(plan)))

    @cached_property
    def all_view_bytes(self) -> int:
        """What all layers of the model could keep mapped."""
        layers = (layer for part in self.lifecycle.model.components for stack in part.stacks for layer in stack.layers)
        return sum(layer.view_bytes for layer in layers)

    @cached_property
    def search_room_bytes(self) -> int:
        """Page cache that a plan of which not all is known yet can count on: what the server's rule leaves free."""
        memory = self.host_rule.memory
        if memory.page_cache_room_bytes is not None:
            return memory.page_cache_room_bytes
        everything = self.host_rule.start([True] * len(self._names))
        return min(COPY_RESERVE_BYTES, memory.available_bytes) if memory.pins else everything.available_bytes

    def score(self, plan: Plan) -> Score:
        """Only what the search compares: latency of a later request, and the most that is charged against the cap."""
        program = self.lifecycle.build_program(plan)
        hosting = None if self.always_pins and self.never_runs_short else self.hosting_of(plan)
        clock = make_clock(self.costs_of(plan, hosting))
        latency_s = 0.0
        for use in program.later.uses:
            for segment in use.segments:
                run_segment(clock, segment)
            latency_s = clock.compute_free_s
            clock.run(use.after.actions)
        short_bytes = hosting.short_bytes if hosting is not None else 0
        return Score(latency_s=latency_s, charged_bytes=self.charged_bytes(plan), host_short_bytes=short_bytes)

    def time_later(self, plan: Plan, program: Program | None = None) -> tuple[UseTimes, ...]:
        """Only the times of a later request, use by use; ``program``, if it is there already, is that of ``plan``."""
        program = program or self.lifecycle.build_program(plan)
        return self._replay_request(make_clock(self.costs_of(plan)), program, program.later, None)

    def charged_bytes(self, plan: Plan) -> int:
        """The most that ``plan`` charges against the cap in any phase of its life."""
        shares = [self.memory_model.charged_overhead_bytes]
        for index, name in enumerate(self._names):
            shares.append(self.component_phases(index, plan.placement(name), explicit=plan.explicit))
        return max(map(sum, zip(*shares, strict=True)))

    def _component_phases(self, component: int, placement: Placement, *, explicit: bool) -> tuple[int, ...]:
        """Peak device bytes of one component under ``placement``, its standing weights included, phase by phase."""
        script = self.lifecycle.script(component, placement, explicit=explicit)
        standing = self.memory_model.standing_bytes(component, placement)
        peaks = walk_component(script, self.cost_model.stack_costs, len(self.lifecycle.request.uses))
        return tuple(peak + standing for peak in peaks)

    def _walk_memory(self, program: Program, plan: Plan) -> tuple[PhasePrediction, ...]:
        """Peaks of every phase of the life, in order, from the joint program."""
        live = LiveBytes(self.cost_model.stack_costs)
        components = self.cost_model.facts.model.components
        standing = sum(
            self.memory_model.standing_bytes(index, plan.placement(component.name))
            for index, component in enumerate(components)
        )
        streamed = []
        live.run([program.load])
        streamed.append(live.take_peak())
        for request in (program.first, program.later):
            for use in request.uses:
                live.run(use.segments)
                streamed.append(live.take_peak())
                live.run([use.after])
                streamed.append(live.take_peak())
            live.run([request.ending])
            streamed.append(live.take_peak())
        return tuple(self._phase_peak(index, streamed_bytes, standing) for index, streamed_bytes in enumerate(streamed))

    def _phase_peak(self, phase: int, streamed: int, standing: int) -> PhasePrediction:
        memory = self.memory_model
        return PhasePrediction(
            phase=self.phase_names[phase],
            live_bytes=standing + streamed + memory.activation_bytes[phase],
            charged_bytes=standing + streamed + memory.charged_overhead_bytes[phase],
            streamed_bytes=streamed,
            standing_bytes=standing,
            activation_bytes=memory.activation_bytes[phase],
            kept_free_bytes=memory.kept_free_bytes[phase],
        )

    def _replay_request(
        self, clock: Clock, program: Program, request: RequestProgram, recorder: Recorder | None
    ) -> tuple[UseTimes, ...]:
        clock.settle()
        times = []
        for use in request.uses:
            times.append(_replay_use(clock, program.components[use.component], use, recorder))
            perform(clock, use.after.actions, recorder)
        perform(clock, request.ending.actions, recorder)
        return tuple(times)


def _replay_use(clock: Clock, component: str, use: UseProgram, recorder: Recorder | None) -> UseTimes:
    start, stalled_before = clock.compute_free_s, clock.stall_s
    fill: float | None = None
    passes: dict[int, list[PassTimes]] = {}
    for segment in use.segments:
        before = clock.compute_free_s
        if fill is None and (first_run := _first_run(segment)) is not None:
            perform(clock, segment.actions[: first_run + 1], recorder)
            fill = clock.stall_s - stalled_before
            perform(clock, segment.actions[first_run + 1 :], recorder)
            if recorder is not None:
                recorder.note_pass(clock, segment, before)
            took = clock.compute_free_s - before
            times = PassTimes(count=1, first_s=took, steady_s=took, total_s=took, settled_after=1)
        else:
            times = run_segment(clock, segment, recorder)
        if segment.group >= 0:
            passes.setdefault(segment.group, []).append(times)
    return UseTimes(
        component=component,
        start_s=start,
        end_s=clock.compute_free_s,
        fill_s=fill or 0.0,
        passes=tuple(join_passes(parts) for _, parts in sorted(passes.items())),
    )


def _first_run(segment: Segment) -> int | None:
    """Index of the first layer's run among the actions of a pass that runs once; None when there is none."""
    if segment.group < 0 or segment.repeat > 1:
        return None
    return next((index for index, (op, _) in enumerate(segment.actions) if op == _RUN), None)
