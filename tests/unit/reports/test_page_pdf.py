"""The report as PDF, and the lines that its sheets are set in."""

import re

import pytest
from run_data_builders import build_run_data

from reports.page.blocks import Bullets, Code, Paragraph
from reports.page.pdf import save_pdf
from reports.page.pictures import PICTURES
from reports.page.text_layout import FIXED_COLUMNS, PROSE_COLUMNS, Style, lay_out
from reports.run_data import RunData
from reports.tables import Table
from runtime.errors import InputError


def count_sheets(path):
    return len(re.findall(rb"/Type\s*/Page\b", path.read_bytes()))


def test_pdf_has_sheets_of_text_and_one_for_every_picture(tmp_path):
    save_pdf(build_run_data(), tmp_path / "whole.pdf")
    save_pdf(RunData(name="empty"), tmp_path / "empty.pdf")
    assert count_sheets(tmp_path / "empty.pdf") == 1
    assert count_sheets(tmp_path / "whole.pdf") >= len(PICTURES) + 2


def test_equal_records_give_equal_files(tmp_path):
    for name in ("one.pdf", "two.pdf"):
        save_pdf(build_run_data(), tmp_path / name)
    assert (tmp_path / "one.pdf").read_bytes() == (tmp_path / "two.pdf").read_bytes()
    assert b"CreationDate" not in (tmp_path / "one.pdf").read_bytes()


def test_pdf_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(InputError, match=r"cannot write the report .*nowhere/report\.pdf: No such file"):
        save_pdf(build_run_data(), tmp_path / "nowhere" / "report.pdf")


def test_lines_fit_the_sheet_and_lose_no_word():
    words = [f"word{number}" for number in range(300)]
    blocks = (Paragraph(text=" ".join(words)), Bullets(lines=(" ".join(words),)), Code(text=" ".join(words)))
    for block in blocks:
        lines = list(lay_out([block]))
        assert " ".join(line.text for line in lines).replace("•", " ").split() == words
        most = FIXED_COLUMNS if isinstance(block, Code) else PROSE_COLUMNS + 1
        assert max(len(line.text) for line in lines) <= most


def test_wide_tables_are_folded_into_the_sheet():
    row = ("a name", "12.5 s", "many words " * 40, "and more words " * 20)
    table = Table(title="Wide", columns=("name", "time", "one", "two"), rows=(row, row), numeric=frozenset({"time"}))
    lines = [line for line in lay_out([table]) if line.style is Style.FIXED]
    assert max(len(line.text) for line in lines) <= FIXED_COLUMNS
    text = " ".join(line.text for line in lines)
    assert text.count("many") == text.count("more") * 2 == 80
    assert any(line.text.startswith("a name  12.5 s  many words") for line in lines)


def test_heads_of_tables_are_kept_with_their_first_row():
    table = Table(title="Short", columns=("name",), rows=(("one",), ("two",)))
    lines = list(lay_out([table]))
    assert [line.text for line in lines if line.keeps_next] == ["Short", "name", "────"]
