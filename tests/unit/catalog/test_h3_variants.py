"""MiniMax-H3's variants: bytes, work and what the server asks for them."""

import dataclasses

import pytest

from autotune.catalog.minimax_h3_variants import FP8_RATE_OVER_BFLOAT16
from autotune.catalog.registry import CATALOG, find_model
from autotune.hardware import list_devices
from runtime.errors import InputError

BLOCK, REFINER = 1_291_143_680, 770_725_376
MODULATION = 520_418_304
GIB = 2**30


@pytest.fixture
def derive(h3):
    return lambda name: find_model("H3").derive_facts(h3, name)


def layers_of(facts):
    return {stack.name: stack.layers[0] for stack in facts.model.component("transformer").stacks}


def block_work(facts):
    work = next(work for work in facts.work if work.component == "transformer")
    return work, work.groups[1].layers["blocks"][0]


def test_online_adaln_takes_the_projection_out_of_every_block(h3, derive):
    facts = derive("adaln-online")
    assert {layer.run_bytes for layer in facts.model.component("transformer").stack("blocks").layers} == {
        BLOCK - MODULATION
    }
    assert layers_of(facts)["blocks"].transformed_bytes == layers_of(h3)["blocks"].transformed_bytes == 231_211_008
    assert layers_of(facts)["token_refiner.blocks"] == layers_of(h3)["token_refiner.blocks"]


def test_online_adaln_keeps_a_cache_of_64_plans_on_the_device(h3, derive):
    base, spec = (facts.model.component("transformer") for facts in (h3, derive("adaln-online")))
    entry = 2 * (50 * 18 * 5_376 + 2 * 5_376)
    final = 2 * 10_752 * (2_688 + 1)
    assert spec.rest_run_bytes - base.rest_run_bytes == 64 * (2 * (entry + 4) + 8) - final
    assert spec.run_bytes == 41_443_074_624


def test_online_adaln_leaves_its_bytes_unread_in_the_same_file(h3, derive):
    spec = derive("adaln-online").model.component("transformer")
    assert spec.checkpoint_bytes + spec.unread_checkpoint_bytes == 66_280_430_144
    assert spec.unread_checkpoint_bytes == 26_078_739_456


def test_online_adaln_saves_the_product_of_two_timesteps(h3, derive):
    (_, before), (_, after) = block_work(h3), block_work(derive("adaln-online"))
    assert before.matmul_flops - after.matmul_flops == 2 * 2 * 96_768 * 2_688
    assert before.matmul_bytes - after.matmul_bytes == MODULATION + 2 * 2 * (96_768 + 2_688)
    assert before.other_bytes == after.other_bytes


def test_online_adaln_is_refused_for_more_steps_than_its_cache_holds(capture_model):
    with pytest.raises(InputError, match="holds 64 steps and the request has 65"):
        find_model("H3").derive_facts(capture_model("H3", steps=66), "adaln-online")


def test_fp8_halves_every_product_of_the_blocks_and_the_refiner(derive):
    layers = layers_of(derive("fp8"))
    assert layers["blocks"].run_bytes == 646_310_400
    assert layers["token_refiner.blocks"].run_bytes == 385_617_408
    assert all(layer.view_bytes == 0 for layer in layers.values())
    assert layers["blocks"].checkpoint_bytes == BLOCK


def test_fp8_saves_what_was_measured_in_public(h3, derive):
    base, spec = (facts.model.component("transformer") for facts in (h3, derive("fp8")))
    assert spec.run_bytes == 33_212_188_224
    assert 30.3 <= (base.run_bytes - spec.run_bytes) / GIB <= 31


def test_fp8_computes_products_in_fp8_and_attention_at_the_bfloat16_rate(h3, derive):
    (_, before), (work, after) = block_work(h3), block_work(derive("fp8"))
    assert work.compute_dtype == "fp8"
    assert after.matmul_flops == before.matmul_flops
    assert after.attention_flops == FP8_RATE_OVER_BFLOAT16 * before.attention_flops


def test_every_preset_that_has_fp8_has_it_at_twice_its_bfloat16_rate():
    rates = [preset.matrix_flops_per_s for preset in list_devices() if "fp8" in preset.matrix_flops_per_s]
    assert rates
    for rate in rates:
        assert rate["fp8"] / rate["bfloat16"] == pytest.approx(FP8_RATE_OVER_BFLOAT16, rel=0.02)


def test_fp8_needs_the_whole_transformer_on_the_device_while_loading(h3):
    variant = find_model("H3").find_variant("fp8")
    assert variant.load_device_bytes == h3.model.component("transformer").run_bytes
    assert variant.dtypes == ("fp8",)


def test_online_int8_keeps_the_projection_in_bfloat16(derive):
    facts = derive("int8-online")
    layers = layers_of(facts)
    assert layers["blocks"].run_bytes == 906_035_712
    assert layers["blocks"].transformed_bytes == layers["token_refiner.blocks"].transformed_bytes == 385_595_392
    assert facts.model.component("transformer").run_bytes == 46_227_312_192


def test_int8_file_has_its_published_size(derive):
    spec = derive("int8").model.component("transformer")
    assert spec.checkpoint_bytes == 20_970_269_792
    assert spec.checkpoint_bytes / GIB == pytest.approx(19.53, abs=0.005)


def test_int8_file_hosts_about_as_much_as_was_reported(derive):
    facts = derive("int8")
    assert layers_of(facts)["blocks"].run_bytes == 389_101_056
    assert facts.model.component("transformer").run_bytes == 21_057_554_528
    assert facts.model.component("transformer").run_bytes == pytest.approx(20.3e9, rel=0.05)


def test_int8_is_timed_at_the_bfloat16_rate_and_says_so(derive):
    facts = derive("int8")
    work, _ = block_work(facts)
    assert work.compute_dtype == "bfloat16"
    assert "timed at the bfloat16 rate" in facts.notes[-1]


@pytest.mark.parametrize("name", ["adaln-online", "fp8", "int8-online", "int8"])
def test_variant_changes_the_transformer_only(h3, derive, name):
    facts = derive(name)
    assert facts.variant == name
    assert facts.notes[-1].startswith(f"variant {name}: ")
    assert [part for part in facts.model.components if part.name != "transformer"] == [
        part for part in h3.model.components if part.name != "transformer"
    ]
    assert facts.request == h3.request
    assert facts.model.component("transformer").offload_host_bytes >= facts.model.component("transformer").run_bytes


def test_only_the_cached_modulation_keeps_the_output():
    same = {variant.name: variant.same_output for variant in find_model("H3").variants}
    assert same == {"adaln-online": True, "fp8": False, "int8-online": False, "int8": False}
    assert [variant.name for variant in find_model("H3").variants if variant.needs_checkpoint] == ["int8"]


def test_unknown_variant_is_refused_with_those_there_are(h3):
    with pytest.raises(InputError, match=r"H3 has no variant 'fp4': it has adaln-online, fp8, int8-online, int8"):
        find_model("H3").derive_facts(h3, "fp4")
    with pytest.raises(InputError, match=r"FLUX\.1-dev has no variant 'fp8': it has none"):
        find_model("FLUX.1-dev").find_variant("fp8")


def test_variants_without_a_way_to_derive_them_are_refused():
    with pytest.raises(InputError, match="both variants and a way"):
        dataclasses.replace(find_model("H3"), derive=None)


@pytest.mark.parametrize("entry", CATALOG, ids=lambda entry: entry.name)
def test_variants_of_a_model_have_different_names_and_flags(entry):
    assert len({variant.name for variant in entry.variants}) == len(entry.variants)
    assert len({variant.flags for variant in entry.variants}) == len(entry.variants)
