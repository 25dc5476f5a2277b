import contextlib
import csv
import io
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import given

from autotune.observed.csv_rows import COLUMNS, parse_rows
from autotune.observed.measured_row import read_row
from autotune.observed.observation import Observation
from autotune.observed.refusal import RowRefusedError

GOOD = {
    "gpu": "RTX 4090",
    "model": "MiniMax-H3",
    "component": "DiT+TE+VAE layerwise",
    "workload": "864x480 124f",
    "steps": "21",
    "prefetch": "1",
    "resident": "0",
    "peak_vram": "18",
    "peak_unit": "GiB peak reserved",
    "latency_s": "10.6",
    "latency_scope": "denoise per step",
    "oom": "no",
}
TABLE = Path(__file__).parents[1] / "data" / "public_measurements.csv"
# Words of real cells and signs that break parsers, so that cells are nearly right more often than by chance.
WORDS = sorted({word for cell in TABLE.read_text(encoding="utf-8").split(",") for word in cell.split(" ")})
SIGNS = [*',-~=<>()/;"\n\r\x00\u0663\u00b2\u2028', " ", "<=", "nan", "9" * 30]
CELLS = st.one_of(
    st.text(max_size=40), st.lists(st.sampled_from(WORDS) | st.sampled_from(SIGNS), max_size=8).map("".join)
)


@given(st.dictionaries(st.sampled_from(COLUMNS), CELLS, max_size=5))
def test_any_text_in_any_cell_gives_observations_or_a_reason(changes):
    columns = list({**GOOD, **changes})
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, columns)
    writer.writeheader()
    writer.writerow({**GOOD, **changes})
    for row in parse_rows(file.getvalue(), "runs.csv").rows:
        with contextlib.suppress(RowRefusedError):
            assert all(isinstance(observation, Observation) for observation in read_row(row).observations)


@given(st.text(max_size=400))
def test_any_text_behind_a_header_loses_no_good_row(text):
    header, good = ",".join(GOOD), ",".join(GOOD.values())
    table = parse_rows(f"{header}\n{good}\n{text}", "runs.csv")
    assert table.rows[0].cells["model"] == "MiniMax-H3"
