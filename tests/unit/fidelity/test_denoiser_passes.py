"""Steps are what users count, forwards what the server makes, passes what a stack makes."""

import pytest
from builders import build_component, build_facts
from calibration_builders import build_ground

from autotune.fidelity.passes import count_denoiser_passes, find_denoisers, forwards_per_step, with_forwards
from runtime.errors import InputError


@pytest.mark.parametrize(
    ("model", "names", "passes", "forwards"),
    [
        ("H3", ("transformer",), 49, 1),  # 50 sigma points
        ("Qwen-Image", ("transformer",), 100, 2),  # 50 steps with guidance
        ("Wan2.2-T2V-A14B", ("transformer", "transformer_2"), 80, 2),  # two experts share 40 steps
    ],
)
def test_forwards_of_real_models(read_model, model, names, passes, forwards):
    facts = read_model(model)
    assert find_denoisers(facts) == names
    assert count_denoiser_passes(facts) == passes
    assert forwards_per_step(facts) == forwards


def test_run_without_guidance_makes_half_the_passes_of_the_denoiser_alone(read_model):
    facts = read_model("Qwen-Image")
    single = with_forwards(facts, 1)
    assert (count_denoiser_passes(single), forwards_per_step(single)) == (50, 1)
    assert single.notes[-1] == "1 forward of transformer a step instead of 2"
    others = [use for use in facts.request.uses if use.component != "transformer"]
    assert [use for use in single.request.uses if use.component != "transformer"] == others
    assert single.work == facts.work


def test_both_experts_make_fewer_passes(read_model):
    single = with_forwards(read_model("Wan2.2-T2V-A14B"), 1)
    assert count_denoiser_passes(single) == 40
    assert single.notes[-1].startswith("1 forward of transformer and transformer_2 a step")


def test_passes_once_per_use_stay_as_they_are(read_model):
    doubled = with_forwards(read_model("H3"), 2)
    use = next(use for use in doubled.request.uses if use.component == "transformer")
    assert sorted(group.passes for group in use.groups) == [1, 98]


def test_own_number_of_forwards_changes_nothing():
    facts = build_ground().facts
    assert with_forwards(facts, 1) is facts


def test_no_forward_at_all_is_refused():
    with pytest.raises(InputError, match="0 forwards per step: at least one"):
        with_forwards(build_ground().facts, 0)


def test_model_without_transformer_denoises_nothing():
    with pytest.raises(InputError, match="no component that denoises"):
        find_denoisers(build_facts({"vae": build_component(2)}))
