"""Runs of a toy model on a card whose rates are hidden, as an observer would note them.

Every byte of the toys of ``builders`` counts a million times here: bytes are whole, and slopes over them are taken.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from builders import RATES, SGLANG, ToyComponent, build_component, build_facts, build_plan, build_stack, kept, streamed

from autotune.evaluate import AMPLE_HOST
from autotune.fidelity.case import Case, Ground
from autotune.observed.observation import Observation, ObservedLatency, ObservedPeak, PeakKind, Scope, Setup
from autotune.uncertainty import Uncertainty
from runtime.model_spec import LayerSpec

MEGA = 10**6
LAYERS = 6
COMPONENTS = {
    "text_encoder": build_component(4, compute_ms=2.0, copy_ms=5.0, rest_ms=1.0, activation_bytes=3000),
    "transformer": ToyComponent(
        stacks={"blocks": build_stack(LAYERS, compute_ms=4.0, copy_ms=6.0, passes=8)},
        is_dit=True,
        rest_ms=2.0,
        outside_ms=1.0,
        activation_bytes=25000,
    ),
    "vae": build_component(0, outside_ms=20.0, rest_ms=5.0, activation_bytes=35000),
}
PRIOR_SDS = {
    "copy": 0.25,
    "pass_s": 0.002,
    "use_s": 0.002,
    "base_bytes": 3e9,
    "compute.text_encoder": 0.3,
    "compute.transformer": 0.3,
    "compute.vae": 0.3,
    "activations.transformer": 0.2,
    "activations.vae": 0.2,
}
_KNOBS = ({"resident": 0}, {"resident": 2}, {"resident": 4}, {"prefetch": 2})
PLANS = (
    *(build_plan(streamed("text_encoder"), streamed("transformer", **knobs), kept("vae")) for knobs in _KNOBS),
    build_plan(kept("text_encoder"), kept("transformer"), kept("vae")),
    build_plan(kept("text_encoder"), streamed("transformer", resident=3), kept("vae")),
)


def build_prior(**sds):
    """Independent factors with the given standard deviations, those of ``PRIOR_SDS`` unless named."""
    chosen = {**PRIOR_SDS, **sds}
    names = tuple(chosen)
    covariance = np.diag([chosen[name] ** 2 for name in names])
    return Uncertainty(
        names=names,
        covariance=tuple(map(tuple, covariance.tolist())),
        repeat_ratio=0.02,
        sources=dict.fromkeys(names, "a test's"),
    )


def build_ground(passes=8, host=AMPLE_HOST, *, components=None, uses=None):
    """The toy model with ``passes`` of its denoiser, and with more ``components``."""
    transformer = replace(
        COMPONENTS["transformer"], stacks={"blocks": build_stack(LAYERS, compute_ms=4.0, copy_ms=6.0, passes=passes)}
    )
    facts = _enlarge(build_facts({**COMPONENTS, "transformer": transformer, **(components or {})}, uses=uses))
    facts = replace(facts, workload=replace(facts.workload, steps=passes))
    return Ground(facts=facts, rates=_RATES, context_bytes=500 * MEGA, host=host, engine=SGLANG)


_RATES = replace(
    RATES,
    **{
        name: getattr(RATES, name) * MEGA
        for name in ("pinned_bytes_per_s", "pageable_bytes_per_s", "disk_bytes_per_s", "d2h_bytes_per_s")
    },
)


def _enlarge(facts):
    components = tuple(
        replace(
            component,
            stacks=tuple(
                replace(
                    stack,
                    layers=tuple(
                        LayerSpec(checkpoint_bytes=layer.run_bytes * MEGA, run_bytes=layer.run_bytes * MEGA)
                        for layer in stack.layers
                    ),
                )
                for stack in component.stacks
            ),
            rest_run_bytes=component.rest_run_bytes * MEGA,
            rest_checkpoint_bytes=component.rest_checkpoint_bytes * MEGA,
        )
        for component in facts.model.components
    )
    work = tuple(replace(use, activation_bytes=use.activation_bytes * MEGA) for use in facts.work)
    return replace(facts, model=replace(facts.model, components=components), work=work)


def build_observation(ground, name="run", *, latencies=(), peak=None, **changes):
    """An observed run of the toy model."""
    setup = Setup(model="toy", device="toy", workload=ground.facts.workload)
    return Observation(name=name, where=f"toy.csv, {name}", setup=setup, latencies=latencies, peak=peak, **changes)


SCOPES = (
    ObservedLatency(seconds=1.0, scope=Scope.REQUEST),
    ObservedLatency(seconds=1.0, scope=Scope.USE, component="transformer"),
    ObservedLatency(seconds=1.0, scope=Scope.USE, component="text_encoder"),
)


@dataclass(frozen=True)
class Trial:
    """Observed cases, and the factors that made them."""

    cases: tuple
    hidden: dict


def draw_hidden(random, prior):
    """Factors as the prior scatters them; what is added is never less than nothing."""
    hidden = {name: float(random.normal(0, prior.sd_of(name))) for name in prior.names}
    return {name: abs(value) if name in {"pass_s", "use_s"} else value for name, value in hidden.items()}


def observe(plan, ground, factors, name, *, noise=lambda: 1.0):
    """One run under hidden ``factors``; ``noise`` multiplies each figure."""
    evaluator = ground.build_evaluator(factors)
    blank = build_observation(ground, name, latencies=SCOPES, peak=ObservedPeak(size_bytes=1, kind=PeakKind.RESERVED))
    case = Case(blank, plan, ground)
    latencies = tuple(
        replace(scope, seconds=seconds * noise())
        for scope, seconds in zip(SCOPES, case.predict_latencies_s(evaluator), strict=True)
    )
    peak_bytes = round(case.predict_peak_bytes(factors) * noise())
    peak = ObservedPeak(size_bytes=peak_bytes, kind=PeakKind.RESERVED)
    return Case(build_observation(ground, name, latencies=latencies, peak=peak), plan, ground)


def factors_of(calibration):
    return {factor.name: factor for factor in calibration.factors}


def with_figures(case, *, latencies=None, peak=None, **changes):
    """``case`` with only the given figures."""
    return replace(case, observation=replace(case.observation, latencies=latencies or (), peak=peak, **changes))


def draw_trial(seed, *, noise_ratio=0.03, outlier_share=0.1):
    """Two runs of every plan; figures scatter, and one in ten is far off."""
    random = np.random.default_rng(seed)
    prior = build_prior()
    hidden = draw_hidden(random, prior)

    def noise():
        is_bad = random.random() < outlier_share
        return math.exp(random.normal(0, noise_ratio)) * (
            math.exp(random.choice([-1, 1]) * random.uniform(0.3, 1.0)) if is_bad else 1.0
        )

    ground = build_ground()
    cases = tuple(
        observe(plan, ground, hidden, f"run {index}, {repeat}", noise=noise)
        for repeat in ("once", "again")
        for index, plan in enumerate(PLANS)
    )
    return Trial(cases=cases, hidden=hidden)
