"""The public table, row by row: what becomes an observation, and what every other row is refused for."""

from collections import Counter

import pytest
from public_table import PUBLIC_TABLE, find_observed, find_refused, read_public

from autotune.observed.observation import Base, ObservedLatency, ObservedPeak, PeakKind, Reason, Scope, Setup
from autotune.workload import Workload
from runtime.units import GIB, MIB

BOTH_ENCODERS = "text_encoder+text_encoder_2"


def test_every_row_is_counted_once():
    rows = [line.partition(",")[0] for line in PUBLIC_TABLE.read_text(encoding="utf-8").splitlines()[1:]]
    observed = {observation.name.partition(" ")[0] for observation in read_public().observations}
    assert len(rows) == 207
    assert sorted([*observed, *(refused.name for refused in read_public().refused)]) == sorted(rows)


def test_reasons_of_refused_rows():
    assert Counter(refused.reason for refused in read_public().refused) == {
        Reason.OTHER_ENGINE: 104,
        Reason.UNKNOWN_MODEL: 21,
        Reason.SEVERAL_GPUS: 16,
        Reason.QUANTISED: 13,
        Reason.UNKNOWN_DEVICE: 7,
        Reason.NOT_EXPRESSIBLE: 4,
        Reason.NO_WORKLOAD: 2,
        Reason.NO_FIGURE: 1,
    }


def test_single_cards_ranks_and_working_memory_are_counted_apart():
    working = [o for o in read_public().observations if o.peak is not None and o.peak.kind is PeakKind.ACTIVATIONS]
    ranks = [o for o in read_public().observations if o.setup.tp_size > 1]
    assert (len(read_public().observations), len(ranks), len(working)) == (40, 6, 3)
    assert not any(o.setup.variant for o in read_public().observations)


@pytest.mark.parametrize(
    ("name", "prefetch", "resident", "peak_gib", "seconds"),
    [("PM001", 1, 0, 5.43, 56.60), ("PM002", 16, 0, 24.47, 56.12), ("PM004", 1, 30, 24.47, 36.68)],
)
def test_qwen_image_on_an_rtx_5090(name, prefetch, resident, peak_gib, seconds):
    observation = find_observed(name)
    assert observation.setup == Setup(
        model="Qwen-Image",
        device="rtx-5090",
        workload=Workload(width=1024, height=1024, frames=1, steps=50, prompt_tokens=512),
        server="sglang PR #31538 2026-07-17",
    )
    assert observation.settings == (f"transformer.prefetch={prefetch}", f"transformer.resident={resident}")
    assert observation.base is Base.STREAMED
    assert observation.latencies == (ObservedLatency(seconds=seconds, scope=Scope.USE, component="transformer"),)
    assert observation.peak.size_bytes == pytest.approx(peak_gib * GIB, abs=2)
    assert observation.peak.kind is PeakKind.UNSTATED
    assert any("powers of 1024" in text for text in observation.assumed)
    assert any("table says" in text for text in observation.assumed)


@pytest.mark.parametrize(
    ("names", "model", "device", "components", "seconds"),
    [
        (("PM064", "PM065", "PM066"), "FLUX.1-dev", "rtx-4090", BOTH_ENCODERS, (0.55267, 0.48535, 0.05715)),
        (("PM067", "PM068", "PM069"), "Qwen-Image", "rtx-4090", "text_encoder", (0.92631, 0.66480, 0.10583)),
        (("PM073", "PM074", "PM075"), "FLUX.1-dev", "rtx-4090", "text_encoder", (0.02335, 0.01473, 0.00846)),
        (("PM082", "PM083", "PM084"), "FLUX.1-dev", "h100", "vae", (0.15199, 0.13005, 0.13001)),
    ],
)
def test_one_component_moved_streamed_and_resident(names, model, device, components, seconds):
    moved, streamed, resident = (find_observed(name) for name in names)
    parts = components.split("+")
    assert moved.settings == tuple(f"{part}.mode=component-offload" for part in parts)
    assert streamed.settings == tuple(f"{part}.{knob}" for part in parts for knob in ("prefetch=1", "resident=0"))
    assert resident.settings == tuple(f"{part}.mode=resident" for part in parts)
    assert moved.setup == streamed.setup == resident.setup
    assert (moved.setup.model, moved.setup.device, moved.base) == (model, device, Base.STREAMED)
    for observation, time_s in zip((moved, streamed, resident), seconds, strict=True):
        assert observation.latencies == (ObservedLatency(seconds=time_s, scope=Scope.USE, component=components),)
        assert observation.peak is None


def test_wan_with_its_experts_resident_and_its_encoder_moved_whole_as_then():
    request, peak = find_observed("PM087"), find_observed("PM093")
    workload = Workload(width=832, height=480, frames=17, steps=4, prompt_tokens=512)
    server = "sglang PR #21248 2026-03-24"
    assert request.setup == Setup(model="Wan2.2-T2V-A14B", device="h200", workload=workload, server=server)
    experts = ("transformer.mode=resident", "transformer_2.mode=resident")
    assert request.settings == peak.settings == (*experts, "text_encoder.mode=component-offload")
    assert request.base is peak.base is Base.SERVER_DEFAULT
    assert request.latencies == (ObservedLatency(seconds=4.22, scope=Scope.REQUEST),)
    assert peak.peak == ObservedPeak(size_bytes=108076 * MIB, kind=PeakKind.RESERVED)
    assert (peak.setup.workload.width, peak.setup.workload.frames, peak.setup.workload.steps) == (1280, 81, 1)


def test_z_image_with_twelve_resident_layers():
    observation = find_observed("PM108")
    assert (observation.setup.model, observation.setup.device, observation.setup.tp_size) == (
        "Z-Image-Turbo",
        "h100",
        1,
    )
    assert observation.settings == ("transformer.prefetch=1", "transformer.resident=12")
    assert observation.peak == ObservedPeak(size_bytes=8390 * MIB, kind=PeakKind.RESERVED)
    assert observation.setup.workload.steps == 9
    assert find_refused("PM107").reason is Reason.SEVERAL_GPUS


@pytest.mark.parametrize(
    ("name", "side", "peak_gib"), [("PM302", 512, 1.274), ("PM304", 1280, 6.693), ("PM306", 2048, 16.754)]
)
def test_working_memory_of_the_qwen_image_decoder(name, side, peak_gib):
    observation = find_observed(name)
    workload = observation.setup.workload
    assert (workload.width, workload.height, observation.setup.device) == (side, side, "rtx-4090")
    assert observation.peak.size_bytes == pytest.approx(peak_gib * GIB, abs=2)
    assert (observation.peak.kind, observation.peak.component) == (PeakKind.ACTIVATIONS, "vae")
    assert observation.latencies == ()


@pytest.mark.parametrize(
    ("name", "reason", "words"),
    [
        ("PM102", Reason.NO_WORKLOAD, "names no size"),
        ("PM231", Reason.OTHER_ENGINE, "Sana"),
        ("PM009", Reason.SEVERAL_GPUS, "Ulysses2"),
        ("PM036", Reason.QUANTISED, "FP8"),
        ("PM041", Reason.UNKNOWN_DEVICE, "RTX A5000"),
        ("PM085", Reason.UNKNOWN_DEVICE, "80GB-class"),
        ("PM089", Reason.UNKNOWN_MODEL, "Wan2.2-TI2V-5B"),
        ("PM099", Reason.NOT_EXPRESSIBLE, "auto-resident"),
        ("PM104", Reason.QUANTISED, "kitchen_int8"),
        ("PM146", Reason.NO_FIGURE, "neither"),
        ("PM209", Reason.OTHER_ENGINE, "ComfyUI"),
        ("PM247", Reason.OTHER_ENGINE, "llama.cpp"),
        ("PM252", Reason.UNKNOWN_MODEL, "Qwen-Image-2.1"),
        ("PM277", Reason.NOT_EXPRESSIBLE, "host memory"),
    ],
)
def test_refused_rows_name_the_value(name, reason, words):
    assert find_refused(name).reason is reason
    assert words in find_refused(name).text


def test_figures_that_were_left_out_are_in_the_notes():
    assert [note.partition(" ")[0] for note in read_public().notes] == ["PM026"]
