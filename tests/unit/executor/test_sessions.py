"""What a session accepts, when it attaches, and where a request begins and ends."""

import time
from collections import defaultdict
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from executor_builders import (
    AMPLE,
    SGLANG,
    Chain,
    assert_as_found,
    emulated,
    executable_for,
    inputs,
    open_session,
    pipeline_executable,
    seeded,
    snapshot,
)
from torch import nn
from toy_modules import UNPACED

from runtime import Session as ExportedSession
from runtime.describe_module import describe_module
from runtime.devices.emulated import ClockKind, EmulatedDevice
from runtime.devices.link_rates import LinkRates
from runtime.devices.protocol import MemoryKind
from runtime.errors import SessionError
from runtime.model_spec import ModelSpec, PassGroup, RequestSpec, UseSpec
from runtime.plan import Placement, Plan
from runtime.residency import Lifetime, Mode, Policy
from runtime.session import Executable, Session


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.no_grad():
        yield


def build_parts():
    torch.manual_seed(5)
    names = ("text_encoder", "transformer", "vae")
    return {name: Chain(count).requires_grad_(False) for name, count in zip(names, (3, 5, 4), strict=True)}


def call_all(parts, x, passes=2):
    for module in parts.values():
        for _ in range(passes):
            x = module(x)
    return x


MODES = [{}, {"vae": Mode.RESIDENT}, {"transformer": Mode.COMPONENT_OFFLOAD}, {"text_encoder": Mode.COMPONENT_OFFLOAD}]


@pytest.mark.parametrize("engine", [SGLANG, "topup"])
@pytest.mark.parametrize("modes", MODES)
def test_a_pipeline_of_components_gives_the_same_output_request_after_request(engine, modes):
    parts = build_parts()
    plain = call_all(parts, inputs())
    before = {name: snapshot(module) for name, module in parts.items()}
    with Session(parts, pipeline_executable(parts, engine=engine, modes=modes), device=emulated()) as session:
        for _ in range(3):
            assert torch.equal(call_all(parts, inputs()), plain)
        report = session.report()
    assert [len(request.uses) for request in report.requests] == [3, 3, 3]
    for name, module in parts.items():
        assert_as_found(module, before[name])


def test_the_exported_names_are_the_sessions_own():
    assert ExportedSession is Session


def test_run_calls_a_component_by_name():
    parts = build_parts()
    plain = parts["transformer"](inputs())
    with Session(parts, pipeline_executable(parts), device=emulated()) as session:
        assert torch.equal(session.run("transformer", inputs()), plain)
        with pytest.raises(SessionError, match="no component 'audio_vae' is attached: there are text_encoder"):
            session.run("audio_vae", inputs())


def test_a_component_that_is_loaded_later_is_attached_when_it_appears():
    parts = build_parts()
    plain = call_all(parts, inputs())
    holder = SimpleNamespace(text_encoder=parts["text_encoder"], transformer=parts["transformer"], vae=None)
    with Session(holder, pipeline_executable(parts), device=emulated()) as session:
        x = inputs()
        for _ in range(2):
            x = holder.text_encoder(x)
        for _ in range(2):
            x = holder.transformer(x)
        attached = session.device.memory().live_bytes[MemoryKind.WEIGHTS]
        holder.vae = parts["vae"]
        for _ in range(2):
            x = holder.vae(x)
        assert torch.equal(x, plain)
        assert session.device.memory().live_bytes[MemoryKind.WEIGHTS] > attached
        assert torch.equal(call_all(parts, inputs()), plain)
        assert len(session.report().requests) == 2
    assert not any("forward" in module.__dict__ for part in parts.values() for module in part.modules())


def test_one_module_is_enough_for_a_plan_of_one_component():
    module = seeded(Chain, 4)
    plain = module(inputs())
    with Session(module, executable_for(module), device=emulated()) as session:
        assert torch.equal(session.run("transformer", inputs()), plain)


def test_names_of_a_pipeline_can_differ_from_the_plans():
    parts = build_parts()
    plain = call_all(parts, inputs())
    renamed = {"encoder": parts["text_encoder"], "dit": parts["transformer"], "decoder": parts["vae"]}
    names = {"text_encoder": "encoder", "transformer": "dit", "vae": "decoder"}
    with Session(renamed, pipeline_executable(parts), device=emulated(), names=names) as session:
        assert torch.equal(call_all(parts, inputs()), plain)
        assert len(session.report().requests) == 1
    with pytest.raises(SessionError, match="the plan has no component decoder"):
        Session(renamed, pipeline_executable(parts), device=emulated(), names={"decoder": "vae"})


def test_something_without_modules_is_refused():
    with pytest.raises(SessionError, match="holds no modules"):
        Session(SimpleNamespace(scheduler=3), executable_for(seeded(Chain, 3)), device=emulated())


@pytest.mark.parametrize("knobs", [{}, {"resident": 2}, {"resident": 2, "lifetime": Lifetime.PERMANENT}])
def test_a_request_may_make_fewer_or_more_passes_than_planned(knobs):
    parts = build_parts()
    executable = pipeline_executable(parts, passes=4, **knobs)
    idle = []
    with Session(parts, executable, device=emulated()) as session:
        for passes in (4, 1, 7, 4):
            plain = _plain(passes)
            with session.request():
                assert torch.equal(call_all(parts, inputs(), passes), plain)
            idle.append(session.device.memory().live_bytes[MemoryKind.WEIGHTS])
        assert len(session.report().requests) == 4
    assert len(set(idle)) == 1


def _plain(passes):
    return call_all(build_parts(), inputs(), passes)


@pytest.mark.parametrize("engine", [SGLANG, "topup"])
@pytest.mark.parametrize(
    "knobs",
    [{}, {"prefetch": 3}, {"resident": 2, "policy": Policy.STRIDED}, {"resident": 2, "lifetime": Lifetime.PERMANENT}],
)
def test_the_second_request_is_like_the_first_after_a_while_and_in_other_batches(engine, knobs):
    module = seeded(Chain, 6)
    plain = {batch: [module(inputs(step, batch)) for step in range(3)] for batch in (1, 2, 5)}
    device = emulated()
    idle = []
    with open_session(module, device=device, engine=engine, **knobs) as session:
        for batch in (2, 1, 5):
            for step in range(3):
                assert torch.equal(module(inputs(step, batch)), plain[batch][step])
            idle.append(device.memory().live_bytes[MemoryKind.WEIGHTS])
            time.sleep(0.01)
        phases = session.report().phases
    assert len(set(idle)) == 1
    assert idle[0] == next(phase.live_weight_bytes for phase in phases if phase.phase == "first request: idle")


@pytest.mark.parametrize("engine", [SGLANG, "topup"])
@pytest.mark.parametrize(("streamed", "prefetch"), [(3, 2), (5, 3), (7, 4), (7, 2), (5, 2)])
def test_no_copy_of_a_layer_overlaps_its_own_run_on_the_real_clock(engine, streamed, prefetch):
    module = seeded(Chain, streamed + 2)
    plain = [module(inputs(step)) for step in range(4)]
    rates = LinkRates(
        pinned_bytes_per_s=2e7, pageable_bytes_per_s=2e7, d2h_bytes_per_s=2e7, disk_bytes_per_s=2e7, page_cache="all"
    )
    device = EmulatedDevice(rates=rates, clock=ClockKind.REAL, poison=True, delay_seed=2)
    with open_session(module, device=device, engine=engine, passes=4, resident=2, prefetch=prefetch) as session:
        outputs = [module(inputs(step)) for step in range(4)]
        (request,) = session.report().requests
    device.close()
    assert all(torch.equal(output, other) for output, other in zip(outputs, plain, strict=True))
    spans = defaultdict(list)
    for span in request.timeline.spans:
        spans[span.lane, span.layer].append((span.start_s, span.end_s))
    for layer in range(streamed + 2):
        for start, end in spans["h2d", layer]:
            assert not any(
                start < other_end and other_start < end for other_start, other_end in spans["compute", layer]
            )
    copies = sorted((span.start_s, span.end_s) for span in request.timeline.spans if span.lane == "h2d")
    assert all(later[0] >= earlier[1] - 1e-9 for earlier, later in pairwise(copies))


class WithTable(nn.Module):
    """An encoder with a large vocabulary table before its layers."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(1000, 16)
        self.blocks = Chain(4).blocks

    def forward(self, ids):
        x = self.table(ids)
        for block in self.blocks:
            x = block(x)
        return x


def test_a_vocabulary_table_stays_on_the_host_while_the_encoder_streams():
    module = seeded(WithTable)
    ids = torch.arange(7)
    plain = module(ids)
    before = snapshot(module)
    spec = describe_module("text_encoder", module, stacks=["blocks"], host_tables=[module.table])
    assert spec.host_table_bytes == 1000 * 16 * 4
    executable = Executable(
        plan=Plan(engine=SGLANG, placements=(Placement(component="text_encoder", mode=Mode.LAYERWISE_OFFLOAD),)),
        model=ModelSpec(name="toy", components=(spec,)),
        request=RequestSpec(
            uses=(UseSpec(component="text_encoder", groups=(PassGroup(stacks=("blocks",), passes=1),)),)
        ),
        host=AMPLE,
    )
    device = emulated()
    with Session({"text_encoder": module}, executable, device=device) as session:
        for _ in range(3):
            assert torch.equal(module(ids), plain)
        peak = max(phase.peak_weight_bytes for phase in session.report().phases)
    assert peak < spec.host_table_bytes
    assert_as_found(module, before)


def test_a_session_can_be_opened_again():
    module = seeded(Chain, 4)
    plain = module(inputs())
    session = open_session(module)
    for _ in range(3):
        with session:
            assert torch.equal(module(inputs()), plain)


def test_host_peak_while_attaching_is_reported():
    module = seeded(Chain, 4)
    with open_session(module) as session:
        host = session.report().host
    layer = executable_for(module).model.components[0].stacks[0].layers[0].run_bytes
    assert host.pinned_bytes == 4 * layer
    assert host.peak_attach_bytes == 5 * layer


def test_a_real_pipeline_of_diffusers_runs_by_its_own_call():
    from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel  # noqa: PLC0415

    torch.manual_seed(0)
    transformer = FluxTransformer2DModel(
        patch_size=1,
        in_channels=4,
        num_layers=2,
        num_single_layers=3,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=32,
        pooled_projection_dim=32,
        axes_dims_rope=(4, 4, 8),
    )
    vae = AutoencoderKL(
        block_out_channels=(4,), sample_size=32, in_channels=3, out_channels=3, latent_channels=1, norm_num_groups=1,
        layers_per_block=1, use_quant_conv=False, use_post_quant_conv=False, shift_factor=0.06, scaling_factor=1.5,
    )  # fmt: skip
    pipe = FluxPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(),
        text_encoder=None, tokenizer=None, text_encoder_2=None, tokenizer_2=None, transformer=transformer, vae=vae,
    )  # fmt: skip
    pipe.set_progress_bar_config(disable=True)

    def generate():
        return pipe(
            prompt_embeds=torch.ones(1, 8, 32),
            pooled_prompt_embeds=torch.ones(1, 32),
            height=16,
            width=16,
            num_inference_steps=3,
            generator=torch.Generator().manual_seed(0),
            output_type="np",
        ).images

    plain = generate()
    specs = (
        describe_module(
            "transformer", transformer, stacks=["transformer_blocks", "single_transformer_blocks"], is_dit=True
        ),
        describe_module("vae", vae, stacks=["decoder.up_blocks"]),
    )
    executable = Executable(
        plan=Plan(
            engine=SGLANG,
            placements=(
                Placement(component="transformer", mode=Mode.LAYERWISE_OFFLOAD, resident=1),
                Placement(component="vae", mode=Mode.COMPONENT_OFFLOAD),
            ),
        ),
        model=ModelSpec(name="flux", components=specs),
        request=RequestSpec(
            uses=(
                UseSpec(
                    component="transformer",
                    groups=(PassGroup(stacks=("transformer_blocks", "single_transformer_blocks"), passes=3),),
                ),
                UseSpec(component="vae", groups=(PassGroup(stacks=("decoder.up_blocks",), passes=1),)),
            )
        ),
        host=AMPLE,
    )
    device = EmulatedDevice(rates=UNPACED, clock=ClockKind.REAL, poison=True)
    with Session(pipe, executable, device=device) as session:
        for _ in range(2):
            assert (generate() == plain).all()
        assert pipe._execution_device == device.torch_device
        report = session.report()
    device.close()
    assert [[use.component for use in request.uses] for request in report.requests] == [["transformer", "vae"]] * 2
    assert (generate() == plain).all()
    assert not any("_hf_hook" in part.__dict__ for part in (transformer, vae))


def test_the_report_can_still_be_read_when_the_session_is_over():
    module = seeded(Chain, 4)
    with open_session(module) as session:
        for _ in range(3):
            module(inputs())
        inside = session.report()
    assert session.report() == inside
    assert len(inside.requests) == 1


def test_a_component_that_appears_and_does_not_fit_the_plan_is_refused_at_every_call():
    parts = build_parts()
    executable = pipeline_executable(parts)
    holder = SimpleNamespace(text_encoder=parts["text_encoder"], transformer=parts["transformer"], vae=None)
    with Session(holder, executable, device=emulated()):
        holder.text_encoder(inputs())
        holder.vae = seeded(Chain, 7)
        for _ in range(2):
            with pytest.raises(SessionError, match=r"vae.blocks has 7 layers, the plan was made for 4"):
                holder.vae(inputs())
        holder.vae = parts["vae"]
        holder.vae(inputs())
