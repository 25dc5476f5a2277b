"""A pipeline of no catalog: bytes from its files, compute unknown, whole components where nothing can be streamed."""

from dataclasses import replace

import pytest
from builders import SGLANG
from checkpoint_files import blocks, write_pipeline, write_tensors

from autotune.checkpoint.facts import load_checkpoint_facts
from autotune.checkpoint.unknown import COMPUTE_UNKNOWN
from autotune.cost_model import CostModel
from autotune.evaluate import Evaluator
from autotune.exact import ExactSolver
from autotune.hardware import find_device
from autotune.memory_model import MemoryModel, MemorySettings
from autotune.rates import derive_rates
from autotune.space import SearchSpace
from runtime.engines.registry import find_engine
from runtime.errors import InputError
from runtime.model_spec import PassGroup
from runtime.residency import Mode
from runtime.units import GIB


def load(path, **shape):
    return load_checkpoint_facts(path, shape, progress=lambda _: None)


def build_solver(facts):
    memory = MemorySettings(context_bytes=0, reserve_bytes=0)
    costs = CostModel(facts, derive_rates(find_device("rtx-4090")))
    return ExactSolver(Evaluator(costs, MemoryModel(facts, memory), find_engine(SGLANG)), SearchSpace(max_prefetch=1))


@pytest.fixture
def p8_folder(tmp_path):
    """A DiT of 20 GiB in 40 layers; a VAE of 10 GiB and an image encoder of 4 GiB without a list."""
    return write_pipeline(
        tmp_path / "custom",
        {
            "image_encoder": ("CustomEncoder", {"tower.weight": ("U8", (4 * GIB,))}),
            "transformer": ("CustomTransformer", blocks("blocks", 40, GIB // 2)),
            "vae": ("CustomVAE", {"decoder.weight": ("U8", (10 * GIB,))}),
        },
    )


def test_unknown_pipeline_has_the_bytes_of_its_files_and_no_compute(p8_folder):
    facts = load(p8_folder, steps=30)
    assert {part.name: part.run_bytes for part in facts.model.components} == {
        "image_encoder": 4 * GIB,
        "transformer": 20 * GIB,
        "vae": 10 * GIB,
    }
    assert facts.source == "checkpoint"
    assert facts.notes[0] == COMPUTE_UNKNOWN
    assert all(work.flops == 0 for use in facts.work for group in use.groups for work in group.layers["blocks"])


def test_unknown_transformer_runs_once_a_step_and_everything_else_once(p8_folder):
    uses = {use.component: use.groups for use in load(p8_folder, steps=30).request.uses}
    assert list(uses) == ["image_encoder", "transformer", "vae"]
    assert uses["transformer"] == (PassGroup(stacks=("blocks",), passes=30),)


def test_p8_component_without_a_list_of_layers_is_resident_or_moved_whole(p8_folder):
    facts = load(p8_folder)
    for name in ("image_encoder", "vae"):
        modes = {placement.mode for placement in SearchSpace().placements(facts.model.component(name))}
        assert modes == {Mode.RESIDENT, Mode.COMPONENT_OFFLOAD}
    assert any("no list of layers was found in image_encoder, vae" in note for note in facts.notes)


def with_activations(facts, size_bytes):
    return replace(facts, work=tuple(replace(work, activation_bytes=size_bytes) for work in facts.work))


def test_p8_no_plan_keeps_both_unhookable_components_under_twelve_gib(p8_folder):
    solver = build_solver(with_activations(load(p8_folder), GIB))
    assert solver.solve(11 * GIB) is None
    solution = solver.solve(12 * GIB)
    for plan in (solution.chosen, solution.optimum, *(point.plan for point in solver.trade_off())):
        charged = solver.evaluator.charged_bytes(plan)
        modes = [plan.placement(name).mode for name in ("image_encoder", "vae")]
        assert charged > 12 * GIB or modes != [Mode.RESIDENT, Mode.RESIDENT]
    assert solution.chosen.placement("vae").mode is Mode.COMPONENT_OFFLOAD
    assert solution.chosen.placement("transformer").mode is Mode.LAYERWISE_OFFLOAD
    decode = solver.evaluator.evaluate(solution.chosen).peak
    assert 11 * GIB <= decode.charged_bytes <= 12 * GIB


def test_planner_of_an_unknown_model_keeps_as_many_bytes_as_fit(p8_folder):
    solver = build_solver(load(p8_folder))
    latencies = [solver.solve(cap * GIB).optimum_score.latency_s for cap in (12, 20, 36)]
    assert latencies == sorted(latencies, reverse=True)
    assert latencies[-1] < 1e-3


def test_experts_share_the_steps(tmp_path):
    layers = blocks("blocks", 4, 1000)
    write_pipeline(tmp_path, {"transformer": ("T", layers), "transformer_2": ("T", layers)})
    facts = load(tmp_path, steps=7)
    assert [use.groups[0].passes for use in facts.request.uses] == [4, 3]
    assert any("experts that share the steps evenly" in note for note in facts.notes)


def test_gap_in_a_list_is_noted_and_the_layers_keep_their_order(tmp_path):
    file = write_tensors(
        tmp_path / "x.safetensors", {f"blocks.{index}.w": ("U8", (index + 1,)) for index in (10, 0, 2)}
    )
    facts = load(file)
    assert [layer.run_bytes for layer in facts.model.components[0].stacks[0].layers] == [1, 3, 11]
    assert any("blocks has 3 layers and lacks 1, 3-9" in note for note in facts.notes)


def test_steps_of_an_embedding_are_no_layers(tmp_path):
    tensors = {f"blocks.{index}.attn.to_q.weight": ("BF16", (64, 64)) for index in range(3)}
    tensors |= {"time_embedding.0.weight": ("BF16", (8, 8)), "time_embedding.2.weight": ("BF16", (8, 8))}
    component = load(write_tensors(tmp_path / "x.safetensors", tensors)).model.components[0]
    assert [stack.name for stack in component.stacks] == ["blocks"]
    assert component.rest_run_bytes == 256


def test_lists_that_the_server_declares_for_vaes_are_preferred(tmp_path):
    tensors = {
        f"{name}.{index}.conv.weight": ("F32", (8,))
        for name in ("encoder.down_blocks", "decoder.up_blocks", "decoder.mid_block.resnets")
        for index in range(2)
    }
    write_pipeline(tmp_path, {"transformer": ("T", blocks("blocks", 2, 8)), "vae": ("SomeVAE", tensors)})
    vae = load(tmp_path).model.component("vae")
    assert [stack.name for stack in vae.stacks] == ["encoder.down_blocks", "decoder.up_blocks"]
    assert (vae.rest_run_bytes, vae.run_dtype) == (64, "float32")


def test_lone_vae_is_no_diffusion_transformer(tmp_path):
    write_tensors(tmp_path / "vae" / "model.safetensors", {"decoder.up_blocks.0.w": ("F32", (8,))})
    facts = load(tmp_path / "vae")
    assert [(part.name, part.is_dit) for part in facts.model.components] == [("vae", False)]


@pytest.mark.parametrize("shape", [{"steps": 0}, {"width": 100_000}, {"batch": 5_000}])
def test_impossible_request_is_refused(p8_folder, shape):
    with pytest.raises(InputError, match="it must be from 1 to"):
        load(p8_folder, **shape)


def test_name_that_is_no_text_can_still_be_written(tmp_path):
    folder = tmp_path / "odd\udcff"
    write_tensors(folder / "model.safetensors", blocks("blocks", 2, 8))
    write_tensors(folder / "model.fp16.safetensors", blocks("blocks", 2, 8))
    facts = load(folder)
    assert [text.encode() for text in (facts.model.name, *facts.notes)]
