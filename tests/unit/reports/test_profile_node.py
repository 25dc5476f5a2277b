"""Tables of a node: one row per size, figures that people know by name."""

from dataclasses import replace

from profile_builders import TOY, build_interference, build_link, build_node_profile, timed

from reports.profile_node import budget_table, describe_unknown, interference_table, link_tables, spread_tables
from runtime.target_summary import Figure

MIB = 2**20


def test_every_size_has_one_row_with_all_its_rates_the_largest_first():
    links = (
        build_link("pinned_h2d", MIB, 2e9),
        build_link("pinned_h2d", 64 * MIB, 4e9),
        build_link("duplex_h2d", 64 * MIB, 3e9),
        build_link("duplex_d2h", 64 * MIB, 1e9),
    )
    (table,) = link_tables(build_node_profile(links=links))
    assert table.columns == ("size", "pinned", "up / down", "layers")
    assert table.rows == (("64.0 MiB", "4.00", "3.00 / 1.00", ""), ("1.0 MiB", "2.00", "", ""))


def test_one_way_without_the_other_leaves_its_place():
    (table,) = link_tables(build_node_profile(links=(build_link("duplex_d2h", MIB, 1e9),)))
    assert table.rows[0][1] == "- / 1.00"


def test_rates_are_marked_and_reads_have_a_table_of_their_own():
    loose = replace(timed(MIB / 1e9), is_settled=False)
    links = (
        build_link("d2h", MIB, timing=loose, disturbances=("hot",)),
        build_link("disk_read", MIB, 2e9),
    )
    copies, reads = link_tables(build_node_profile(links=links))
    assert copies.rows[0][1] == "!~1.00"
    assert (reads.columns[1], reads.rows[0][1]) == ("disk", "2.00")


def test_sizes_of_layers_say_whose_they_are_where_the_model_is_known():
    node = build_node_profile(links=(build_link("pinned_h2d", 6000, is_layer_size=True), build_link("d2h", 100)))
    for facts, owner in ((TOY, "4 of transformer"), (None, "yes")):
        (table,) = link_tables(node, facts)
        assert [row[-1] for row in table.rows] == [owner, ""]


def test_spreads_are_shown_where_anything_was_timed_twice():
    noisy = build_link("d2h", MIB, timing=replace(timed(1.0), low_s=0.9, high_s=1.1))
    (table,) = spread_tables(build_node_profile(links=(noisy,)))
    assert table.rows[0][1] == "20 %"
    assert spread_tables(build_node_profile(links=(build_link(timing=timed(1.0, count=1)),))) == ()


def test_a_node_without_links_has_no_table_of_them():
    node = build_node_profile(links=())
    assert (link_tables(node), spread_tables(node)) == ((), ())


def test_interference_is_told_for_compute_and_for_copies():
    table = interference_table(build_node_profile(interference=(build_interference(),)))
    assert [(row[1], row[-1]) for row in table.rows] == [("compute", "+10.0 %"), ("copies", "+20.0 %")]


def test_budgets_have_names_and_units_of_people_and_unknown_ones_their_reason():
    figures = {
        "context_bytes": Figure(value=2**19, unit="bytes", source="read"),
        "pin_s_per_byte": Figure(value=1 / 2**30, unit="s/byte", source="measured"),
        "of_the_future": Figure(value=7, unit="sheep", source="counted"),
    }
    unknown = {"vram_total_bytes": "no card", "vram_free_bytes": "no card"}
    node = build_node_profile(figures=figures, unknown=unknown)
    short, full = (budget_table(node, full=full) for full in (False, True))
    assert [row[:2] for row in short.rows] == [
        ("context", "512.0 KiB"),
        ("time to pin", "1.00 s per GiB"),
        ("of_the_future", "7 sheep"),
    ]
    assert len(full.rows) == 5
    assert describe_unknown(node) == ("unknown: VRAM, free VRAM: no card",)
