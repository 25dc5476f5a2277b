"""Plan documents and profiles of toy models, as a search would save them, ready to be executed."""

from dataclasses import replace

from builders import RATES, build_facts
from planning_builders import AMPLE_BYTES, SETTINGS, build_target

from autotune.profile import Profile
from autotune.workflows.document import NOT_MODELLED, build_prediction, describe_workload
from autotune.workflows.planning import build_evaluator
from runtime.interference import NO_INTERFERENCE
from runtime.plan_document import PlanDocument


def build_run(
    components,
    plan,
    *,
    cap_bytes=10**9,
    host_bytes=AMPLE_BYTES,
    pins=True,
    page_cache_bytes=None,
    output_frames_bytes=0,
    interference=NO_INTERFERENCE,
):
    """The document of ``plan`` for a toy model, and the profile that it was made from."""
    facts = build_facts(components, output_frames_bytes=output_frames_bytes)
    target = build_target(cap_bytes, host_bytes=host_bytes, pins=pins)
    rates = replace(RATES, interference=interference)
    target = replace(target, host=replace(target.host, page_cache_bytes=page_cache_bytes), rates=rates)
    evaluator = build_evaluator(facts, target, SETTINGS)
    profile = Profile(facts=facts, rates=rates, context_bytes=0, device=target.device)
    document = PlanDocument(
        created="2026-01-01T00:00:00+00:00",
        program="test",
        command="autotune search",
        workload=describe_workload(profile),
        device=target.device,
        host=target.host,
        cap=target.cap,
        plan=plan,
        prediction=build_prediction(evaluator.evaluate(plan), evaluator),
        findings=(),
        comparisons=(),
        what_ifs=(),
        tuning_gains=(),
        assumptions=(),
        not_modelled=NOT_MODELLED,
        profile_id=profile.digest,
        model=facts.model,
        request=facts.request,
    )
    return document, profile
