"""Sides beside each other: differences first, what is equal in one line, what only one side has apart."""

import pytest

from reports.comparison import (
    NO_COMPONENT,
    Entry,
    Side,
    describe_rest,
    figures_table,
    format_entry,
    placements_table,
    put_side_by_side,
)


def side(name, placements=None, **figures):
    entries = tuple(Entry(name=key, value=value, unit="s") for key, value in figures.items())
    return Side(name=name, kind="plan", placements=placements or {}, entries=entries)


def test_differences_come_apart_from_what_is_equal():
    found = put_side_by_side(
        [side("a", {"dit": "resident", "vae": "streamed"}, latency=2.0, model="H3", fill=1.0),
         side("b", {"dit": "streamed", "vae": "streamed"}, latency=1.0, model="H3", fill=1.0)]
    )  # fmt: skip
    assert [(row.name, row.values) for row in found.placements] == [("dit", ("resident", "streamed"))]
    assert [(row.name, row.values) for row in found.figures] == [("latency", (2.0, 1.0))]
    assert found.equal == ("vae", "model", "fill")
    assert found.alone == {"a": (), "b": ()}


def test_numbers_that_differ_by_rounding_are_equal_and_text_is_not_a_number():
    found = put_side_by_side([side("a", total=0.1 + 0.2, steps=4), side("b", total=0.3, steps="4")])
    assert found.equal == ("total",)
    assert [row.name for row in found.figures] == ["steps"]


def test_what_only_one_of_many_has_is_listed_for_it_and_what_two_share_is_compared():
    found = put_side_by_side([side("a", latency=1.0, extra=5.0), side("b", latency=2.0), side("c", other=1.0)])
    assert [row.values for row in found.figures] == [(1.0, 2.0, None)]
    assert found.alone == {"a": ("extra",), "b": (), "c": ("other",)}
    assert figures_table(found).columns == ("", "a", "b", "c")
    assert "Only in c: other" in describe_rest(found)


def test_a_component_that_one_plan_lacks_is_placed_differently_but_not_where_a_side_has_no_placements():
    found = put_side_by_side([side("a", {"dit": "resident", "vae": "streamed"}), side("b", {"dit": "resident"})])
    assert [(row.name, row.values) for row in found.placements] == [("vae", ("streamed", NO_COMPONENT))]
    with_profile = put_side_by_side([side("a", {"dit": "resident"}), side("profile")])
    assert (with_profile.placements, with_profile.equal) == ((), ())


@pytest.mark.parametrize(
    ("before", "after", "change"), [(2.0, 1.0, "-50.0 %"), (1.0, 1.5, "+50.0 %"), (0.0, 1.0, ""), ("x", 1.0, "")]
)
def test_beside_two_sides_stands_by_how_much_the_second_one_is_more(before, after, change):
    table = figures_table(put_side_by_side([side("a", latency=before), side("b", latency=after)]))
    assert table.columns == ("", "a", "b", "change")
    assert table.rows[0][-1] == change


def test_equal_things_take_one_line_however_many_they_are():
    figures = {f"figure_{number}": 1.0 for number in range(40)}
    lines = describe_rest(put_side_by_side([side("a", **figures), side("b", **figures)]))
    assert lines[0] == "Nothing that both have differs"
    assert lines[1].startswith("Equal: figure_0, figure_1,")
    assert lines[1].endswith("and 28 more")


def test_tables_keep_the_order_of_the_sides():
    found = put_side_by_side([side("b", {"dit": "resident"}), side("a", {"dit": "streamed"})])
    assert placements_table(found).columns == ("component", "b", "a")
    assert placements_table(found).rows == (("dit", "resident", "streamed"),)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(1.5, "s", "1.50 s"), (2**30, "bytes", "1.00 GiB"), (24e9, "bytes/s", "24.00 GB/s"), (0.95, "share", "95.0 %"),
     (7, "", "7"), ("yes", "", "yes"), (1e14, "operations/s", "1e+14 operations/s")],
)  # fmt: skip
def test_every_unit_is_written_for_people(value, unit, text):
    assert format_entry(value, unit) == text
