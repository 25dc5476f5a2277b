"""What speaks against a profile, reason by reason."""

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
    build_model_profile,
    build_node_profile,
    build_record,
)

from autotune.measurements.model_profile import MeasuredPiece, RunOptions
from autotune.measurements.validity import (
    ModelWish,
    describe_age,
    is_same_kind,
    judge_model_profile,
    judge_node_profile,
    refuse_invalid,
)
from runtime.errors import ProfileError

MODEL = build_model_profile(measured_at=NOW.isoformat(), versions={"torch": "2.13", "driver": "580"})
NODE = build_node_profile(
    measured_at=NOW.isoformat(), versions={"driver": "580"}, node=build_fingerprint(kind=CARD, device_uuid="GPU-1")
)


def test_a_profile_of_what_is_wanted_is_valid():
    wish = ModelWish(
        model="toy",
        workload=TOY.workload,
        variant="",
        kind=EMULATED,
        versions={"torch": "2.13", "diffusers": "0.42"},
        options=RunOptions(),
        facts_key="key",
    )
    verdict = judge_model_profile(MODEL, wish, NOW)
    assert verdict.is_valid
    assert verdict.warnings == ()


@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        (ModelWish(model="H3"), "of the model toy, not of H3"),
        (ModelWish(variant="int8"), "of the model as released, not of the variant int8"),
        (ModelWish(workload=replace(TOY.workload, steps=2)), "of another request: .* 1 steps.* not .* 2 steps"),
        (ModelWish(kind=CARD), "measured on emulated card .*, this is NVIDIA GeForce RTX 4090"),
        (ModelWish(versions={"torch": "2.14"}), "torch changed from 2.13 to 2.14"),
        (ModelWish(options=RunOptions(autocast="bfloat16")), "not with attention auto, autocast bfloat16"),
        (ModelWish(facts_key="other"), "classes, its configurations"),
    ],
)
def test_each_difference_is_a_reason_of_its_own(wish, reason):
    verdict = judge_model_profile(MODEL, wish, NOW)
    assert len(verdict.reasons) == 1
    with pytest.raises(ProfileError, match=f"file cannot be used: .*{reason}.*Measure it again"):
        refuse_invalid("file", verdict, "Measure it again")


def test_all_reasons_are_told_at_once():
    wish = ModelWish(model="H3", kind=CARD, versions={"torch": "2.14", "driver": "590"})
    assert len(judge_model_profile(MODEL, wish, NOW + timedelta(days=31)).reasons) == 5


@pytest.mark.parametrize(
    ("measured_at", "is_valid"),
    [
        (NOW - timedelta(days=29), True),
        (NOW - timedelta(days=31), False),
        (NOW + timedelta(hours=1), True),
        (NOW + timedelta(days=2), False),
    ],
)
def test_profiles_of_30_days_and_those_from_the_future_are_stale(measured_at, is_valid):
    profile = replace(MODEL, measured_at=measured_at.isoformat())
    assert judge_model_profile(profile, ModelWish(), NOW).is_valid is is_valid


def test_a_time_without_zone_is_utc_and_nonsense_is_no_time():
    assert describe_age("2026-11-27T12:00:00", NOW) == "2026-11-27, 3 days ago"
    assert describe_age("soon", NOW) == "at an unknown time"
    assert not judge_model_profile(replace(MODEL, measured_at="soon"), ModelWish(), NOW).is_valid


def test_disturbed_and_missing_pieces_are_warnings_and_named():
    disturbed = build_record("blocks[0]", disturbances=("the clock was held down",))
    lost = build_record("blocks[1]", outcome="out_of_memory", timing=None)
    pieces = tuple(
        MeasuredPiece(record=record, places=(record.name,), calls=1, passes=1) for record in (disturbed, lost)
    )
    verdict = judge_model_profile(replace(MODEL, pieces=pieces), ModelWish(), NOW)
    assert verdict.is_valid
    assert "transformer blocks[0] were disturbed" in verdict.warnings[0]
    assert "transformer blocks[1] ran out of device memory" in verdict.warnings[1]


@pytest.mark.parametrize(
    ("here", "versions", "reason"),
    [
        ({"machine": "other"}, {}, "on another machine"),
        ({"device_uuid": "GPU-2"}, {}, "of the card GPU-1, not of GPU-2"),
        ({"kind": EMULATED, "device_uuid": ""}, {}, "this is emulated card"),
        ({"kernel": "9.9"}, {}, "kernel changed from .* to 9.9"),
        ({}, {"driver": "590"}, "driver changed from 580 to 590"),
    ],
)
def test_a_node_profile_holds_for_its_own_machine_card_and_driver(here, versions, reason):
    verdict = judge_node_profile(NODE, replace(NODE.node, **here), versions, NOW)
    assert len(verdict.reasons) == 1
    with pytest.raises(ProfileError, match=reason):
        refuse_invalid("file", verdict, "")


def test_a_node_profile_of_this_card_is_valid_and_names_disturbed_figures():
    node = replace(
        NODE,
        links=(build_link(disturbances=("others copied",)),),
        interference=(replace(build_interference(), disturbances=("others computed",)),),
    )
    verdict = judge_node_profile(node, NODE.node, {"driver": "580"}, NOW)
    assert verdict.is_valid
    assert "pinned_h2d of 5.9 KiB, interference with toy transformer blocks[0]" in verdict.warnings[0]


def test_a_card_read_in_two_ways_is_one_kind_and_another_size_is_not():
    as_torch_sees_it = replace(CARD, memory_bytes=24_080 * 2**20, capability="")
    assert is_same_kind(CARD, as_torch_sees_it)
    assert not is_same_kind(CARD, replace(CARD, memory_bytes=CARD.memory_bytes // 2))
    assert not is_same_kind(CARD, replace(CARD, capability="9.0"))
