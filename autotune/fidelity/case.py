"""One observed run beside what predicts it: the figures that were observed, predicted under any factors. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from autotune.cost_model import CostModel
from autotune.evaluate import Evaluator, UseTimes
from autotune.fidelity.cached_blocks import count_reserved_weights, keep_largest, list_window_starts
from autotune.fidelity.factors import Factors, apply_to_activations, apply_to_facts, apply_to_rates
from autotune.fidelity.passes import find_denoisers, forwards_per_step
from autotune.memory_model import MemoryModel, MemorySettings
from autotune.model_facts import ModelFacts
from autotune.observed.observation import Observation, ObservedLatency, PeakKind, Scope
from autotune.rates import Rates
from runtime.engines.registry import find_engine
from runtime.errors import InputError
from runtime.hosting import HostMemory
from runtime.plan import Plan
from runtime.program import Program
from runtime.residency import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What predicts all runs of one set-up.

    Attributes:
        facts: of the model under the set-up's workload, as the server ran it.
        rates: of the device.
        context_bytes: device memory besides weights and activations.
        unseen_bytes: what of it torch does not count; None for all.
        host: memory for the weights.
        engine: whose behaviour is simulated.
    """

    facts: ModelFacts
    rates: Rates
    context_bytes: int
    host: HostMemory
    engine: str
    unseen_bytes: int | None = None

    def build_evaluator(self, factors: Factors) -> Evaluator:
        """What predicts times under ``factors``."""
        facts = apply_to_facts(self.facts, factors)
        memory = MemorySettings(context_bytes=self.context_bytes, reserve_bytes=0)
        costs = CostModel(facts, apply_to_rates(self.rates, factors))
        return Evaluator(costs, MemoryModel(facts, memory), find_engine(self.engine), self.host)


@dataclass(frozen=True)
class Case:
    """An observation, the plan that it ran under, and what predicts it."""

    observation: Observation
    plan: Plan
    ground: Ground

    def __post_init__(self) -> None:
        facts, name = self.ground.facts, self.observation.name
        names = [component.name for component in facts.model.components]
        used = {use.component: bool(use.groups) for use in facts.request.uses}
        for component in self.components:
            if component not in names:
                raise InputError(
                    f"{name}: {facts.model.name} has no component {component!r}; it has {', '.join(names)}"
                )
            if component not in used:
                raise InputError(f"{name}: a request does not use {component}: nothing of it can be compared")
        for latency in self.observation.latencies:
            if latency.scope is Scope.STEP and not any(used[part] for part in latency.component.split("+")):
                raise InputError(f"{name}: {latency.component} makes no passes: no step of it is predicted")

    @cached_property
    def components(self) -> tuple[str, ...]:
        """The components that the observed figures are of."""
        texts = [latency.component for latency in self.observation.latencies]
        if self.observation.peak is not None:
            texts.append(self.observation.peak.component)
        return tuple(dict.fromkeys(name for text in texts for name in text.split("+") if name))

    def predict_latencies_s(self, evaluator: Evaluator) -> tuple[float, ...]:
        """Seconds of everything that was timed, in the order of the observation."""
        uses = evaluator.time_later(self.plan, self._program)
        return tuple(self._predict_latency_s(latency, uses, evaluator) for latency in self.observation.latencies)

    def _predict_latency_s(self, latency: ObservedLatency, uses: Sequence[UseTimes], evaluator: Evaluator) -> float:
        names = latency.component.split("+")
        own = [use for use in uses if use.component in names and use.total_s > 0]
        match latency.scope:
            case Scope.REQUEST:
                return uses[-1].end_s if uses else 0.0
            case Scope.USE:
                return sum(use.total_s for use in own) - self._return_s(own, evaluator)
            case Scope.STEP:
                return self._step_s(own)
            case Scope.MOVE_DOWN:
                return _move_down_s(names, evaluator)

    def _return_s(self, uses: Sequence[UseTimes], evaluator: Evaluator) -> float:
        """What the return of components that are moved whole takes of ``uses``; the server does not wait for it."""
        moved = [use for use in uses if self.plan.placement(use.component).mode is Mode.COMPONENT_OFFLOAD]
        return sum(_move_down_s([use.component], evaluator) for use in moved)

    def _step_s(self, uses: Sequence[UseTimes]) -> float:
        """One denoising step: steady passes of the group with most of them, as many as a step makes."""
        groups = [max(use.passes, key=lambda times: times.count) for use in uses if use.passes]
        passes = sum(group.count for group in groups)
        mean_s = sum(group.count * group.steady_s for group in groups) / passes
        denoisers = set(find_denoisers(self.ground.facts))
        is_denoiser = all(use.component in denoisers for use in uses)
        return mean_s * (forwards_per_step(self.ground.facts) if is_denoiser else 1)

    def predict_peak_bytes(self, factors: Factors) -> int | None:
        """The peak as it was counted, under ``factors``; None where none was observed."""
        peak = self.observation.peak
        if peak is None:
            return None
        facts = apply_to_activations(self.ground.facts, factors)
        if peak.kind is PeakKind.ACTIVATIONS:
            activations = max(use.activation_bytes for use in facts.work if use.component == peak.component)
            return activations + facts.model.component(peak.component).run_bytes
        memory = MemoryModel(facts, MemorySettings(context_bytes=self.ground.context_bytes, reserve_bytes=0))
        if peak.kind is PeakKind.ALLOCATED:
            kept_bytes = self.ground.context_bytes - self._unseen_bytes
            weights, besides = self._weight_bytes, tuple(size + kept_bytes for size in memory.activation_bytes)
        else:
            weights, besides = self._reserved_bytes, keep_largest(memory.charged_overhead_bytes, self._window_starts)
        # Loading is part of no request, and servers reset their counters after it.
        most = max(weights + rest for weights, rest in list(zip(weights, besides, strict=True))[1:])
        is_of_torch = peak.kind in {PeakKind.RESERVED, PeakKind.UNSTATED}
        return most - (self._unseen_bytes if is_of_torch else 0) + round(factors.get("base_bytes", 0.0))

    @property
    def _unseen_bytes(self) -> int:
        unseen_bytes = self.ground.unseen_bytes
        return self.ground.context_bytes if unseen_bytes is None else unseen_bytes

    @cached_property
    def _program(self) -> Program:
        """What the engine does under the plan; no factor changes it."""
        facts = self.ground.facts
        return find_engine(self.ground.engine).lifecycle(facts.model, facts.request).build_program(self.plan)

    @cached_property
    def _weight_bytes(self) -> tuple[int, ...]:
        """The most weights on the device in every phase of the life; no factor changes these."""
        phases = self.ground.build_evaluator({}).evaluate(self.plan).phases
        return tuple(phase.streamed_bytes + phase.standing_bytes for phase in phases)

    @cached_property
    def _window_starts(self) -> tuple[int, ...]:
        return list_window_starts(self.ground.facts, self.plan)

    @cached_property
    def _reserved_bytes(self) -> tuple[int, ...]:
        """The most that is reserved for weights in every phase of the life; no factor changes these."""
        evaluator = self.ground.build_evaluator({})
        return count_reserved_weights(evaluator, self.plan, self._window_starts)


def _move_down_s(names: Sequence[str], evaluator: Evaluator) -> float:
    components = evaluator.cost_model.facts.model.components
    moved_bytes = sum(component.run_bytes for component in components if component.name in names)
    return moved_bytes / evaluator.cost_model.rates.d2h_bytes_per_s
