"""Tables of a model's pieces: what matters stays, what does not is summed up, and nothing is lost in full."""

from dataclasses import replace

import pytest
from profile_builders import build_model_profile, build_record, timed

from autotune.measurements.model_profile import MeasuredPiece
from reports.profile_pieces import describe_notes, describe_unmeasured, piece_tables

LOST = {"outcome": "out_of_memory", "timing": None, "note": "4 GiB asked"}


def build_profile(*records, passes=1):
    pieces = tuple(MeasuredPiece(record=record, places=(record.name,), calls=1, passes=passes) for record in records)
    return replace(build_model_profile(), pieces=pieces)


def read_column(table, name):
    at = table.columns.index(name)
    return [row[at] for row in table.rows]


def test_shares_are_of_the_components_own_time_and_all_its_calls():
    record = build_record("blocks[0]", 1.0)
    layers = MeasuredPiece(record=record, places=("blocks[0]", "blocks[1]", "blocks[2]"), calls=3, passes=1)
    rest = MeasuredPiece(record=build_record("head", 1.0), places=("head",), calls=1, passes=1)
    (table,) = piece_tables(replace(build_model_profile(), pieces=(layers, rest)), full=False)
    assert read_column(table, "share") == ["75 %", "25 %"]
    assert read_column(table, "piece")[0] == "blocks[0] and 2 alike"
    assert table.title.startswith("transformer: 4.00 s a pass")


def test_the_short_form_sums_up_pieces_that_take_hardly_any_time():
    profile = build_profile(build_record("a", 1.0), *(build_record(f"b{at}", 2e-4) for at in range(4)))
    (short,), (full,) = (piece_tables(profile, full=full) for full in (False, True))
    assert read_column(short, "piece") == ["a", "and 4 more pieces"]
    assert read_column(short, "share")[1] == "0.08 %"
    assert len(full.rows) == 5


def test_one_small_piece_alone_is_shown():
    (table,) = piece_tables(build_profile(build_record("a", 1.0), build_record("b", 1e-4)), full=False)
    assert read_column(table, "piece") == ["a", "b"]


@pytest.mark.parametrize("full", [False, True])
def test_a_piece_that_was_not_measured_says_so_where_its_time_would_be(full):
    profile = build_profile(build_record("a", 1.0), build_record("b", **LOST))
    (table,) = piece_tables(profile, full=full)
    assert read_column(table, "time") == ["1.00 s", "out of memory"]
    assert "1 of 2 pieces timed" in table.title
    assert describe_unmeasured(profile) == ("transformer b (out of memory: 4 GiB asked)",)


def test_a_place_that_is_called_with_two_kinds_of_inputs_has_two_names():
    profile = build_profile(build_record("conv", 1.0), build_record("conv", 2.0, key="other"))
    (table,) = piece_tables(profile, full=False)
    assert read_column(table, "piece") == ["conv", "conv #2"]
    assert any("other shapes" in note for note in describe_notes(profile))


def test_figures_that_are_not_to_be_trusted_are_marked():
    loose = replace(timed(1.0), is_settled=False)
    profile = build_profile(
        build_record("a", timing=loose), build_record("b", 1.0, disturbances=("hot",)), build_record("c", 1.0)
    )
    (table,) = piece_tables(profile, full=False)
    assert read_column(table, "time") == ["~1.00 s", "!1.00 s", "1.00 s"]


def test_passes_of_the_table_and_of_the_request_are_said_once():
    (table,) = piece_tables(build_profile(build_record("a", 1.0), passes=1), full=False)
    assert table.title == "transformer: 1.00 s a pass (of 3 in a request)"
    (table,) = piece_tables(build_profile(build_record("a", 1.0), passes=3), full=False)
    assert table.title == "transformer: 1.00 s in 3 passes"


def test_a_note_on_measured_pieces_is_said_once_for_all_of_them():
    profile = build_profile(*(build_record(name, 1.0, note="it waited") for name in ("a", "b")))
    assert describe_notes(profile) == ("a, b: it waited",)


def test_a_component_without_any_time_has_a_table_without_shares():
    (table,) = piece_tables(build_profile(build_record("a", **LOST), build_record("b", 0.0)), full=False)
    assert read_column(table, "share") == ["", ""]
