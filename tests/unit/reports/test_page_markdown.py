"""The report as Markdown: the same content as the page, with words and values instead of pictures."""

import re
from dataclasses import replace

from run_data_builders import build_document, build_run_data

from reports.page.content import build_page
from reports.page.markdown import MAX_PICTURE_ROWS, render_markdown
from reports.page.pictures import PICTURES
from reports.run_data import Gap, RunData
from reports.tables import comparison_table

GAP = Gap(file="host.csv", problem="is not there", lost="time for host memory")


def test_headings_are_those_of_the_page_in_order():
    data = build_run_data(gaps=(GAP,))
    page = build_page(data)
    text = re.sub(r"^```bash\n.*?^```$", "", render_markdown(data), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ .*$", text, flags=re.MULTILINE)
    assert headings == [f"# {page.title}", *(f"## {section.heading}" for section in page.sections)]
    assert f"**{page.headline}**" in text


def test_every_picture_is_said_in_words_with_its_values():
    data = build_run_data()
    text = render_markdown(data)
    for picture in PICTURES.values():
        illustration = picture.illustrate(data)
        assert f"**{illustration.finding}**\n\n{illustration.caption}\n\n{illustration.table.title}:\n\n| " in text
        assert all(f"| {' | '.join(row)} |" in text for row in illustration.table.rows)


def test_long_tables_behind_pictures_are_left_to_the_files():
    data = build_run_data()
    curve = data.curve * MAX_PICTURE_ROWS
    text = render_markdown(replace(data, curve=curve))
    rows = len(PICTURES["trade-off"].illustrate(replace(data, curve=curve)).table.rows)
    assert f"Its {rows} values are in the HTML report and in the CSV files of the run folder." in text
    assert "| curve |" not in text


def test_tables_of_the_plan_are_there_row_by_row():
    text = render_markdown(build_run_data())
    table = comparison_table(build_document())
    assert all(f"| {' | '.join(row)} |" in text for row in table.rows)
    assert "```bash\nautotune search\n```" in text


def test_commands_with_backquotes_stay_within_their_fence():
    text = render_markdown(build_run_data(serve_script="echo ```\nexec sglang serve"))
    assert "````bash\necho ```\nexec sglang serve\n````" in text


def test_empty_run_says_what_is_missing():
    text = render_markdown(RunData(name="empty", gaps=(GAP,)))
    assert text.startswith("# empty\n\n**There is no plan")
    assert "| host.csv | is not there | time for host memory | make the run again: autotune search |" in text
