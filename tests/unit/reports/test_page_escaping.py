"""Names, notes and paths are data: nothing in them becomes part of the page, of the Markdown or of a formula."""

import re

import pytest
from hostile_text import HOSTILE, make_hostile
from page_reader import read_page
from run_data_builders import build_document, build_run_data

from reports.page.html import render_html
from reports.page.markdown import render_markdown
from reports.page.pdf import save_pdf
from reports.run_data import Gap

GAP = Gap(file="host.csv", problem="is not there", lost="a picture")


@pytest.fixture(scope="module")
def hostile():
    return make_hostile(build_run_data(gaps=(GAP,)))


def test_hostile_texts_leave_the_structure_of_the_page_as_it_is(hostile):
    page = read_page(render_html(hostile))
    assert not page.find("script")
    texts = page.find("body")[0].text
    assert texts.count("<script>") > 100
    assert HOSTILE in page.find("title")[0].text
    assert HOSTILE in page.find("img")[0].attributes["alt"] or HOSTILE in page.find("img")[1].attributes["alt"]
    for element in page.find("td") + page.find("th") + page.find("li") + page.find("p"):
        assert all(child.tag in {"a", "strong", "wbr"} for child in element.children)
        assert set(element.attributes) <= {"class", "scope"}


def test_hostile_texts_are_no_tags_in_markdown(hostile):
    text = render_markdown(hostile)
    prose = re.sub(r"^(`{3,})bash\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert prose.count("\\<script>") > 50
    assert not re.search(r"(?<!\\)<[A-Za-z/!?]", prose)


def test_line_breaks_in_texts_begin_nothing_in_markdown():
    broken = build_document(findings=("first", "second\n# not a heading"), assumptions=("one\n\n- not a point",))
    text = render_markdown(build_run_data(plan=broken))
    assert "- second # not a heading\n" in text
    assert "- one - not a point\n" in text


def test_hostile_texts_are_set_as_they_are_in_the_pdf(hostile, tmp_path):
    save_pdf(hostile, tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
