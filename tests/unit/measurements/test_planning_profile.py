"""The profile that plans are made from: every figure from where it should be, with its source."""

import re
import shlex
from dataclasses import replace
from datetime import timedelta

import pytest
from profile_builders import (
    CARD,
    EMULATED,
    NOW,
    TOY,
    build_fingerprint,
    build_interference,
    build_link,
    build_links,
    build_model_profile,
    build_node_profile,
    timed,
    with_measured_work,
)

from autotune.hardware import find_device
from autotune.measurements.model_profile import DeviceKind
from autotune.measurements.planning import build_planning_profile, build_profile_with_links
from autotune.rates import derive_rates
from autotune.workload import list_options
from runtime.errors import ProfileError
from runtime.interference import Interference

PRESET = find_device("rtx-4090")
MODEL = build_model_profile(measured_at=NOW.isoformat())
NODE = build_node_profile(measured_at=NOW.isoformat())
ON_CARD = replace(MODEL, kind=CARD)
CARD_NODE = replace(NODE, node=build_fingerprint(kind=CARD, device="cuda:0"))


def test_times_links_and_budgets_are_the_measured_ones_with_their_sources():
    profile = build_planning_profile(MODEL, NODE, None, now=NOW)
    assert profile.facts is MODEL.facts
    assert profile.rates.pinned_bytes_per_s == pytest.approx(2e6)
    assert profile.rates.pageable_bytes_per_s == pytest.approx(1e6)
    assert profile.rates.d2h_bytes_per_s == pytest.approx(2e6)
    assert (profile.context_bytes, profile.device.usable_vram_bytes) == (400_000_000, int(23.5 * 2**30))
    assert profile.device.figures["pinned_bytes_per_s"].source.startswith("measured on this machine on 2026-11-30")
    assert "15 samples or more" in profile.device.figures["pinned_bytes_per_s"].source
    assert "toy measured on 2026-11-30, today" in profile.device.origin
    assert {"pinned_bytes_per_s", "matmul_flops_per_s.bfloat16", "context_bytes"} <= set(profile.device.measured)
    assert "disk_bytes_per_s" not in profile.device.measured


def test_the_rate_of_a_link_is_weighted_by_what_the_model_copies():
    links = (*build_links(), build_link(size_bytes=600, bytes_per_s=1e5))
    profile = build_planning_profile(MODEL, replace(NODE, links=links), None, now=NOW)
    assert profile.rates.pinned_bytes_per_s == pytest.approx(2e6)  # every toy layer has 6000 bytes
    assert "at 2 sizes" in profile.device.figures["pinned_bytes_per_s"].source


def test_disk_and_page_cache_are_taken_from_the_node_where_measured():
    links = (*build_links(), build_link("disk_read", bytes_per_s=7e5), build_link("page_cache_read", bytes_per_s=3e6))
    profile = build_planning_profile(MODEL, replace(NODE, links=links), None, now=NOW)
    assert profile.rates.disk_bytes_per_s == pytest.approx(7e5)
    source = profile.device.figures["pageable_bytes_per_s"].source
    assert "page cache, predicted with it too, reach 0.003 GB/s" in source


def test_without_a_node_links_are_the_presets_and_said_so():
    profile = build_planning_profile(ON_CARD, None, PRESET, now=NOW)
    assert profile.rates.pinned_bytes_per_s == PRESET.pinned_bytes_per_s
    assert profile.device.figures["pinned_bytes_per_s"].source == PRESET.sources["pinned_bytes_per_s"]
    assert profile.context_bytes == PRESET.context_bytes
    assert "links and budgets from the preset rtx-4090, not measured here" in profile.device.origin


def test_without_node_and_preset_the_plan_is_refused_with_the_remedy():
    request = shlex.join(list_options(TOY.workload, None))
    remedy = re.escape(f"`autotune profile --model toy --device emulated {request}`")
    with pytest.raises(ProfileError, match=f"pinned_bytes_per_s is unknown.*{remedy}"):
        build_planning_profile(MODEL, None, None, now=NOW)


def test_links_alone_go_beside_the_presets_compute():
    profile = build_profile_with_links(TOY, CARD_NODE, PRESET, now=NOW)
    assert profile.rates.matmul_flops_per_s["bfloat16"] == derive_rates(PRESET).matmul_flops_per_s["bfloat16"]
    assert profile.rates.pinned_bytes_per_s == pytest.approx(2e6)
    assert "compute from datasheet rates, not measured" in profile.device.origin
    assert "matmul_flops_per_s.bfloat16" not in profile.device.measured


@pytest.mark.parametrize("alone_s", [1.0, 5e-324], ids=["13 times as long", "beyond any number"])
def test_interference_beyond_what_can_be_planned_with_is_capped_and_said_so(alone_s):
    record = replace(build_interference(compute_ratio=12.0, copy_ratio=0.25), compute_alone=timed(alone_s))
    profile = build_planning_profile(MODEL, replace(NODE, interference=(record,)), None, now=NOW)
    assert profile.rates.interference == Interference(compute_slowdown_ratio=10.0, copy_slowdown_ratio=0.25)
    sources = {name: figure.source for name, figure in profile.device.figures.items()}
    assert "that plans count with" in sources["compute_slowdown_ratio"]
    assert "that plans count with" not in sources["copy_slowdown_ratio"]


def test_interference_is_that_of_this_model_or_else_the_largest_known():
    other = build_interference("H3 transformer blocks[0]", compute_ratio=0.5)
    own = build_interference(compute_ratio=0.1)
    both = build_planning_profile(MODEL, replace(NODE, interference=(other, own)), None, now=NOW)
    foreign = build_planning_profile(MODEL, replace(NODE, interference=(other,)), None, now=NOW)
    none = build_planning_profile(MODEL, NODE, None, now=NOW)
    assert both.rates.interference.compute_slowdown_ratio == pytest.approx(0.1)
    assert foreign.rates.interference.compute_slowdown_ratio == pytest.approx(0.5)
    assert "this model's own was not measured" in foreign.device.figures["compute_slowdown_ratio"].source
    assert none.rates.interference.is_none
    assert "compute_slowdown_ratio" not in none.device.figures


def test_work_that_was_not_measured_needs_a_rate_and_measured_work_does_not():
    without = replace(MODEL, flops_per_s={"float16": 5e6})
    assert build_planning_profile(without, NODE, None, now=NOW).rates.matmul_flops_per_s == {"bfloat16": 5e6}
    counted = replace(without, facts=TOY)
    with pytest.raises(ProfileError, match=r"no rate is known for bfloat16 .* needed for transformer"):
        build_planning_profile(counted, NODE, None, now=NOW)
    on_card = build_planning_profile(replace(counted, kind=CARD), CARD_NODE, PRESET, now=NOW)
    assert on_card.rates.matmul_flops_per_s == {"bfloat16": derive_rates(PRESET).matmul_flops_per_s["bfloat16"]}


def test_a_processor_has_finite_rates_even_where_no_copy_was_timed():
    kind = DeviceKind(backend="cpu", title="a processor", memory_bytes=0)
    profile = build_planning_profile(replace(MODEL, kind=kind), None, None, now=NOW, host_bytes=2**35)
    assert profile.rates.pinned_bytes_per_s == profile.rates.pageable_bytes_per_s == 5e5
    assert (profile.context_bytes, profile.device.memory_bytes) == (0, 2**35)
    with pytest.raises(ProfileError, match="memory of a processor"):
        build_planning_profile(replace(MODEL, kind=kind), None, None, now=NOW)


def test_usable_memory_is_never_more_than_all():
    kind = replace(EMULATED, memory_bytes=2**30)
    profile = build_planning_profile(replace(MODEL, kind=kind), NODE, None, now=NOW)
    assert profile.device.usable_vram_bytes == profile.device.memory_bytes == 2**30


def test_the_digest_does_not_change_with_age():
    model = replace(MODEL, facts=with_measured_work(TOY, 1.0))
    profile, later = (build_planning_profile(model, NODE, None, now=NOW + timedelta(days=days)) for days in (0, 3))
    assert "3 days ago" in later.device.origin
    assert later.digest == profile.digest
