"""The rows of MiniMax-H3 in the public table."""

import pytest
from public_table import find_observed, list_latencies

from autotune.observed.observation import ObservedPeak, PeakKind, Scope, Setup
from autotune.workload import Recipe, Workload
from runtime.units import GIB, MIB

MAPPED = ("transformer.prefetch=1", "transformer.resident=0")
STREAMED_BUT_DECODER = (*MAPPED, "video_vae.resident=36")


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
    assert find_observed(name).setup == Setup(**expected)


def test_h3_mapped_on_a_small_host():
    synchronous, mapped = find_observed("PM105"), find_observed("PM129")
    _h3("PM129", recipe=Recipe.EXACT, server="sglang PR #35816 2026-08-21", host_bytes=32 * GIB, pins=False)
    assert mapped.settings == MAPPED
    assert list_latencies("PM129") == {(Scope.STEP, "transformer"): 17.38}
    assert (synchronous.settings, synchronous.setup.pins) == (("transformer.prefetch=1",), False)
    assert (synchronous.setup.workload.steps, synchronous.setup.host_bytes) == (20, 32 * GIB)
    assert list_latencies("PM105") == {(Scope.USE, "transformer"): 538.8, (Scope.STEP, "transformer"): 25.0}
    for observation in (synchronous, mapped):
        assert any("synchronously" in text for text in observation.caveats)
        assert (observation.peak, observation.cap_bytes) == (None, 12 * GIB)


@pytest.mark.parametrize(("name", "host_gib", "seconds"), [("PM131", 32, 235.0), ("PM132", 48, 218.0)])
def test_h3_requests_by_host_memory(name, host_gib, seconds):
    _h3(name, recipe=Recipe.EXACT, server="sglang PR #35816 2026-08-21", host_bytes=host_gib * GIB)
    assert find_observed(name).settings == STREAMED_BUT_DECODER
    assert list_latencies(name) == {(Scope.REQUEST, ""): seconds}


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
    assert find_observed(name).settings == (MAPPED[0], f"transformer.resident={resident}", "video_vae.resident=36")
    assert (list_latencies(name), find_observed(name).cap_bytes) == (latencies, cap_bytes)


def test_h3_decoder_streamed_from_pageable_memory_and_resident_beyond_the_cap():
    streamed, resident = find_observed("PM142"), find_observed("PM144")
    assert streamed.settings == ("video_vae.prefetch=1", "video_vae.resident=0")
    assert list_latencies("PM142") == {(Scope.USE, "video_vae"): 140.6}
    assert (streamed.setup.pins, streamed.setup.workload.recipe) == (False, Recipe.EXACT)
    assert resident.settings == ("video_vae.resident=36",)
    assert (resident.ran_out, resident.cap_bytes, resident.latencies) == (True, 12 * GIB, ())
    assert resident.peak.size_bytes == pytest.approx(11.86 * GIB, abs=2)
    assert resident.peak.kind is PeakKind.ALLOCATED


def test_h3_move_to_the_host_and_peak_of_the_cookbook():
    down, peak = find_observed("PM261"), find_observed("PM266")
    assert (down.setup.device, down.settings) == ("rtx-5090", ("video_vae.mode=component-offload",))
    assert list_latencies("PM261") == {(Scope.MOVE_DOWN, "video_vae"): 0.37}
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
    observation = find_observed(name)
    assert (observation.setup.device, observation.setup.tp_size) == ("rtx-5090", 2)
    assert (observation.setup.workload.steps, observation.setup.workload.recipe) == (steps, Recipe.EXACT)
    assert observation.settings == ("transformer.prefetch=1", "transformer.resident=20")
    assert observation.peak.size_bytes == pytest.approx(26.3 * GIB, abs=2)
    assert observation.peak.kind is PeakKind.DRIVER
    assert list_latencies(name) == latencies


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
    observation = find_observed(name)
    expected = {(Scope.USE, "transformer"): denoise_s, (Scope.USE, "video_vae"): decode_s}
    assert list_latencies(name) == expected | ({(Scope.REQUEST, ""): request_s} if request_s else {})
    assert observation.peak == ObservedPeak(size_bytes=peak_mib * MIB, kind=PeakKind.RESERVED)
    assert observation.setup == find_observed("PM027").setup
    assert (observation.setup.tp_size, observation.setup.server) == (2, "sglang 6eb941a 2026-08-15")
