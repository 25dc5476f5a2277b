from builders import build_facts
from hypothesis import given
from hypothesis import strategies as st
from strategies import components

from autotune.server_default import PerformanceMode, choose_default
from runtime.deployment import Deployment
from runtime.model_spec import ModelSpec
from runtime.residency import Mode

NAMES = (
    "text_encoder",
    "text_encoder_2",
    "image_encoder",
    "transformer",
    "transformer_2",
    "connectors",
    "vae",
    "video_vae",
    "audio_vae",
    "vocoder",
    "something_else",
)
GROUPS = ("dit", "text_encoder", "image_encoder", "vae")
# Toy layers take some thousand bytes, so thresholds in GiB are fractions of one.
TOY_GIB = st.sampled_from([None, 0.0, 1e-6, 1e-5, 5e-5])


@st.composite
def models(draw):
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6, unique=True))
    toys = {name: draw(components(is_dit=name.startswith("transformer"))) for name in names}
    deployment = Deployment(
        makes_images=draw(st.booleans()),
        dit_layerwise_modes=draw(st.sampled_from([(), ("memory",), ("auto",), ("auto", "memory")])),
        dit_prefetch_value=draw(st.sampled_from([0.0, 1.0, 2.0, 7.0])),
        keep_resident_min_gib=draw(TOY_GIB),
        keep_resident_groups=tuple(draw(st.lists(st.sampled_from(GROUPS), unique=True))),
    )
    facts = build_facts(toys)
    return ModelSpec(name="toy", components=facts.model.components, deployment=deployment)


@given(models(), st.integers(0, 200_000), st.sampled_from(PerformanceMode))
def test_every_placement_of_a_default_plan_is_legal(model, free_bytes, mode):
    plan = choose_default(model, device_total_bytes=200_000, device_free_bytes=free_bytes, performance_mode=mode)
    plan.check_fits_model(model)
    assert [placement.component for placement in plan.placements] == [part.name for part in model.components]
    assert all(placement.resident == 0 for placement in plan.placements)
    if mode in (PerformanceMode.SPEED, PerformanceMode.MANUAL):
        assert {placement.mode for placement in plan.placements} == {Mode.RESIDENT}


@given(models(), st.integers(0, 200_000), st.integers(0, 200_000))
def test_with_more_free_memory_auto_keeps_at_least_the_same_components_resident(model, one, other):
    few, many = (
        {
            placement.component
            for placement in choose_default(
                model, device_total_bytes=200_000, device_free_bytes=free_bytes, performance_mode="auto"
            ).placements
            if placement.mode is Mode.RESIDENT
        }
        for free_bytes in sorted((one, other))
    )
    assert few <= many
