"""The shares that stay whole on a rank, counted again on the library's classes built with fewer heads."""

import copy
from dataclasses import replace

import pytest

from autotune.catalog.built_component import capture_component
from autotune.catalog.minimax_h3 import CONFIGS, DEFAULT_WORKLOAD, settle_workload
from autotune.catalog.minimax_h3_capture import build_h3
from autotune.tensor_parallel.shard import shard_facts

SMALL = settle_workload(replace(DEFAULT_WORKLOAD, width=864, height=480)).workload
MODULATION_BYTES = 520_418_304
"""The adaLN projection, which the class keeps whole and a rank divides."""


def capture(component, ranks):
    """The component as the class makes it with one of ``ranks`` parts of the heads and the feed-forward width."""
    configs = copy.deepcopy(CONFIGS)
    configs["transformer"] = {"num_attention_heads": 56 // ranks, "ffn_dim": 14_336 // ranks}
    text = configs["text_encoder"]["text_config"]
    for name in ("num_attention_heads", "num_key_value_heads", "intermediate_size"):
        text[name] //= ranks
    return capture_component(build_h3(configs, SMALL)[component]())


@pytest.fixture(scope="module")
def rank(h3):
    """One of two ranks of the small request, from the whole classes."""
    whole = {name: capture(name, 1) for name in ("transformer", "text_encoder")}
    components = tuple(whole[part.name].spec if part.name in whole else part for part in h3.model.components)
    work = tuple(whole[item.component].work if item.component in whole else item for item in h3.work)
    facts = replace(h3, workload=SMALL, model=replace(h3.model, components=components), work=work)
    return shard_facts(facts, 2)


@pytest.mark.parametrize(
    ("component", "group", "stack", "modulation"),
    [
        ("transformer", 1, "blocks", MODULATION_BYTES),
        ("transformer", 0, "token_refiner.blocks", 0),
        ("text_encoder", 0, "model.language_model.layers", 0),
    ],
)
def test_a_rank_does_the_work_of_the_class_with_half_the_heads(rank, component, group, stack, modulation):
    counted = capture(component, 2)
    own = next(work for work in rank.work if work.component == component).groups[group].layers[stack][0]
    real = counted.work.groups[group].layers[stack][0]
    layer = rank.model.component(component).stack(stack).layers[0]
    assert layer.run_bytes == counted.spec.stack(stack).layers[0].run_bytes - modulation // 2
    assert own.matmul_flops == pytest.approx(real.matmul_flops, rel=2e-4)
    assert own.attention_flops == real.attention_flops
    assert own.matmul_bytes == pytest.approx(real.matmul_bytes - modulation / 2, rel=1e-3)
    assert own.other_bytes == pytest.approx(real.other_bytes, rel=1e-4)


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_activations_of_a_rank_are_those_of_the_class_with_fewer_heads(h3, ranks):
    share = capture("transformer", ranks).work.activation_bytes / capture("transformer", 1).work.activation_bytes
    whole, own = (
        next(work for work in facts.work if work.component == "transformer").activation_bytes
        for facts in (h3, shard_facts(h3, ranks))
    )
    assert own / whole == pytest.approx(share, rel=1e-3)
