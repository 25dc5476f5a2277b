"""The page in a real browser: what it asks for, and how it lies on a screen, on a phone and on paper."""

import html
import json
import re

import pytest
from browser import Browser, count_sheets, find_browser
from hostile_text import make_hostile
from matplotlib.image import imread
from run_data_builders import build_run_data

from reports.page.html import render_html
from reports.page.pictures import PICTURES
from reports.run_data import Gap

# Every picture, table and box of the page in a frame as wide as a phone: where it ends, and what it would need.
MEASURE = """<!DOCTYPE html><html><body><iframe id="f" style="border:0;width:{width}px;height:3000px"
srcdoc="{page}"></iframe><script>
document.getElementById("f").addEventListener("load", event => {{
  const inner = event.target.contentDocument, all = (names) => [...inner.querySelectorAll(names)];
  const end = (element) => Math.ceil(element.getBoundingClientRect().right);
  document.body.textContent = "[[" + JSON.stringify({{
    page: inner.documentElement.scrollWidth,
    pictures: all("img").map(element => [element.naturalWidth, end(element), element.clientHeight]),
    boxes: all("body > header > *, main > section, .scroll, pre, figure, details").map(end),
    tables: all("main > section > .scroll > table").map(end),
  }}) + "]]";
}});
</script></body></html>"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    return Browser(find_browser(), tmp_path_factory.mktemp("browser"))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    gaps = (Gap(file="host.csv", problem="is not there", lost="time for host memory"),)
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render_html(build_run_data(gaps=gaps)), encoding="utf-8")
    return path


def lay_out(browser, page, width):
    frame = page.with_name(f"frame-{width}.html")
    frame.write_text(MEASURE.format(width=width, page=html.escape(page.read_text())), encoding="utf-8")
    text = html.unescape(browser.read(frame, "--window-size=1400,3000"))
    return json.loads(re.search(r"\[\[(.*)\]\]", text, flags=re.DOTALL)[1])


def test_page_asks_for_nothing(browser, page):
    assert browser.list_asked(page) == set()


def test_page_that_names_hosts_is_seen_asking_for_them(browser, page):
    loud = page.with_name("loud.html")
    loud.write_text('<img src="http://pictures.example/a.png"><script src="https://scripts.example/b.js"></script>')
    assert browser.list_asked(loud) == {"http://pictures.example/a.png", "https://scripts.example/b.js", "a lookup"}


@pytest.mark.parametrize("width", [360, 1280])
def test_page_fits_the_window_and_tables_scroll_in_their_own_boxes(browser, page, width):
    found = lay_out(browser, page, width)
    assert found["page"] == width
    assert len(found["boxes"]) > 30
    assert max(found["boxes"]) <= width
    assert max(found["tables"]) > width if width == 360 else True


@pytest.mark.parametrize("width", [360, 1280])
def test_every_picture_is_shown_and_scales_with_the_window(browser, page, width):
    pictures = lay_out(browser, page, width)["pictures"]
    assert len(pictures) == len(PICTURES)
    assert all(natural > 0 for natural, _, _ in pictures)
    assert max(end for _, end, _ in pictures) <= width
    assert min(height for _, _, height in pictures) > 50


@pytest.mark.parametrize("width", [360, 1280])
def test_screenshot_shows_text_on_white_to_the_edges(browser, page, width):
    picture = imread(browser.screenshot(page, width, 900))[..., :3]
    assert picture.shape[:2] == (900, width)
    assert picture[:, :8].min() == picture[:, -8:].min() == 1.0
    assert 0.02 < (picture.mean(axis=2) < 0.5).mean() < 0.5


def test_page_is_printed_on_several_sheets_with_its_pictures(browser, page):
    printed = browser.print_pdf(page)
    without = page.with_name("no-pictures.html")
    without.write_text(render_html(build_run_data(curve=(), trials=(), windows=(), stalls=(), memory=())))
    assert count_sheets(printed) > count_sheets(browser.print_pdf(without)) >= 2


def test_hostile_texts_run_nothing_in_the_browser(browser, page):
    hostile = page.with_name("hostile.html")
    hostile.write_text(render_html(make_hostile(build_run_data())), encoding="utf-8")
    text = browser.read(hostile)
    assert "<script" not in text
    assert text.count("&lt;script&gt;") > 100
    assert browser.list_asked(hostile) == set()
