"""How long a full report of a run folder takes: reading the folder, then the page, the Markdown text and the PDF.

Protocol: reading and each format are timed by themselves, wall clock and processor time of this process (one thread);
the first round is cold (fonts, caches) and told apart, the statistic is the median of the further ones. Pictures are
timed one by one: composing the figure, and encoding it for the page. The promise is 5 s for every format, reading
included, in the cold round too. It is checked on processor time: one thread works and waits for nothing, so on an idle
machine the wall clock shows the same, and on one that others use it shows what they do. The last line is one JSON
object.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from reporting import describe_command, describe_machine, finish

from autotune.workflows.run_collection import collect_run
from reports.page.html import render_html
from reports.page.inline_picture import encode_picture
from reports.page.markdown import render_markdown
from reports.page.pdf import save_pdf
from reports.page.pictures import PICTURES
from reports.run_data import RunData

MOST_S = 5.0
Result = TypeVar("Result")


class Stopwatch:
    """Wall and processor seconds of every action, round by round."""

    def __init__(self) -> None:
        self.wall_s: dict[str, list[float]] = {}
        self.cpu_s: dict[str, list[float]] = {}

    def time(self, name: str, action: Callable[[], Result]) -> Result:
        """Run ``action`` once, as one round of ``name``."""
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        result = action()
        self.wall_s.setdefault(name, []).append(time.perf_counter() - wall_s)
        self.cpu_s.setdefault(name, []).append(time.process_time() - cpu_s)
        return result

    def tell(self, name: str) -> dict[str, float]:
        """The cold round, and the median of the others."""
        (cold_s, *warm_s), (cold_cpu_s, *warm_cpu_s) = self.wall_s[name], self.cpu_s[name]
        return {
            "cold_s": round(cold_s, 4),
            "median_s": round(statistics.median(warm_s), 4),
            "cold_cpu_s": round(cold_cpu_s, 4),
            "median_cpu_s": round(statistics.median(warm_cpu_s), 4),
        }


def time_pictures(data: RunData, watch: Stopwatch, rounds: int) -> list[dict[str, object]]:
    """Composing and encoding of every picture that ``data`` allows."""
    rows: list[dict[str, object]] = []
    for key, picture in PICTURES.items():
        if picture.collect(data) is None:
            continue
        for _ in range(rounds):
            figure = watch.time(f"{key}: draw", lambda picture=picture: picture.draw(data))
            inline = watch.time(f"{key}: encode", lambda figure=figure: encode_picture(figure))
        rows.append(
            {
                "picture": key,
                "kind": inline.uri.partition(";")[0].removeprefix("data:image/"),
                "inline_bytes": len(inline.uri),
                "draw": watch.tell(f"{key}: draw"),
                "encode": watch.tell(f"{key}: encode"),
            }
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Time the reports of the folder; 1 where one takes longer than promised."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="a run folder, such as runs/h3-24gib")
    parser.add_argument("--rounds", type=int, default=5, help="rounds after the cold one")
    parser.add_argument("--out", type=Path, help="also write the result to this file")
    chosen = parser.parse_args(arguments)
    watch = Stopwatch()
    with tempfile.TemporaryDirectory() as drafts:
        for _ in range(1 + chosen.rounds):
            data = watch.time("read", lambda: collect_run(chosen.folder))
            page = watch.time("html", lambda data=data: render_html(data))
            watch.time("markdown", lambda data=data: render_markdown(data))
            watch.time("pdf", lambda data=data: save_pdf(data, Path(drafts) / "report.pdf"))
    pictures = time_pictures(data, watch, 1 + chosen.rounds)
    parts = {name: watch.tell(name) for name in ("read", "html", "markdown", "pdf")}
    slowest_cpu_s = max(
        part["cold_cpu_s"] + parts["read"]["cold_cpu_s"] for name, part in parts.items() if name != "read"
    )
    result = {
        "benchmark": "report_time",
        **describe_command(__file__, arguments),
        **describe_machine(),
        "model": data.plan.model.name if data.plan else "",
        "curve_points": len(data.curve),
        **parts,
        "html_bytes": len(page.encode()),
        "slowest_cold_cpu_s": round(slowest_cpu_s, 4),
        "limit_s": MOST_S,
        "pictures": pictures,
    }
    finish(result, chosen.out)
    return int(slowest_cpu_s > MOST_S)


if __name__ == "__main__":
    sys.exit(main())
