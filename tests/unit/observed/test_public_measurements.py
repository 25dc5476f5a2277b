"""The public table, row by row: what becomes an observation, and what every other row is refused for."""

from collections import Counter
from pathlib import Path

import pytest

from autotune.observed.measurement_table import read_measurement_table
from autotune.observed.observation import (
    Base,
    ObservedLatency,
    ObservedPeak,
    PeakKind,
    Reason,
    Scope,
    Setup,
)
from autotune.workload import Recipe, Workload
from runtime.units import GIB, MIB

TABLE = Path(__file__).parents[2] / "data" / "public_measurements.csv"
RUNS = read_measurement_table(TABLE)
OBSERVED = {observation.name: observation for observation in RUNS.observations}
REFUSED = {refused.name: refused for refused in RUNS.refused}
BOTH_ENCODERS = "text_encoder+text_encoder_2"
MAPPED = ("transformer.prefetch=1", "transformer.resident=0")
STREAMED_BUT_DECODER = (*MAPPED, "video_vae.resident=36")


def _latencies(name):
    return {(latency.scope, latency.component): pytest.approx(latency.seconds) for latency in OBSERVED[name].latencies}


def _h3(name, **changes):
    expected = {
        "model": "H3",
        "device": "rtx-4090",
        "workload": Workload(
            width=864, height=480, frames=124, steps=21, prompt_tokens=512, recipe=changes.pop("recipe", Recipe.DEFAULT)
        ),
        "server": changes.pop("server", "sglang 2026-08/09"),
        **changes,
    }
    assert OBSERVED[name].setup == Setup(**expected)


def test_every_row_is_counted_once():
    rows = TABLE.read_text(encoding="utf-8").splitlines()[1:]
    observed = {name.partition(" ")[0] for name in OBSERVED}
    assert len(rows) == 207
    assert sorted([*observed, *REFUSED]) == sorted(row.partition(",")[0] for row in rows)


def test_reasons_of_refused_rows():
    assert Counter(refused.reason for refused in RUNS.refused) == {
        Reason.OTHER_ENGINE: 104,
        Reason.UNKNOWN_MODEL: 21,
        Reason.SEVERAL_GPUS: 16,
        Reason.QUANTISED: 13,
        Reason.UNKNOWN_DEVICE: 7,
        Reason.NOT_EXPRESSIBLE: 4,
        Reason.NO_WORKLOAD: 2,
        Reason.NO_FIGURE: 1,
    }
    assert all(refused.text and ":" in refused.text + ":" for refused in RUNS.refused)


def test_single_cards_ranks_and_working_memory_are_counted_apart():
    working = [o for o in RUNS.observations if o.peak is not None and o.peak.kind is PeakKind.ACTIVATIONS]
    ranks = [o for o in RUNS.observations if o.setup.tp_size > 1]
    assert (len(RUNS.observations), len(ranks), len(working)) == (40, 6, 3)
    assert not any(o.setup.variant for o in RUNS.observations)


@pytest.mark.parametrize(
    ("name", "prefetch", "resident", "peak_gib", "seconds"),
    [("PM001", 1, 0, 5.43, 56.60), ("PM002", 16, 0, 24.47, 56.12), ("PM004", 1, 30, 24.47, 36.68)],
)
def test_qwen_image_on_an_rtx_5090(name, prefetch, resident, peak_gib, seconds):
    observation = OBSERVED[name]
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
    moved, streamed, resident = (OBSERVED[name] for name in names)
    parts = components.split("+")
    assert moved.settings == tuple(f"{part}.mode=component-offload" for part in parts)
    assert streamed.settings == tuple(f"{part}.{knob}" for part in parts for knob in ("prefetch=1", "resident=0"))
    assert resident.settings == tuple(f"{part}.mode=resident" for part in parts)
    assert moved.setup == streamed.setup == resident.setup
    assert (moved.setup.model, moved.setup.device, moved.base) == (model, device, Base.STREAMED)
    for observation, time_s in zip((moved, streamed, resident), seconds, strict=True):
        assert observation.latencies == (ObservedLatency(seconds=time_s, scope=Scope.USE, component=components),)
        assert observation.peak is None


def test_wan_with_its_experts_resident():
    request, peak = OBSERVED["PM087"], OBSERVED["PM093"]
    workload = Workload(width=832, height=480, frames=17, steps=4, prompt_tokens=512)
    server = "sglang PR #21248 2026-03-24"
    assert request.setup == Setup(model="Wan2.2-T2V-A14B", device="h200", workload=workload, server=server)
    assert request.settings == peak.settings == ("transformer.mode=resident", "transformer_2.mode=resident")
    assert request.base is peak.base is Base.SERVER_DEFAULT
    assert request.latencies == (ObservedLatency(seconds=4.22, scope=Scope.REQUEST),)
    assert peak.peak == ObservedPeak(size_bytes=108076 * MIB, kind=PeakKind.RESERVED)
    assert (peak.setup.workload.width, peak.setup.workload.frames, peak.setup.workload.steps) == (1280, 81, 1)


def test_z_image_with_twelve_resident_layers():
    observation = OBSERVED["PM108"]
    assert (observation.setup.model, observation.setup.device, observation.setup.tp_size) == (
        "Z-Image-Turbo",
        "h100",
        1,
    )
    assert observation.settings == ("transformer.prefetch=1", "transformer.resident=12")
    assert observation.peak == ObservedPeak(size_bytes=8390 * MIB, kind=PeakKind.RESERVED)
    assert observation.setup.workload.steps == 9
    assert REFUSED["PM107"].reason is Reason.SEVERAL_GPUS


def test_h3_mapped_on_a_small_host():
    synchronous, mapped = OBSERVED["PM105"], OBSERVED["PM129"]
    _h3("PM129", recipe=Recipe.EXACT, server="sglang PR #35816 2026-08-21", host_bytes=32 * GIB, pins=False)
    assert mapped.settings == MAPPED
    assert _latencies("PM129") == {(Scope.STEP, "transformer"): 17.38}
    assert (synchronous.settings, synchronous.setup.pins) == (("transformer.prefetch=1",), False)
    assert (synchronous.setup.workload.steps, synchronous.setup.host_bytes) == (20, 32 * GIB)
    assert _latencies("PM105") == {(Scope.USE, "transformer"): 538.8, (Scope.STEP, "transformer"): 25.0}
    for observation in (synchronous, mapped):
        assert any("synchronously" in text for text in observation.caveats)
        assert (observation.peak, observation.cap_bytes) == (None, 12 * GIB)


@pytest.mark.parametrize(("name", "host_gib", "seconds"), [("PM131", 32, 235.0), ("PM132", 48, 218.0)])
def test_h3_requests_by_host_memory(name, host_gib, seconds):
    _h3(name, recipe=Recipe.EXACT, server="sglang PR #35816 2026-08-21", host_bytes=host_gib * GIB)
    assert OBSERVED[name].settings == STREAMED_BUT_DECODER
    assert _latencies(name) == {(Scope.REQUEST, ""): seconds}


@pytest.mark.parametrize(
    ("name", "host_gib", "cap_bytes", "latencies"),
    [
        ("PM135", 32, None, {(Scope.STEP, "transformer"): 11.6}),
        ("PM135 (10 resident)", 32, None, {(Scope.STEP, "transformer"): 10.4}),
        (
            "PM137",
            32,
            12 * GIB,
            {(Scope.STEP, "transformer"): 10.6, (Scope.USE, "video_vae"): 9.4, (Scope.REQUEST, ""): 235.0},
        ),
        ("PM139", 64, 12 * GIB, {(Scope.STEP, "transformer"): 8.1, (Scope.REQUEST, ""): 180.0}),
        ("PM141", 96, 12 * GIB, {(Scope.STEP, "transformer"): 6.0, (Scope.USE, "video_vae"): 10.0}),
    ],
)
def test_h3_steps_by_host_memory(name, host_gib, cap_bytes, latencies):
    _h3(name, host_bytes=host_gib * GIB)
    resident = 10 if "10" in name.partition(" ")[2] else 0
    assert OBSERVED[name].settings == (MAPPED[0], f"transformer.resident={resident}", "video_vae.resident=36")
    assert (_latencies(name), OBSERVED[name].cap_bytes) == (latencies, cap_bytes)


def test_h3_decoder_streamed_from_pageable_memory_and_resident_beyond_the_cap():
    streamed, resident = OBSERVED["PM142"], OBSERVED["PM144"]
    assert streamed.settings == ("video_vae.prefetch=1", "video_vae.resident=0")
    assert _latencies("PM142") == {(Scope.USE, "video_vae"): 140.6}
    assert (streamed.setup.pins, streamed.setup.workload.recipe) == (False, Recipe.EXACT)
    assert resident.settings == ("video_vae.resident=36",)
    assert (resident.ran_out, resident.cap_bytes, resident.latencies) == (True, 12 * GIB, ())
    assert resident.peak.size_bytes == pytest.approx(11.86 * GIB, abs=2)
    assert resident.peak.kind is PeakKind.ALLOCATED


def test_h3_move_to_the_host_and_peak_of_the_cookbook():
    down, peak = OBSERVED["PM261"], OBSERVED["PM266"]
    assert (down.setup.device, down.settings) == ("rtx-5090", ("video_vae.mode=component-offload",))
    assert _latencies("PM261") == {(Scope.MOVE_DOWN, "video_vae"): 0.37}
    assert peak.settings == (*MAPPED, "video_vae.mode=resident")
    assert peak.peak == ObservedPeak(size_bytes=18 * GIB, kind=PeakKind.UNSTATED)
    assert (peak.setup.workload.width, peak.setup.workload.recipe) == (1344, Recipe.EXACT)
    assert not peak.latencies


@pytest.mark.parametrize(
    ("name", "steps", "latencies"),
    [
        ("PM007", 5, {(Scope.USE, "transformer"): 43.48, (Scope.REQUEST, ""): 78.11}),
        (
            "PM010",
            50,
            {(Scope.USE, "transformer"): 525.05, (Scope.USE, "video_vae"): 33.61, (Scope.REQUEST, ""): 559.67},
        ),
    ],
)
def test_h3_on_two_rtx_5090(name, steps, latencies):
    observation = OBSERVED[name]
    assert (observation.setup.device, observation.setup.tp_size) == ("rtx-5090", 2)
    assert (observation.setup.workload.steps, observation.setup.workload.recipe) == (steps, Recipe.EXACT)
    assert observation.settings == ("transformer.prefetch=1", "transformer.resident=20")
    assert observation.peak.size_bytes == pytest.approx(26.3 * GIB, abs=2)
    assert observation.peak.kind is PeakKind.DRIVER
    assert _latencies(name) == latencies


@pytest.mark.parametrize(
    ("name", "denoise_s", "decode_s", "request_s", "peak_mib"),
    [
        ("PM026", 851.279, 38.392, None, 23376),
        ("PM027", 847.748, 38.395, 887.177, 23376),
        ("PM028", 841.481, 38.395, 880.905, 23362),
        ("PM029", 847.339, 38.394, 886.759, 23362),
    ],
)
def test_h3_repeated_on_two_rtx_6000_ada(name, denoise_s, decode_s, request_s, peak_mib):
    observation = OBSERVED[name]
    expected = {(Scope.USE, "transformer"): denoise_s, (Scope.USE, "video_vae"): decode_s}
    assert _latencies(name) == expected | ({(Scope.REQUEST, ""): request_s} if request_s else {})
    assert observation.peak == ObservedPeak(size_bytes=peak_mib * MIB, kind=PeakKind.RESERVED)
    assert observation.setup == OBSERVED["PM027"].setup
    assert (observation.setup.tp_size, observation.setup.server) == (2, "sglang 6eb941a 2026-08-15")


@pytest.mark.parametrize(
    ("name", "side", "peak_gib"), [("PM302", 512, 1.274), ("PM304", 1280, 6.693), ("PM306", 2048, 16.754)]
)
def test_working_memory_of_the_qwen_image_decoder(name, side, peak_gib):
    observation = OBSERVED[name]
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
    assert REFUSED[name].reason is reason
    assert words in REFUSED[name].text


def test_figures_that_were_left_out_are_in_the_notes():
    assert [note.partition(" ")[0] for note in RUNS.notes] == ["PM026"]
