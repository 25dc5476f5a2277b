"""Writes the report on a run folder: a page, Markdown or a PDF, all from one record."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path

from autotune.workflows.run_collection import collect_run
from reports.run_data import RunData
from runtime.documents import replace_file
from runtime.errors import InputError
from runtime.measurement_document import FILE_NAME as MEASUREMENT_NAME
from runtime.measurement_document import MeasurementDocument

REPORT_STEM = "report"


class ReportFormat(StrEnum):
    """What a report is written as; values are suffixes of files."""

    HTML = "html"
    MARKDOWN = "md"
    PDF = "pdf"


def choose_format(typed: ReportFormat | None, out: Path | None) -> ReportFormat:
    """What was typed, else what the name of the file says, else a page."""
    if typed is not None:
        return typed
    suffix = out.suffix.casefold().removeprefix(".") if out is not None else ""
    return ReportFormat(suffix) if suffix in set(ReportFormat) else ReportFormat.HTML


def write_report(data: RunData, path: Path, form: ReportFormat) -> None:
    """Write the report on ``data``; an existing file is replaced whole or not at all, and only if named as a report.

    Raises:
        InputError: the file cannot be written, or may hold something else.
    """
    # Drawing takes a library that is a second in the loading, and most commands draw nothing.
    from reports.page.html import render_html  # noqa: PLC0415
    from reports.page.markdown import render_markdown  # noqa: PLC0415
    from reports.page.pdf import save_pdf  # noqa: PLC0415

    if path.exists() and not path.is_file():
        raise InputError(f"{path} is no file: name a file to write or to replace with --out")
    if path.exists() and path.suffix.casefold().removeprefix(".") not in set(ReportFormat):
        raise InputError(
            f"{path} is there already, and by its name no report (.html, .md, .pdf): name another file with --out"
        )
    if form is ReportFormat.PDF:
        save_pdf(data, path)
        return
    text = render_html(data) if form is ReportFormat.HTML else render_markdown(data)
    try:
        replace_file(path, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise InputError(
            f"cannot write the report {path}: {error.strerror or error}; name a file with --out"
        ) from error


def write_page_beside(folder: Path, source: Path, measurement: MeasurementDocument | None = None) -> str:
    """Write ``report.html`` into ``folder``; returns why there is none, or nothing.

    The run itself is saved by then: whatever goes wrong here must not look as if it were lost.

    Args:
        folder: where the page goes.
        source: the run folder that it is about.
        measurement: an execution of its plan that lies elsewhere.
    """
    try:
        data = collect_run(source)
        if measurement is not None:
            gaps = tuple(gap for gap in data.gaps if gap.file != MEASUREMENT_NAME)
            data = replace(data, measurement=measurement, gaps=gaps)
        write_report(data, folder / f"{REPORT_STEM}.{ReportFormat.HTML}", ReportFormat.HTML)
    except Exception as error:
        return f"no report was written ({type(error).__name__}: {error}); autotune report {folder} tries again"
    return ""
