"""Hosts of several sizes on the real models: what waits where, and the order that public measurements have."""

import itertools
import json

import pytest

from autotune.capture_cache import load_model_facts
from autotune.host_reads import count_disk_bytes
from autotune.workflows.host import HostWish
from autotune.workflows.planning import PlanningSettings, build_evaluator
from autotune.workflows.target import resolve_target
from autotune.workload import Workload
from runtime.hosting import HostTier
from runtime.plan import Placement, Plan
from runtime.plan_document import load_plan
from runtime.residency import Mode

GB, GIB = 10**9, 2**30
STREAMED = Mode.LAYERWISE_OFFLOAD
SMALL = Workload(width=864, height=480, frames=124, steps=21, prompt_tokens=512)


def evaluate(host_gb, *, resident=0, pins=True):
    """H3 as in the public runs: 864x480x124, 20 forwards, RTX 4090, video VAE held on the device while it decodes."""
    target = resolve_target(
        device="rtx-4090",
        detection=None,
        vram_cap_bytes=24 * GIB,
        host=HostWish(memory_bytes=host_gb * GB, pins=pins),
        pinned_bytes_per_s=None,
    )
    evaluator = build_evaluator(load_model_facts("H3", SMALL), target, PlanningSettings())
    plan = Plan(
        engine="sglang@0.5.23",
        placements=(
            Placement(component="text_encoder", mode=STREAMED),
            Placement(component="transformer", mode=STREAMED, resident=resident),
            Placement(component="video_vae", mode=STREAMED, resident=36),
            Placement(component="audio_vae", mode=Mode.RESIDENT),
        ),
    )
    return evaluator, plan, evaluator.evaluate(plan)


def step_s(evaluation):
    (use,) = (use for use in evaluation.uses if use.component == "transformer")
    return use.passes[-1].steady_s


def counts(evaluation, component):
    index = ["text_encoder", "transformer", "video_vae", "audio_vae"].index(component)
    hosting = evaluation.hosting.components[index]
    return tuple(hosting.count(tier) for tier in HostTier)


def test_steps_are_ordered_as_public_measurements_have_them():
    # PM129: nothing pinned, 17.38 s. PM137, PM135: 32 GB, 10.6 to 11.6 s, and 10.4 s with 10 residents. PM139: 64 GB,
    # 8.1 s. PM141: 96 GB or more, about 6 s.
    ordered = [
        step_s(evaluate(32, pins=False)[2]),
        step_s(evaluate(32)[2]),
        step_s(evaluate(32, resident=10)[2]),
        step_s(evaluate(64)[2]),
        step_s(evaluate(96)[2]),
    ]
    assert all(slower > 1.05 * faster for slower, faster in itertools.pairwise(ordered))


def test_requests_are_ordered_as_public_measurements_have_them():
    # PM131: 32 GB, 235 s. PM132: 48 GB, 218 s. PM139: 64 GB, about 180 s.
    ordered = [evaluate(host_gb)[2].latency_s for host_gb in (32, 48, 64)]
    assert all(slower > 1.05 * faster for slower, faster in itertools.pairwise(ordered))


def test_more_host_memory_pins_more_of_the_dit_until_all_of_it():
    pinned = [counts(evaluate(host_gb)[2], "transformer")[0] for host_gb in (32, 48, 64, 96, 192)]
    assert pinned == sorted(pinned)
    assert pinned[0] < 10 < pinned[2] < 52
    assert pinned[3] == pinned[4] == 52


def test_dit_residents_save_disk_reads_where_the_dit_is_mapped():
    evaluator, plan, _ = evaluate(64)
    _, kept, _ = evaluate(64, resident=10)
    saved = count_disk_bytes(evaluator, plan)["transformer"] - count_disk_bytes(evaluator, kept)["transformer"]
    # Ten layers of 1.06 GB that are mapped, read once a request instead of in each of 20 passes.
    assert saved == 10 * 19 * 1_059_932_672


def test_fused_weights_keep_a_mapped_layer_s_share_in_memory():
    _evaluator, _, evaluation = evaluate(32)
    blocks = evaluation.hosting.components[1].stacks[0]
    mapped = blocks.count(HostTier.MAPPED)
    assert blocks.mapped_copied_bytes == mapped * 231_211_008


@pytest.mark.parametrize("host", ["32GB", "64GB", "96GB", "192GB"])
def test_the_report_says_where_every_stack_waits(run_cli, tmp_path, host):
    out = tmp_path / "run"
    arguments = ("--model", "H3", "--device", "rtx-4090", "--vram-cap", "24GiB", "--width", 864, "--height", 480)
    more = ("--steps", 21, "--trials", 0, "--max-prefetch", 1, "--no-advice", "--out", out)
    code, text, _ = run_cli("search", *arguments, "--host-memory", host, *more)
    assert code == 0
    document = load_plan(out / "plan.json")
    hosted = {(item.component, item.stack): item for item in document.prediction.hosting}
    dit = hosted["transformer", "blocks"]
    report = (out / "report.md").read_text()
    assert "Host memory: where streamed layers wait" in report
    if dit.mapped or dit.pageable:
        line = f"transformer.blocks pins {dit.pinned} of {dit.hosted} layers"
        assert line in report
        assert line in " ".join(text.split())
    if host == "64GB":
        assert any("save reads from disk" in finding for finding in document.findings)
        assert document.plan.placement("transformer").resident > 0
        assert document.prediction.disk_read_bytes > 0
    assert document.prediction.peak.charged_bytes <= document.cap.effective_bytes


@pytest.mark.parametrize("model", ["Qwen-Image", "FLUX.1-dev"])
def test_the_server_default_runs_out_of_memory_and_the_plan_does_not(run_cli, tmp_path, model):
    out = tmp_path / "run"
    arguments = ("--model", model, "--device", "rtx-4090", "--vram-cap", "24GiB", "--trials", 0, "--no-advice")
    code, text, _ = run_cli("search", *arguments, "--max-prefetch", 2, "--out", out)
    assert code == 0
    document = load_plan(out / "plan.json")
    default = next(item for item in document.comparisons if item.name == "server default")
    assert not default.fits
    assert default.charged_bytes > document.cap.effective_bytes
    assert f"{default.charged_bytes / GIB:,.2f} GiB" in text
    assert any("runs out of memory" in finding for finding in document.findings)
    assert document.prediction.peak.charged_bytes <= document.cap.effective_bytes
    assert (out / "flags.txt").exists()


def test_a_host_that_is_too_small_is_a_warning_or_nothing_fits(run_cli):
    code, text, _ = run_cli(
        "simulate", "--model", "FLUX.1-dev", "--device", "rtx-4090", "--host-memory", "4GiB", "--json",
        "--set", "transformer.mode=component-offload",
    )  # fmt: skip
    assert code == 0
    assert any("host lacks" in warning for warning in json.loads(text)["warnings"])
