"""The HTML page: its structure, what it asks of whom, and that it says what the record says."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from page_reader import read_page, read_rows
from run_data_builders import build_document, build_run_data

from reports.page.content import NO_PLAN
from reports.page.html import render_html
from reports.page.pictures import PICTURES
from reports.run_data import Gap, RunData
from reports.tables import comparison_table, component_table, host_table, memory_table, what_if_table
from runtime.units import format_seconds

GAPS = (
    Gap(file="measurement.json", problem="it is not there", lost="measured beside predicted"),
    Gap(file="pareto.csv", problem="line 3 has no latency", lost="the curve"),
)


@pytest.fixture(scope="module")
def page():
    return read_page(render_html(build_run_data(gaps=GAPS)))


def section(page, key):
    return next(element for element in page.find("section") if element.attributes["id"] == key)


def test_page_has_one_title_and_headings_in_order(page):
    levels = [int(element.tag[1]) for element in _all(page) if re.fullmatch(r"h[1-6]", element.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert page.find("title")[0].text == page.find("h1")[0].text
    assert page.find("html")[0].attributes["lang"] == "en"


def test_page_asks_no_host_and_runs_no_script(page):
    tags = {element.tag for element in _all(page)}
    assert not tags & {"script", "iframe", "object", "embed", "base", "form", "video", "audio"}
    for element in _all(page):
        for name, value in element.attributes.items():
            assert not name.startswith("on")
            if name in {"src", "href", "srcset", "data", "action", "poster"}:
                assert value.startswith(("data:", "#")), value
    assert "url(" not in page.find("style")[0].text
    assert "@import" not in page.find("style")[0].text


def test_links_of_the_page_lead_to_its_sections(page):
    targets = {link.attributes["href"].removeprefix("#") for link in page.find("a")}
    keys = [element.attributes["id"] for element in page.find("section")]
    assert targets == set(keys)
    ids = [element.attributes["id"] for element in _all(page) if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    assert all(element.attributes["aria-labelledby"] in ids for element in page.find("section"))


def test_every_picture_has_words_and_a_table_of_its_values(page):
    illustrations = [picture.illustrate(build_run_data()) for picture in PICTURES.values()]
    expected = {item.finding: item.table for item in illustrations}
    assert len(expected) == len(PICTURES) == len(page.find("img"))
    for image in page.find("img"):
        assert image.attributes["src"].startswith(("data:image/svg+xml;base64,", "data:image/png;base64,"))
        place = image.ancestors[-2].children
        caption, details = image.ancestors[-1].find("figcaption")[0], place[place.index(image.ancestors[-1]) + 1]
        finding = caption.find("strong")[0].text.removesuffix(".")
        assert image.attributes["alt"] == caption.text
        rows = read_rows(details.find("table")[0])
        assert rows == [expected[finding].columns, *expected[finding].rows]


def test_tables_name_their_heads_and_scroll_in_a_box_of_their_own(page):
    assert len(page.find("table")) > len(PICTURES) + 5
    for table in page.find("table"):
        assert table.ancestors[-1].attributes["class"] == "scroll"
        assert table.find("caption")[0].text
        heads = table.find("thead")[0].find("th")
        assert heads
        assert {head.attributes["scope"] for head in heads} == {"col"}
        for row in table.find("tbody")[0].find("tr"):
            assert [cell.attributes["scope"] for cell in row.find("th")] == ["row"]


@pytest.mark.parametrize(
    ("key", "table"),
    [
        ("components", component_table),
        ("comparisons", comparison_table),
        ("changes", what_if_table),
        ("device-memory", lambda document: memory_table(document.prediction)),
        ("host-memory", lambda document: host_table(document.prediction)),
    ],
)
def test_tables_are_those_of_the_plan_cell_by_cell(page, key, table):
    expected = table(build_document())
    assert expected.rows
    tables = [read_rows(table) for table in section(page, key).find("table") if not table.is_in("details")]
    assert tables[0] == [expected.columns, *expected.rows]


def test_sections_come_in_the_order_in_which_a_person_acts(page):
    keys = [element.attributes["id"] for element in page.find("section")]
    order = [
        "run",
        "components",
        "trade-off",
        "comparisons",
        "changes",
        "host-memory",
        "measured",
        "assumptions",
        "figures",
        "missing",
    ]
    assert [key for key in keys if key in order] == order
    assert keys[-1] == "missing"
    assert build_document().findings[0] == page.find("p")[0].text
    assert build_run_data().serve_script.strip() == section(page, "run").find("pre")[0].text


def test_what_is_missing_is_named_with_what_would_make_it(page):
    _, first, second = read_rows(section(page, "missing").find("table")[0])
    assert first == (
        "measurement.json",
        "it is not there",
        "measured beside predicted",
        "execute the plan: autotune run plan.json",
    )
    assert second[:3] == ("pareto.csv", "line 3 has no latency", "the curve")
    assert second[3].endswith(build_document().command)
    assert "measurement.json, pareto.csv" in page.find("header")[0].text


def test_empty_run_yields_a_page_that_says_what_is_missing():
    page = read_page(render_html(RunData(name="empty", gaps=GAPS)))
    assert page.find("h1")[0].text == "empty"
    assert NO_PLAN in page.find("header")[0].text
    assert [element.attributes["id"] for element in page.find("section")] == ["missing"]
    assert "autotune search" in section(page, "missing").text


def test_run_without_a_script_says_how_to_get_the_command():
    page = read_page(render_html(build_run_data(serve_script="")))
    assert section(page, "run").find("pre")[0].text == "autotune export plan.json"


@pytest.mark.parametrize(
    ("key", "lacks"),
    [
        ("trade-off", {"curve": ()}),
        ("passes", {"windows": ()}),
        ("passes", {"timeline": None}),
        ("waits", {"stalls": ()}),
        ("memory", {"memory": ()}),
        ("hosts", {"host_curve": ()}),
        ("changes", {"plan": build_document(what_ifs=())}),
        ("measured", {"measurement": None}),
        ("search", {"trials": ()}),
    ],
)
def test_partial_run_keeps_every_picture_but_the_one_it_lacks(key, lacks):
    whole, partial = build_run_data(), build_run_data(**lacks)
    left_out = [name for name, picture in PICTURES.items() if picture.illustrate(partial) is None]
    assert left_out == [key]
    assert len(read_page(render_html(partial)).find("img")) == len(PICTURES) - 1
    assert PICTURES[key].illustrate(whole) is not None


def test_executed_run_without_a_plan_is_named_by_what_it_took():
    measurement = build_run_data().measurement
    page = read_page(render_html(RunData(name="run", measurement=measurement)))
    assert page.find("h1")[0].text == f"toy on {measurement.device_title}"
    assert page.find("p")[0].text == f"A later request took {format_seconds(measurement.latency.median_s)}"
    assert [element.attributes["id"] for element in page.find("section")] == ["measured"]


def test_plan_of_the_executor_is_run_without_a_server():
    plan = build_document().plan
    document = build_document(plan=replace(plan, engine="topup"))
    page = read_page(render_html(build_run_data(plan=document, serve_script="")))
    assert section(page, "run").find("pre")[0].text == "autotune run plan.json"


def test_equal_records_give_equal_pages():
    assert render_html(build_run_data()) == render_html(build_run_data())


def test_page_of_a_long_curve_stays_within_three_megabytes():
    data = build_run_data()
    curve = tuple(
        replace(data.curve[0], charged_bytes=10**9 + step * 10**7, latency_s=100 - step / 50) for step in range(4000)
    )
    assert len(render_html(replace(data, curve=curve)).encode()) <= 3 * 10**6


def _all(element):
    for child in element.children:
        yield child
        yield from _all(child)
