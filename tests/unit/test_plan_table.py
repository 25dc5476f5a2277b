"""Tables of plans: what is typed, what is found for each pair, and which plan serves all of them."""

from dataclasses import replace

import pytest
from builders import build_component, build_facts
from planning_builders import SETTINGS, build_target

from autotune.memory_model import WORKSPACE_BYTES
from autotune.workflows.plan_table import (
    Size,
    build_table,
    describe_safest,
    describe_size,
    list_records,
    list_rows,
    parse_caps,
    parse_sizes,
)
from reports.plan_table import plan_table
from runtime.errors import InputError
from runtime.units import GIB

SMALL, MIDDLE, LARGE = 20_000, 28_000, 40_000


def request_of(width, *, activation_bytes=0, compute_ms=3):
    facts = build_facts(
        {
            "transformer": build_component(
                6, compute_ms=compute_ms, copy_ms=6, passes=5, is_dit=True, activation_bytes=activation_bytes
            )
        }
    )
    return replace(facts, workload=replace(facts.workload, width=width))


def tabulate(*requests, caps=(SMALL, MIDDLE, LARGE)):
    sizes = [cap + WORKSPACE_BYTES for cap in caps]
    return build_table(requests, sizes, build_target(10 * LARGE), SETTINGS)


def test_sizes_keep_their_order_and_appear_once():
    assert parse_sizes("864x480x124, 1024X1024,864x480x124") == (
        Size(width=864, height=480, frames=124),
        Size(width=1024, height=1024),
    )


@pytest.mark.parametrize(
    "text", ["", "864", "864x480x", "864x480,", "0x480", "-1x4", "1.5x4", "axb", "9999999x1", "1x2x3x4", "٣x٣"]
)
def test_bad_sizes_are_refused_with_one_message(text):
    with pytest.raises(InputError, match="is no size: write width x height x frames like 864x480x124"):
        parse_sizes(text)


def test_caps_keep_their_order_and_appear_once():
    assert parse_caps("16GiB,12GiB, 16GiB") == (16 * GIB, 12 * GIB)
    with pytest.raises(InputError, match="not a size"):
        parse_caps("12GiB,")


def test_too_many_are_refused():
    with pytest.raises(InputError, match="--sizes names 33: at most 32"):
        parse_sizes(",".join(f"{64 + side}x64" for side in range(33)))
    with pytest.raises(InputError, match="--caps names 33"):
        parse_caps(",".join(f"{size}GiB" for size in range(1, 34)))


def test_every_request_has_a_row_under_every_cap_in_order():
    table = tabulate(request_of(64), request_of(128), caps=(LARGE, SMALL))
    assert [(cell.size, cell.asked_bytes - WORKSPACE_BYTES) for cell in table.cells] == [
        ("64x64", LARGE),
        ("64x64", SMALL),
        ("128x64", LARGE),
        ("128x64", SMALL),
    ]
    assert table.cells[0].best.latency_s <= table.cells[1].best.latency_s


def test_a_pair_that_nothing_fits_says_what_is_missing():
    table = tabulate(request_of(64), request_of(128, activation_bytes=2**24), caps=(SMALL,))
    row = list_rows(table)[1]
    assert row.latency_s is None
    assert "VRAM missing" in row.missing
    assert "nothing fits" in plan_table(list_rows(table)).rows[1]
    assert list_records(table)[1]["short_bytes"] > 0


def test_a_cap_is_no_more_than_the_card_has():
    table = build_table([request_of(64)], [2**50], build_target(LARGE), SETTINGS)
    assert table.cells[0].cap.effective_bytes == LARGE + WORKSPACE_BYTES


def test_the_safest_plan_fits_under_the_smallest_cap_and_loses_least_in_its_worst_case():
    table = tabulate(request_of(64), request_of(128, activation_bytes=5_000))
    safest = table.safest
    for cell, ratio in zip(table.cells, safest.slowdowns, strict=True):
        assert ratio is not None
        assert ratio >= -1e-9
        assert cell.short is None
    assert safest.worst_ratio == max(safest.slowdowns)
    # The best plan of the smaller request fills the cap, which the larger one then exceeds.
    assert safest.size == "128x64"
    assert safest.cap_bytes == SMALL + WORKSPACE_BYTES


def test_a_request_that_nothing_fits_under_the_smallest_cap_does_not_decide():
    table = tabulate(request_of(64), request_of(128, activation_bytes=12_000))
    assert table.safest.size == "64x64"
    rows = list_rows(table)
    assert rows[3].missing
    assert any("does not fit" in cells for cells in plan_table(rows).rows) or table.safest.slowdowns[-1] is not None


def test_the_smallest_cap_that_anything_fits_decides():
    table = tabulate(request_of(64), caps=(10, SMALL, LARGE))
    assert table.safest.cap_bytes == SMALL + WORKSPACE_BYTES
    assert table.safest.slowdowns[0] is None


def test_nothing_anywhere_is_an_answer():
    table = tabulate(request_of(64), caps=(10,))
    assert not table.fits_anywhere
    assert table.safest is None
    assert "nothing fits anywhere" in describe_safest(table)[0]


def test_the_rule_and_the_placements_are_told():
    text = " ".join(describe_safest(tabulate(request_of(64))))
    assert "the rule:" in text
    assert "transformer: layerwise-offload" in text


def test_records_name_every_component():
    record = list_records(tabulate(request_of(64), caps=(LARGE,)))[0]
    assert record["fits"] is True
    assert record["transformer"]
    assert record["host_tiers"] == "all pinned"


def test_frames_are_named_only_where_there_are_several():
    facts = request_of(64)
    assert describe_size(facts) == "64x64"
    assert describe_size(replace(facts, workload=replace(facts.workload, frames=5))) == "64x64x5"
